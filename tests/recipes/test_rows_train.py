"""Every row of every recipe is built and trained for a few steps, with its parts as they are and its sizes shrunk.

Rows that differ only in numbers that shrinking levels (sizes, seeds, data) train once.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vsekit import recipes
from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.losses.max_of_hinges import MaxOfHingesSettings
from vsekit.training import loop
from vsekit.training import stage as stages
from vsekit.training.run import read_metrics
from vsekit.training.settings import RunSettings, StageSettings
from vsekit.training.step import Step

SPLITS = ("train",) * 7 + ("restval",) + ("val",) * 4
WORDS = ("red", "green", "blue", "black", "white", "pink", "dog", "cat", "boat", "tree", "car", "hat")
BATCH = 8  # two steps an epoch: seven or eight pictures with two captions each
BERT = "tiny-bert"
#: Stands for another run: a teacher to mine with or to distil from, or a model to start from.
TEACHER = "another-run"
#: One caption a picture makes one step an epoch, so such stages have two epochs.
TWICE = object()

#: Numbers that shrink in proportion: equal ones stay equal, so identity heads still fit.
SCALED = ("dim", "projection_dim", "word_dim", "hidden", "feedforward")
#: What other numbers of this name become. `captions` and `images` are the lengths of mined lists.
FIXED = {"heads": 2, "slots": 16, "min_count": 1, "max_length": 16, "resize": 20, "pixels": 16, "batch_size": BATCH}
FIXED |= {"pseudo_classes": 3, "samples": 3, "captions": 6, "images": 3}
PIXEL_ENCODERS = ("timm_vision", "transformers_vision", "efficientnet_lite", "small_cnn")


def shrunk(value: Any, key: str = "") -> Any:
    """Settings with the same parts, small enough to train in a moment, and without files they would need."""
    if key == "freeze":
        return [part for part in value if part != "image.tail"]  # the small encoder is whole
    if isinstance(value, list) and key != "teacher":
        return [shrunk(item) for item in value]
    if isinstance(value, dict):
        if value.get("kind") in PIXEL_ENCODERS:
            output = value.get("output", "pooled")
            return {"kind": "small_cnn", "widths": [4, 8], "pixels": 16, "output": output}
        change: dict[str, Any] = {"model": BERT} if value.get("kind") == "transformer" and "max_length" in value else {}
        if value.get("kind") == "text_cnn":
            change["dim"] = 2048  # to be shrunk to 32, the least it takes
        if value.get("captions") == "one_per_picture":
            change["epochs"] = TWICE
        return {name: shrunk(item, name) for name, item in (value | change).items()}
    if key == "epochs" and value is TWICE:
        return 2
    if key == "epochs":
        return 1 if isinstance(value, int) else 0.5  # of a stage; of a loss, after how much of it it changes
    if type(value) is int and key in SCALED:
        return max(8, value // 64)
    if type(value) is int and key in FIXED:
        return FIXED[key]
    if key in ("start", "teacher") and value not in (None, "previous", "best", "scratch"):
        return TEACHER
    return {"word_vectors": None, "seed": 0}.get(key, value)


#: Settings with every default written out, by row.
COMPLETE = {row.id: RunSettings.model_validate(row.settings).model_dump(mode="json") for row in recipes.rows()}
#: The different ones among them when shrunk, by the first row that has them.
ROWS: dict[str, dict[str, Any]] = {}
for _row, _settings in COMPLETE.items():
    _small = shrunk(_settings)
    if _small not in ROWS.values():
        ROWS[_row] = _small


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with twelve pictures."""
    folder = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    for number in range(len(SPLITS)):
        Image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def bert(workplace: Path) -> None:
    """A BERT of two layers in the workplace."""
    transformers = pytest.importorskip("transformers", reason="needs the extra 'transformers'")
    folder = workplace / BERT
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "is", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
    transformers.BertTokenizer.from_pretrained(folder).save_pretrained(folder)


def collection(folder: Path, image: dict[str, Any]) -> Pairs:
    """Twelve pictures with two captions each; with features instead of files where the encoder is `precomputed`."""
    pictures, captions = [], []
    for number, split in enumerate(SPLITS):
        a, b = WORDS[number], WORDS[(number + 5) % 12]
        pictures.append(Picture(str(number), folder / f"{number}.png", split, str(number), row=number))
        captions += [Caption(f"a {a} {b}", number), Caption(f"the {b} is a {a} {b}", number)]
    if image["encoder"]["kind"] != "precomputed":
        return Pairs(pictures, captions, folder)
    rng, dim = np.random.default_rng(1), image["encoder"]["dim"] or 32
    if image["pooling"]["kind"] == "single":
        return Pairs(pictures, captions, folder, rng.normal(size=(12, dim)).astype(np.float32))
    lengths = rng.integers(3, 6, 12)
    return Pairs(pictures, captions, folder, rng.normal(size=(12, 5, dim)).astype(np.float32), feature_lengths=lengths)


def teacher(settings: RunSettings) -> RunSettings:
    """The same model, trained for a moment with a loss that needs no other run."""
    stage = next(iter(settings.stages.values()))
    alone = stage.model_copy(update={"start": "previous", "mine": None, "teacher": None, "loss": MaxOfHingesSettings()})
    return settings.model_copy(update={"stages": {"first": alone}})


class Movements:
    """Watches the parameters of each stage: `moved` says of every part whether any of its numbers changed."""

    def __init__(self) -> None:
        self.moved: list[dict[str, bool]] = []
        self._watched: list[tuple[str, torch.Tensor, torch.Tensor]] = []

    def stage_begins(self, step: Step) -> None:
        self.stage_ends()
        for name, parameter in step.named_parameters():
            part = ".".join(name.split(".")[:3]) + ("" if parameter.requires_grad else " (frozen)")
            self._watched.append((part, parameter, parameter.detach().clone()))

    def forget(self) -> None:
        self.moved, self._watched = [], []

    def stage_ends(self) -> None:
        parts: dict[str, bool] = {}
        for part, now, before in self._watched:
            parts[part] = parts.get(part, False) or not torch.equal(now, before)
        if parts:
            self.moved.append(parts)
        self._watched = []


@pytest.fixture
def movements(monkeypatch: pytest.MonkeyPatch) -> Movements:
    watch, build = Movements(), stages.build_optimisers

    def watched(step: Step, settings: StageSettings) -> list[torch.optim.Optimizer]:
        watch.stage_begins(step)
        return build(step, settings)

    monkeypatch.setattr(stages, "build_optimisers", watched)
    return watch


@pytest.mark.parametrize("row", ROWS)
def test_the_row_trains(
    row: str,
    workplace: Path,
    movements: Movements,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if ROWS[row]["model"]["text"]["encoder"]["kind"] == "transformer":
        request.getfixturevalue("bert")
    monkeypatch.chdir(workplace)
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    settings = RunSettings.model_validate(ROWS[row])
    pairs = collection(workplace, ROWS[row]["model"]["image"])
    if TEACHER in str(ROWS[row]):
        if (workplace / BERT).is_dir():
            (tmp_path / BERT).symlink_to(workplace / BERT)
        monkeypatch.chdir(tmp_path)
        loop.train(teacher(settings), pairs, tmp_path / TEACHER, device="cpu")
        movements.forget()
    loop.train(settings, pairs, tmp_path / "run", device="cpu")
    movements.stage_ends()

    losses = [line["loss"] for line in read_metrics(tmp_path / "run") if line["event"] == "train"]
    assert len(losses) == 2 * len(settings.stages)
    assert all(math.isfinite(loss) for loss in losses)
    assert len(movements.moved) == len(settings.stages)
    for stage in movements.moved:
        assert stage == {part: not part.endswith("(frozen)") for part in stage}


def test_shrinking_keeps_every_part() -> None:
    def kinds(value: Any) -> list[str]:
        if isinstance(value, list):
            return [kind for item in value for kind in kinds(item)]
        if not isinstance(value, dict):
            return []
        own = ["pixels" if value["kind"] in PIXEL_ENCODERS else value["kind"]] if "kind" in value else []
        return own + [kind for item in value.values() for kind in kinds(item)]

    for row, settings in COMPLETE.items():
        assert kinds(shrunk(settings)) == kinds(settings), row


def test_members_of_an_ensemble_are_rows_of_the_recipe() -> None:
    for row in recipes.rows():
        for member in row.ensemble:
            assert f"{row.recipe}:{member}" in COMPLETE, row.id
