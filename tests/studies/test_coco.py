from __future__ import annotations

from pathlib import Path

import pytest

from studies import coco

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CARD = (ROOT / "src" / "vsekit" / "models" / "starter" / "README.md").read_text(encoding="utf-8")


def recalls(metrics: dict) -> str:
    """As the README writes them: 56.2/85.1/92.3 and 46.4/80.4/91.0."""
    return " and ".join("/".join(f"{metrics[way][key]:.1f}" for key in ("r1", "r5", "r10")) for way in ("i2t", "t2i"))


def test_the_committed_page_is_the_one_its_results_give() -> None:
    assert coco.page().splitlines() == coco.PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("collection", ["flickr8k", "coco"])
@pytest.mark.parametrize("bank", ["", "-bank"])
def test_readme_and_card_have_the_starters_own_figures(collection: str, bank: str) -> None:
    found = coco.results("both")[f"starter{bank}"][collection]
    assert f"| {collection}{', with the querybank' * bool(bank)} | {coco.numbers(found)} |" in CARD
    assert f"{found['rsum']:.1f}" in README
    if bank:
        assert recalls(found) in README


def test_readme_has_the_figures_of_the_best_row() -> None:
    best = coco.results("coco-models")["best"]
    assert recalls(best["metrics"]) in README
    for rsum in (best["metrics"]["rsum"], best["plain"]["rsum"]):
        assert f"{rsum:.1f}" in README


def test_a_row_without_a_result_is_named_as_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = coco.results("coco-models")
    del found["scan"]
    monkeypatch.setattr(coco, "results", lambda folder: found)
    lines = coco.models()
    assert "`scan`" in lines[-1]
    assert not any(line.startswith("| `scan`") for line in lines)
