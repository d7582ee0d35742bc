"""The demo's report: how far the model got beside chance, its curves, and what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vsekit.drawing.charts import histogram, lines
from vsekit.drawing.page import beside, folded, listed, page, picture, query, row, section, table
from vsekit.evaluation.config import written_config
from vsekit.files import write_text
from vsekit.training.run import read_metrics

if TYPE_CHECKING:
    from vsekit.demo.story import Answer, Demo

HEADER = ("", "i→t R@1", "R@5", "R@10", "Med r", "t→i R@1", "R@5", "R@10", "Med r", "rsum")


def write_report(demo: Demo, run: Path, path: Path) -> None:
    """Writes the report of a demo whose run folder is `run`."""
    test = demo.test
    rows = demo.table()
    metrics = read_metrics(run)
    validations = [line for line in metrics if line["event"] == "validation"]
    steps = [line for line in metrics if line["event"] == "train"]
    recall = {
        name: [(line["epoch"], line[way]["r1"]) for line in validations]
        for name, way in (("image → text", "i2t"), ("text → image", "t2i"))
    }
    charts = (
        lines(recall, "epoch", "R@1 on the validation split"),
        lines({"loss": [(line["step"], line["loss"]) for line in steps]}, "step", "training loss", log=True),
        histogram(
            {"own": demo.scores[demo.positive], "others": demo.scores[~demo.positive]},
            "similarity",
            "own and other captions on test",
        ),
    )
    sections = [
        section(
            "Results on held-out scenes",
            table(HEADER, rows, main=len(rows) - 1),
            note=f"{len(test.pictures)} pictures and {len(test.captions)} captions of combinations of shape with colour or "
            "pattern that training never showed. Recall counts only a picture's own captions; "
            f"{demo.truth:.0%} of first answers to a caption are pictures the caption is true of.",
        ),
        section("Training", f'<div class="charts">{"".join(charts)}</div>'),
        section(
            "Pictures for words",
            *(_pictures(demo, answer) for answer in demo.text_answers),
            note="Green: the caption is true of it.",
        ),
        section(
            "Words for pictures",
            *(_captions(demo, answer) for answer in demo.image_answers),
            note="Green: true of the picture.",
        ),
        section(
            "Hard negatives",
            *(_mined(demo)),
            note="Captions of other training pictures that score highest with a picture.",
        ),
        section("Settings", folded("config.yaml", written_config(run)[0])),
    ]
    lead = "VSE++ trained from scratch on generated scenes, with no pretrained part, on this machine."
    write_text(path, page("vsekit demo", lead, sections))


def _pictures(demo: Demo, answer: Answer) -> str:
    pictures = demo.test.pictures
    found = [picture(pictures[p].open(), good=right) for p, right in zip(answer.found, answer.right)]
    return query(f"“{demo.test.captions[answer.query].text}”") + row(*found)


def _captions(demo: Demo, answer: Answer) -> str:
    captions = [demo.test.captions[c].text for c in answer.found]
    return beside(picture(demo.test.pictures[answer.query].open()), listed(zip(captions, answer.right)))


def _mined(demo: Demo) -> list[str]:
    return [
        beside(picture(p.open(), caption=own), listed((text, False) for text in texts))
        for p, own, texts in demo.hard_examples
    ]
