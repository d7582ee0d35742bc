"""The report of a run: what the model can do, how it learned and how it errs, as data and as one self-contained page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsekit.data.pairs import Pairs
from vsekit.data.views import ViewSettings, crops, normalised, resized
from vsekit.diagnostics.attention import Attention, attends, attention
from vsekit.diagnostics.audit import pooled
from vsekit.diagnostics.correlation import Correlation, feature_correlation
from vsekit.diagnostics.cross_retrieval import CrossRetrieval, cross_retrieval
from vsekit.diagnostics.curves import Curves, training_curves
from vsekit.diagnostics.false_negatives import FalseNegative, false_negatives
from vsekit.diagnostics.galleries import Gallery, gallery, spread
from vsekit.diagnostics.overlap import Overlap, similarity_overlap
from vsekit.diagnostics.scores import ScoreMatrix
from vsekit.diagnostics.uniformity import Uniformity, alignment_uniformity
from vsekit.diagnostics.words import Words, discriminative_words
from vsekit.errors import UserError
from vsekit.evaluation.config import written_config
from vsekit.evaluation.meeting import Meeting, kept_captions, meet
from vsekit.evaluation.metrics import Metrics, chance_level
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.significance import confidence
from vsekit.features.store import FeatureStore
from vsekit.files import write_text
from vsekit.models.model import VSE, load_model
from vsekit.models.tower import mean_of_views
from vsekit.parts import Sets
from vsekit.progress import QUIET, Progress
from vsekit.report.run_page import run_page
from vsekit.training.run import read_metrics

MOST_SCORES = 2**28  # held in memory at once: a gigabyte
CORRELATED, CONFUSED, EXPLAINED = 100, 6, 4


@dataclass(frozen=True)
class RunReport:
    """All the report shows, as data; numbers of pictures and captions are those of `pairs`.

    of: pictures in the whole split, when `pairs` is a sample of it. correlation_missing: why there is no correlation.
    words, attention: of a picture and one of its captions, by (picture, caption).
    """

    run: Path
    pairs: Pairs
    of: int
    metrics: Metrics
    chance: Metrics
    curves: Curves | None
    overlap: Overlap
    cross_retrieval: CrossRetrieval
    uniformity: Uniformity
    correlation: Correlation | None
    correlation_missing: str
    texts: Gallery
    images: Gallery
    confusions: list[FalseNegative]
    words: dict[tuple[int, int], Words]
    attention: dict[tuple[int, int], Attention]
    view: ViewSettings
    config: str

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints: every diagnostic's data."""
        result: dict[str, Any] = {"metrics": self.metrics.to_dict(), "chance": self.chance.to_dict()}
        for name in ("curves", "overlap", "cross_retrieval", "uniformity", "correlation", "texts", "images"):
            value = getattr(self, name)
            result[name] = None if value is None else asdict(value)
        result["confusions"] = [asdict(found) for found in self.confusions]
        for name in ("words", "attention"):
            items = getattr(self, name).items()
            result[name] = [{"picture": p, "caption": c, **asdict(found)} for (p, c), found in items]
        return result


def write_run_report(
    run: Path | str,
    pairs: Pairs,
    out: Path | str | None = None,
    *,
    store: FeatureStore | None = None,
    progress: Progress = QUIET,
) -> RunReport:
    """Measures a run on a split and writes the page.

    Args:
        run: a run folder, or a model folder (which has no curves).
        pairs: the split, with features attached where they stand for the pictures.
        out: the file; by default report.html in the run folder.
        store: where the features came from: it knows the boxes of regions.
    """
    report = run_report(run, pairs, store=store, progress=progress)
    write_text(Path(out) if out else Path(run) / "report.html", run_page(report))
    return report


def run_report(
    run: Path | str, pairs: Pairs, *, store: FeatureStore | None = None, progress: Progress = QUIET
) -> RunReport:
    """The data of the report. Args as in `write_run_report`."""
    run, whole = Path(run), len(pairs.pictures)
    model = load_model(run)
    pairs = _sample(kept_captions([run], pairs))
    groups = pairs.picture_groups, pairs.caption_groups
    if len(set(pairs.caption_groups.tolist())) < 2:
        raise UserError(
            "this split has captions of fewer than two groups, so nothing can be retrieved",
            file=pairs.root,
            remedy="Choose another --split.",
        )
    met = meet(model, pairs, progress=progress)
    images, captions = met.images, met.captions
    with progress.bar("Scores", "pictures") as bar:
        matrix = ScoreMatrix.of(met.scores, bar)
    scores, measured = matrix.values, evaluate(matrix, *groups)
    vectors = None if isinstance(images, Sets) else (images.numpy(), captions.numpy())
    correlation, missing = _correlation(met)
    explained = _explained(pairs)
    view = ViewSettings.model_validate(store.header["view"]) if store else model.view
    log, config = run / "metrics.jsonl", run / "config.yaml"
    return RunReport(
        run=run,
        pairs=pairs,
        of=whole,
        metrics=replace(measured, ci=confidence(measured)),
        chance=chance_level(Positives.by_groups(*groups)),
        curves=training_curves(read_metrics(run)) if log.is_file() or config.is_file() else None,
        overlap=similarity_overlap(scores, *groups),
        cross_retrieval=cross_retrieval(scores, *groups),
        uniformity=alignment_uniformity(scores, *groups, vectors),
        correlation=correlation,
        correlation_missing=missing,
        texts=gallery(scores.T, groups[1], groups[0]),
        images=gallery(scores, *groups),
        confusions=false_negatives(matrix, *groups, margin=0.0, top=CONFUSED),
        words={(p, c): discriminative_words(model, _one(images, p), pairs.captions[c].text) for p, c in explained},
        attention={
            (p, c): attention(model, _one(images, p), pairs.captions[c].text, _boxes(model, pairs, p, view, store))
            for p, c in (explained if attends(model) else [])
        },
        view=view,
        config=written_config(run)[0] if config.is_file() or log.is_file() else "",
    )


def _sample(pairs: Pairs) -> Pairs:
    """The pairs, or, where their scores would not fit into memory, as many pictures as do, evenly spread."""
    n, m = len(pairs.pictures), len(pairs.captions)
    if n * m <= MOST_SCORES:
        return pairs
    return pairs.take(spread(np.arange(n), int(n * (MOST_SCORES / (n * m)) ** 0.5)).tolist())


def _one(embedding: Any, i: int) -> Any:
    """The embedding of one item, as a batch of one."""
    if isinstance(embedding, Sets):
        return Sets(embedding.vectors[i : i + 1], embedding.mask[i : i + 1])
    return embedding[i : i + 1]


def _explained(pairs: Pairs) -> list[tuple[int, int]]:
    """A few pictures, evenly spread, each with the first of its captions."""
    _, first = np.unique(pairs.caption_pictures, return_index=True)
    return [(int(pairs.caption_pictures[c]), int(c)) for c in spread(np.sort(first), EXPLAINED)]


def _correlation(met: Meeting) -> tuple[Correlation | None, str]:
    """Features of the image encoder before training, and the embeddings; or why the former are not to be had."""
    after, inputs = pooled(met.images), met.inputs
    assert met.model is not None
    assert inputs is not None
    chosen = spread(np.arange(len(after)), CORRELATED)
    loaded, _ = inputs.load(chosen, np.random.default_rng(0))
    if isinstance(loaded, Sets):
        loaded = mean_of_views(loaded)
    else:
        try:
            loaded = _untrained(met.model, loaded)
        except UserError as error:
            return None, error.what
    return feature_correlation(pooled(loaded), after[chosen]), ""


@torch.inference_mode()
def _untrained(model: VSE, pixels: Any) -> Any:
    """What the encoder makes of pixels (B, V, 3, P, P) as it was before training: pretrained, or at random."""
    settings = model.settings.image.encoder
    fresh = settings.model_copy(update={"config": None}) if getattr(settings, "config", None) else settings
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        encoder = fresh.build().eval()
    sets = encoder(normalised(pixels.flatten(0, 1), encoder.mean, encoder.std))
    return Sets(sets.vectors.unflatten(0, pixels.shape[:2]).mean(1), sets.mask.unflatten(0, pixels.shape[:2])[:, 0])


@torch.inference_mode()
def _boxes(model: VSE, pairs: Pairs, picture: int, view: ViewSettings, store: FeatureStore | None) -> np.ndarray | None:
    """(N, 4) boxes of a picture's regions, from the features or from a detector in the model; None: a grid, if any."""
    item = pairs.pictures[picture]
    if store is not None and item.row is not None:
        return np.asarray(store.array("boxes")[item.row]) if (store.folder / "boxes.npy").is_file() else None
    encoder: Any = model.image.encoder
    if item.row is not None or not hasattr(encoder, "regions"):
        return None
    pixels = torch.from_numpy(crops(resized(item.open(view.resize), view), view))
    return encoder.regions(normalised(pixels, encoder.mean, encoder.std))[1][0].numpy()
