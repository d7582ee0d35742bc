"""What `vse mine` does: the hardest negatives of runs on a split, or of embeddings, and those that are probably right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsekit import files
from vsekit.bulk.ray import Ray
from vsekit.data.pairs import Pairs
from vsekit.evaluation.meeting import Meeting, Source
from vsekit.evaluation.positives import Positives
from vsekit.mining.false_negatives import FalseNegatives, flag_false_negatives, near_duplicates
from vsekit.mining.mine import MiningResult, mine_scores
from vsekit.progress import QUIET, Progress


@dataclass(frozen=True)
class Mined:
    """The lists, and their likely false negatives: those that score more than `margin` above the best positive, …"""

    lists: MiningResult
    flagged: FalseNegatives
    margin: float

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "out": str(self.lists.folder),
            **self.lists.info,
            "likely_false_negatives": len(self.flagged.pairs),
            "reasons": self.flagged.counts(),
            "margin": self.margin,
        }


def names_of(pairs: Pairs) -> str:
    """A short name of these pictures and captions, in this order; kept with lists, which say only which rows."""
    ids, texts = [picture.id for picture in pairs.pictures], [caption.text for caption in pairs.captions]
    return files.fingerprint(ids, texts, pairs.caption_pictures, pairs.picture_groups)


def mine_met(
    met: Meeting,
    out: Path | str,
    *,
    top_captions: int = 300,
    top_images: int = 60,
    engine: Ray | None = None,
    progress: Progress = QUIET,
) -> MiningResult:
    """Mines what was met; own groups left out."""
    with progress.bar("Mining", "images") as bar:
        return mine_scores(
            met.scores,
            Positives.by_groups(*met.groups).i2t,
            out,
            top_captions=top_captions,
            top_images=top_images,
            fingerprint=met.named_by(),
            collection=names_of(met.pairs) if met.pairs else None,
            engine=engine,
            progress=bar,
        )


def mine_source(
    source: Source,
    out: Path | str,
    *,
    top_captions: int = 300,
    top_images: int = 60,
    margin: float = 0.05,
    engine: Ray | None = None,
    progress: Progress = QUIET,
) -> Mined:
    """Mines runs on data or embeddings, without querybanks: their queries are the very captions and pictures ranked.

    engine: spreads the mining over the workers of Ray; what is not embedded yet is embedded here.
    """
    if engine is not None:
        engine.ready()
    source.check("full")
    met = source.meet(plain=True, progress=progress)
    lengths = {"top_captions": top_captions, "top_images": top_images}
    lists = mine_met(met, out, **lengths, engine=engine, progress=progress)
    doubles = None if met.vectors is None else near_duplicates(met.vectors)
    flagged = flag_false_negatives(lists, *met.groups, margin=margin, texts=met.texts, same_pictures=doubles)
    return Mined(lists, flagged, margin)
