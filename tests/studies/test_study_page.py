from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from studies.claims import by_picture
from studies.matrix import Study
from studies.study_page import render
from studies.verdicts import shown

STUDIES = Path(__file__).parents[2] / "studies"
COMMITTED = STUDIES.parent / "docs"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    docs = tmp_path_factory.mktemp("docs")
    render(Study(STUDIES / "flickr8k.yaml", STUDIES / "results" / "flickr8k", docs), docs)
    return docs


@pytest.fixture(scope="module")
def page(docs: Path) -> str:
    return (docs / "study.md").read_text()


def test_the_committed_page_is_the_one_its_results_give(page: str) -> None:
    assert page.splitlines() == (COMMITTED / "study.md").read_text().splitlines()
    assert "{{" not in page


def test_the_committed_charts_are_those_the_results_give(docs: Path) -> None:
    drawn = sorted(path.name for path in (docs / "images").iterdir())
    assert drawn == sorted(path.name for path in (COMMITTED / "images").glob("study-*"))
    for name in drawn:
        ours, theirs = ((folder / "images" / name).read_text() for folder in (docs, COMMITTED))
        assert NUMBER.sub("0", ours) == NUMBER.sub("0", theirs), name
        # A point between two pixels' tenths may be drawn at either.
        places = ([float(number) for number in NUMBER.findall(text)] for text in (ours, theirs))
        np.testing.assert_allclose(*places, atol=0.11, rtol=0, err_msg=name)


def test_a_mean_between_two_numbers_is_shown_as_one_of_them_whatever_its_last_bit() -> None:
    for tie in (216.45, 6.95, -50.65, 45.95):
        assert len({shown(value) for value in (tie, np.nextafter(tie, 1e9), np.nextafter(tie, -1e9))}) == 1


def test_every_claim_has_a_verdict_or_says_what_is_missing(page: str) -> None:
    study = Study(STUDIES / "flickr8k.yaml", STUDIES / "results" / "flickr8k", Path())
    section = page[page.index("## In short runs") : page.index("## What surprised")]
    lines = [
        line for line in section.splitlines() if re.match(r"\| (VSE\+\+|ConVSE|Dual-path|AOQ|VSE\+2AD|none) \|", line)
    ]
    assert len(lines) == len(study.content["claims"])
    verdicts = [line.split("|")[-2].strip() for line in lines]
    assert all(re.match(r"holds|does not|can't tell|not run yet", verdict) for verdict in verdicts)


def test_the_ranks_kept_of_single_queries_give_the_rsum_of_each_result() -> None:
    study = Study(STUDIES / "flickr8k.yaml", STUDIES / "results" / "flickr8k", Path())
    results = [result for run in study.runs if (result := study.result(run))]
    assert results
    for result in results:
        # Ties have fractional ranks, which are kept rounded down.
        assert by_picture([result]).mean() == pytest.approx(result["rsum"], abs=0.2)
