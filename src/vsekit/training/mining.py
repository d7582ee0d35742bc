"""Mining before a stage: the teacher scores the whole training set once, and a sampler draws from the lists (AOQ).

In place of a teacher, the lists that `vse mine` made with any runs or embeddings serve as well.
"""

from __future__ import annotations

from pathlib import Path

from vsekit.errors import UserError
from vsekit.evaluation.meeting import RunsOnData, meet
from vsekit.mining.false_negatives import flag_false_negatives
from vsekit.mining.mine import MARKER, MiningResult
from vsekit.mining.run import mine_met, names_of
from vsekit.mining.sampler import OfflineSampler
from vsekit.models.model import VSE
from vsekit.progress import Progress
from vsekit.training.collection import Collection
from vsekit.training.settings import MineSettings


def given_lists(settings: MineSettings) -> Path | None:
    """The folder of lists that stands in place of a teacher."""
    teacher = settings.teacher
    return teacher if isinstance(teacher, Path) and (teacher / MARKER).is_file() else None


def mined_lists(
    settings: MineSettings, previous: VSE | None, best: Path, data: Collection, out: Path, progress: Progress
) -> None:
    """Mines the training set into `out`; a kill loses little, and lists that are whole stay.

    Args:
        previous: the model as the last stage left it.
        best: the folder of the best snapshot so far.
    """
    own = settings.teacher in ("previous", "best")
    if own and previous is None:
        raise UserError(
            "the first stage has no model before it to mine with",
            field="mine.teacher",
            remedy="Give the path of a trained run, or train a stage first.",
        )
    # Plain: a querybank's queries are the very captions and pictures to be ranked.
    if settings.teacher == "previous" and previous is not None:
        met = meet(previous, data.train, plain=True, progress=progress)
    else:
        source = best if settings.teacher == "best" else settings.teacher
        met = RunsOnData([source], data.train).meet(plain=True, progress=progress)
    mine_met(met, out, top_captions=settings.captions, top_images=settings.images, progress=progress)


def mined_sampler(settings: MineSettings, data: Collection, lists: Path, progress: Progress) -> OfflineSampler:
    """Draws offline negatives from lists that were mined."""
    result = MiningResult.load(lists)
    _check_lists(result, settings, data)
    skip = None
    if settings.skip_above is not None:
        pairs = data.train
        texts = [caption.text for caption in pairs.captions]
        flagged = flag_false_negatives(
            result,
            pairs.picture_groups,
            pairs.caption_groups,
            margin=settings.skip_above,
            texts=texts,
            top=settings.captions,
        )
        skip = flagged.pairs
        progress.say("Left out " + "; ".join(flagged.summary()))
    return OfflineSampler(
        result.captions,
        result.images,
        data.train.caption_pictures,
        data.train.picture_groups,
        h=settings.captions,
        h_images=settings.images,
        distribution=settings.distribution,
        ranks=settings.ranks,
        skip=skip,
    )


def _check_lists(result: MiningResult, settings: MineSettings, data: Collection) -> None:
    """UserError if the lists are of other pictures and captions, or too short."""
    info, pairs = result.info, data.train
    sizes = info["n_images"], info["n_captions"]
    if sizes != (len(pairs.pictures), len(pairs.captions)) or info.get("collection", names_of(pairs)) != names_of(
        pairs
    ):
        raise UserError(
            f"these lists are of other pictures and captions than the {len(pairs.pictures):,} and {len(pairs.captions):,} "
            "that are trained on",
            file=result.folder,
            field="mine.teacher",
            remedy="Mine the same training split: vse mine --split train",
        )
    for name, option, wanted, there in (
        ("captions", "--top-captions", settings.captions, info["top_captions"]),
        ("images", "--top-images", settings.images, info["top_images"]),
    ):
        if wanted > there:
            raise UserError(
                f"the lists hold {there} {name}, and {wanted} are to be drawn from",
                file=result.folder,
                field=f"mine.{name}",
                remedy=f"Choose 1 … {there}, or mine longer lists: vse mine {option} {wanted}",
            )
