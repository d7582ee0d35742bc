"""Mining before a stage: the teacher scores the whole training set once, and a sampler draws from the lists (AOQ)."""

from __future__ import annotations

from pathlib import Path

from vsekit.errors import UserError
from vsekit.evaluation.meeting import meet
from vsekit.mining.false_negatives import flag_false_negatives
from vsekit.mining.mine import MiningResult
from vsekit.mining.run import mine_met
from vsekit.mining.sampler import OfflineSampler
from vsekit.models.model import VSE, load_model
from vsekit.progress import Progress
from vsekit.training.collection import Collection
from vsekit.training.settings import MineSettings


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
    source = best if settings.teacher == "best" else settings.teacher
    teacher = previous if source == "previous" else load_model(source)
    assert teacher is not None
    # Plain: a querybank's queries are the very captions and pictures to be ranked.
    met = meet(teacher, data.train, plain=True, progress=progress)
    mine_met(met, out, top_captions=settings.captions, top_images=settings.images, progress=progress)


def mined_sampler(settings: MineSettings, data: Collection, lists: Path, progress: Progress) -> OfflineSampler:
    """Draws offline negatives from lists that were mined."""
    result = MiningResult.load(lists)
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
