from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from vsekit.demo.story import demo

SMALL = ("stages.main.epochs=2", "stages.main.loss.epochs=1", "model.dim=32", "model.text.encoder.dim=32")


class Pictures(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return demo(tmp_path_factory.mktemp("demo") / "out", train_pictures=96, test_pictures=16, sets=SMALL)


def test_the_demo_tells_the_whole_story(result) -> None:  # type: ignore[no-untyped-def]
    assert list(result.metrics) == ["chance", "untrained", "trained"]
    assert len(result.text_answers) == 3
    assert len(result.image_answers) == 2
    assert result.mined.captions.shape == (96, 50)
    assert [len(row) for row in result.table()] == [10] * 3


def test_its_report_holds_pictures_and_asks_for_nothing(result) -> None:  # type: ignore[no-untyped-def]
    page = Pictures()
    page.feed((result.out / "report.html").read_text(encoding="utf-8"))
    assert len(page.sources) >= 3 * 5 + 2 + 2
    assert all(source.startswith("data:image/jpeg;base64,") for source in page.sources)


def test_the_same_seed_gives_the_same_digits_again(result, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    again = demo(tmp_path / "out", train_pictures=96, test_pictures=16, sets=SMALL)
    assert again.table() == result.table()
    assert (again.out / "run" / "metrics.jsonl").read_bytes() == (result.out / "run" / "metrics.jsonl").read_bytes()
    assert [list(a.found) for a in again.text_answers] == [list(a.found) for a in result.text_answers]


def test_the_command_repeats_a_finished_demo_in_the_same_folder(result) -> None:  # type: ignore[no-untyped-def]
    program = "import torch; torch.set_num_threads(1); from vsekit.cli import main; main()"
    sizes = ["--train", "96", "--test", "16", *(word for s in SMALL for word in ("--set", s))]
    command = [sys.executable, "-c", program, "demo", "--out", str(result.out), "--json", *sizes]
    printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert printed["trained"]["rsum"] == pytest.approx(result.metrics["trained"].rsum)
