"""One small collection and everything vsekit makes of it, each command as a person would type it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from tests.attack.nursery import End, Nursery

COLOURS = ("red", "green", "blue", "black", "white", "pink")
THINGS = ("dog", "cat", "boat", "tree")
CNN = "--set widths=[4,8] --set pixels=16"
SMALL = "--set model.dim=8 --set model.text.encoder.dim=8 --set model.text.encoder.word_dim=4"

RECIPE = {
    "model": {
        "dim": 12,
        "image": {"encoder": "precomputed", "pooling": "single"},
        "text": {"encoder": {"kind": "gru", "word_dim": 6, "dim": 12, "min_count": 1}, "pooling": "last"},
    },
    "stages": {
        "first": {"epochs": 2, "batch_size": 8, "loss": "sum_of_hinges", "optimiser": {"kind": "adam", "lr": 0.01}},
        "second": {
            "epochs": 1,
            "batch_size": 8,
            "start": "best",
            "loss": "max_of_hinges",
            "optimiser": {"kind": "sgd", "lr": 0.01},
        },
    },
}
OF_STATES = {
    "model": {
        "dim": 12,
        "image": {"encoder": "precomputed", "pooling": "single"},
        "text": {"encoder": {"kind": "transformer", "model": "bert"}, "pooling": "mean"},
    },
    "stages": {
        "only": {
            "freeze": ["text.encoder"],
            "epochs": 1,
            "batch_size": 8,
            "loss": "sum_of_hinges",
            "optimiser": {"kind": "adam", "lr": 0.01},
        },
    },
}


@dataclass(frozen=True)
class Command:
    """A command that writes.

    makes: what it writes, below the world's folder. again: what is added when it is told to go on after a kill. index: an
    index that it makes, which is compared by what it answers. runs: folders of runs, whose state is not compared. coarse: how
    its moments are counted, see `nursery`.
    """

    name: str
    line: str
    makes: tuple[str, ...]
    again: str = ""
    index: str = ""
    runs: tuple[str, ...] = ()
    coarse: bool = False


ON_DATA = "--data photos.csv --features features"
SEARCH = ("search", "index", "a red dog", "--top", "30", "--no-pictures", "--json")
COMMANDS = (
    Command("features", f"features small_cnn --data photos.csv --out features {CNN} --batch-size 4", ("features",)),
    Command("states", "features transformer --set model=bert --data photos.csv --out states", ("states",)),
    Command(
        "train", f"train tiny.yaml {ON_DATA} --out run --checkpoint-seconds 0", ("run",), "--resume", runs=("run",)
    ),
    Command("mine", f"mine run {ON_DATA} --out mined --top-captions 5 --top-images 4", ("mined",)),
    Command("index", "index run photos.csv --out index", ("index",), index="index"),
    Command("report", f"report run {ON_DATA} --split val --out report.html", ("report.html",)),
    Command("audit", f"audit run {ON_DATA} --out audit.html", ("audit.html",)),
    Command("evaluate", f"evaluate run {ON_DATA} --csv figures.csv --trec trec", ("figures.csv", "trec")),
    Command("scenes", "data scenes --out scenes --train 6 --val 2 --test 2 --pixels 32", ("scenes",)),
    Command("sheet", "search index red --no-pictures --json --sheet sheet.html", ("sheet.html",)),
    Command("clean", "data clean photos.csv --out clean", ("clean",)),
    Command("copy", "index copy index copied", ("copied",), index="copied"),
    Command("embed", "embed run --data photos.csv --out vectors --parquet", ("vectors",)),
    Command("export", "export run onnx --to onnx", ("onnx",), coarse=True),
    Command(
        "reproduce",
        f"reproduce scenes:vse0 --data scenes --out runs {SMALL} --set stages.main.epochs=1 --set stages.main.batch_size=8",
        ("runs",),
        runs=("runs/scenes/vse0",),
    ),
    Command(
        "demo",
        f"demo --out demo --train 12 --test 4 {SMALL} --set stages.main.epochs=1 --set stages.main.batch_size=8",
        ("demo",),
        index="demo/index",
        runs=("demo/run",),
    ),
)


def typed(command: Command) -> list[str]:
    return [*command.line.split(), *([] if command.name == "sheet" else ["--quiet"])]  # a search has none


def write_sources(folder: Path) -> None:
    """24 pictures of one colour with captions, two recipes and a tiny BERT."""
    rng = np.random.default_rng(0)
    (folder / "photos").mkdir(parents=True)
    lines = ["image,caption,split,year"]
    for i in range(24):
        colour, thing = COLOURS[i % 6], THINGS[i // 6]
        image = np.asarray(Image.new("RGB", (24, 20), colour)).astype(int) + rng.integers(-20, 20, (20, 24, 3))
        Image.fromarray(image.clip(0, 255).astype(np.uint8)).save(folder / "photos" / f"{i:02d}.png")
        split = ("train", "train", "val", "test")[i // 6]
        lines += [
            f"photos/{i:02d}.png,{text},{split},{2000 + i}"
            for text in (f"a {colour} {thing}", f"the {thing} is {colour}")
        ]
    (folder / "photos.csv").write_text("\n".join(lines) + "\n")
    (folder / "tiny.yaml").write_text(yaml.safe_dump(RECIPE, sort_keys=False))
    (folder / "states.yaml").write_text(yaml.safe_dump(OF_STATES, sort_keys=False))
    _write_bert(folder / "bert")


def _write_bert(folder: Path) -> None:
    import transformers

    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "is", *COLOURS, *THINGS]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=32, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer.from_pretrained(folder).save_pretrained(folder)


class World:
    """The collection and what is made of it, whole, in `whole`; attacks happen on copies, at one and the same place."""

    def __init__(self, folder: Path, nursery: Nursery) -> None:
        self.whole, self.copy, self.nursery = folder / "whole", folder / "copy", nursery
        self.moments: dict[str, int] = {}
        write_sources(self.copy)
        for command in COMMANDS:
            if (
                command.index and command.name != "copy"
            ):  # exports a model, once on a machine; counted, it takes a minute
                assert self.vse(*typed(command)).code == 0
                for name in command.makes:
                    shutil.rmtree(self.copy / name)
            end = self.vse(*typed(command), kill=0, coarse=command.coarse)
            assert end.code == 0, end
            self.moments[command.name] = end.moments
        self.made = {c.name: self.result(c) for c in COMMANDS}
        shutil.copytree(self.copy, self.whole)

    def vse(self, *arguments: str, **faults: Any) -> End:
        return self.nursery.run(*arguments, folder=self.copy, **faults)

    def restore(self, *without: str) -> None:
        """The copy as it was, but for some of what was made."""
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.whole, self.copy, ignore=lambda at, names: without if Path(at) == self.whole else ())

    def result(self, command: Command) -> dict[str, str]:
        """What a command made: a digest of every file; of an index what it answers."""
        found = {}
        if command.index:
            answer = answered(self.vse("search", command.index, *SEARCH[2:]))
            # The demo draws its pictures anew each time.
            drawn = r'"(mtime_ns": \d+|dated": "[^"]*")'
            found["answer"] = re.sub(drawn, "", answer) if command.name == "demo" else answer
        for name in command.makes:
            place = self.copy / name
            for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
                at = path.relative_to(self.copy).as_posix()
                aside = (*(f"{run}/state/" for run in command.runs), f"{command.index or '-'}/")
                left = path.suffix == ".tmp" and command.name in SHARED
                if path.is_file() and path.name not in UNREPEATABLE and not at.startswith(aside) and not left:
                    found[at] = hashlib.sha256(path.read_bytes().rstrip()).hexdigest()
        return found


#: Files that are never the same twice, or that are there while a process works.
UNREPEATABLE = {"timings.jsonl", ".lock"}
#: Commands that write into a folder that may be another's too, and sweep nothing there.
SHARED = {"evaluate", "clean"}


def answered(end: End) -> str:
    """A search's answer without the time it took."""
    assert end.code == 0, end
    answer = json.loads(end.out)
    return json.dumps({name: value for name, value in answer.items() if name != "timing"}, sort_keys=True)
