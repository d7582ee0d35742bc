"""The whole story on a generated sample: draw, train, evaluate, mine, report, index. What `vse demo` does."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from vsekit.data.pairs import Pairs, Picture
from vsekit.data.readers import read
from vsekit.data.scenes import holds, write_scenes
from vsekit.evaluation.meeting import meet
from vsekit.evaluation.metrics import Metrics, chance_level
from vsekit.evaluation.positives import Positives
from vsekit.evaluation.protocols import evaluate
from vsekit.mining.mine import MiningResult
from vsekit.mining.run import mine_met
from vsekit.models.model import VSE, load_model
from vsekit.progress import QUIET, Progress
from vsekit.recipes import load_settings
from vsekit.training.loop import train
from vsekit.training.run import finished

RECIPE = "vsepp:demo"
TEXT_QUERIES, IMAGE_QUERIES, SHOWN = 3, 2, 5


@dataclass(frozen=True)
class Answer:
    """A query and what was found: pictures for a caption, captions for a picture; `right` says which are true."""

    query: int
    found: np.ndarray
    right: list[bool]


@dataclass(frozen=True)
class Demo:
    """What the demo found out. metrics: by "chance", "untrained" and "trained"."""

    out: Path
    test: Pairs
    metrics: dict[str, Metrics]
    scores: np.ndarray
    text_answers: list[Answer]
    image_answers: list[Answer]
    mined: MiningResult
    train: Pairs

    @property
    def index(self) -> Path:
        """The held-out scenes, to be searched: vse search, vse serve."""
        return self.out / "index"

    @property
    def positive(self) -> np.ndarray:
        """(n_pictures, n_captions) which pairs belong together."""
        return self.test.picture_groups[:, None] == self.test.caption_groups

    @property
    def truth(self) -> float:
        """Share of captions whose first answer is a picture they are true of, their own or not."""
        first = self.scores.argmax(axis=0)
        test = self.test
        return float(
            np.mean([holds(c.meta["facts"], test.pictures[p].meta["scene"]) for c, p in zip(test.captions, first)])
        )

    @property
    def hard_examples(self) -> list[tuple[Picture, str, list[str]]]:
        """Training pictures with a caption of their own and the hardest captions of others."""
        captions, pictures = self.train.captions, self.train.pictures
        own = dict(zip(self.train.caption_pictures[::-1].tolist(), reversed([c.text for c in captions])))
        chosen = _spread(len(pictures), IMAGE_QUERIES)
        return [(pictures[p], own[p], [captions[c].text for c in self.mined.captions[p][:SHOWN]]) for p in chosen]

    def table(self) -> list[tuple[str, ...]]:
        """R@1/5/10 and median rank both ways, and rsum, a row each."""
        rows = []
        for name, m in self.metrics.items():
            cells = [f"{side[key]:.1f}" for side in (m.i2t, m.t2i) for key in ("r1", "r5", "r10", "medr")]
            rows.append((name, *cells, f"{m.rsum:.1f}"))
        return rows


def demo(
    out: Path = Path("runs/demo"),
    *,
    seed: int = 0,
    train_pictures: int = 3000,
    test_pictures: int = 300,
    sets: tuple[str, ...] = (),
    progress: Progress = QUIET,
) -> Demo:
    """Runs the story into `out`. An interrupted run goes on where it was; a finished one is made anew."""
    from vsekit.demo.page import write_report
    from vsekit.search.indexing import index

    settings = load_settings(RECIPE, [f"seed={seed}", *sets])
    with progress.bar("Drawing scenes", "pictures") as bar:
        collection = write_scenes(
            out / "scenes", train=train_pictures, val=test_pictures, test=test_pictures, seed=seed, progress=bar
        )
    pairs = read(collection)
    run = out / "run"
    if finished(run):
        shutil.rmtree(run)
    train(settings, pairs, run, source={"recipe": RECIPE, "data": str(collection)}, resume=True, progress=progress)

    test = pairs.split("test")
    model = load_model(run)
    torch.manual_seed(seed)
    untrained = VSE(model.settings, model.tokenizer, model.view).eval()
    measured = {
        "chance": chance_level(Positives.by_groups(test.picture_groups, test.caption_groups)),
        "untrained": _measured(untrained, test)[0],
    }
    measured["trained"], scores = _measured(model, test)
    learned = pairs.split("train")
    result = Demo(
        out,
        test,
        measured,
        scores,
        [_ask(test, caption, scores[:, caption], text=True) for caption in _spread(len(test.captions), TEXT_QUERIES)],
        [_ask(test, picture, scores[picture], text=False) for picture in _spread(len(test.pictures), IMAGE_QUERIES)],
        _mined(model, learned, out / "mined", progress),
        learned,
    )
    write_report(result, run, out / "report.html")
    if find_spec("faiss"):
        index(run, test, result.index, rebuild=True, export=True, progress=progress)
    else:
        progress.say("No index is made: search needs pip install 'vsekit[serve]'.")
    return result


def _measured(model: VSE, test: Pairs) -> tuple[Metrics, np.ndarray]:
    met = meet(model, test)
    return evaluate(met.scores, *met.groups), model.similarity(met.images, met.captions).numpy()


def _mined(model: VSE, pairs: Pairs, out: Path, progress: Progress) -> MiningResult:
    """The hardest captions of every training picture, and the hardest pictures of every caption."""
    shutil.rmtree(out, ignore_errors=True)
    return mine_met(meet(model, pairs, plain=True), out, top_captions=50, top_images=10, progress=progress)


def _spread(n: int, count: int) -> list[int]:
    """`count` of n numbers, evenly spread; the same ones every time."""
    return [(2 * i + 1) * n // (2 * count) for i in range(count)]


def _ask(test: Pairs, query: int, scores: np.ndarray, *, text: bool) -> Answer:
    """The best answers, and whether each is true of the picture, be it the query's own or not."""
    found = np.argsort(-scores, kind="stable")[:SHOWN]
    pairs = [(picture, query) if text else (query, picture) for picture in found]
    right = [holds(test.captions[c].meta["facts"], test.pictures[p].meta["scene"]) for p, c in pairs]
    return Answer(query, found, right)
