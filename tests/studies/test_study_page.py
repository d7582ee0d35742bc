from __future__ import annotations

import re
from pathlib import Path

import pytest
from studies.claims import by_picture
from studies.matrix import Study
from studies.study_page import render

STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    docs = tmp_path_factory.mktemp("docs")
    render(Study(STUDIES / "flickr8k.yaml", STUDIES / "results" / "flickr8k", docs), docs)
    return (docs / "study.md").read_text()


def test_the_committed_page_is_the_one_its_results_give(page: str) -> None:
    committed = (STUDIES.parent / "docs" / "study.md").read_text()
    # Another processor may round a last digit the other way.
    assert re.sub(r"\d", "0", page) == re.sub(r"\d", "0", committed)
    assert "{{" not in page


def test_every_claim_has_a_verdict_or_says_what_is_missing(page: str) -> None:
    study = Study(STUDIES / "flickr8k.yaml", STUDIES / "results" / "flickr8k", Path())
    lines = [
        line for line in page.splitlines() if re.match(r"\| (VSE\+\+|ConVSE|Dual-path|AOQ|VSE\+2AD|none) \|", line)
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
