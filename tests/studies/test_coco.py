from __future__ import annotations

from pathlib import Path

import pytest

from studies import coco

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CARD = (ROOT / "src" / "vsekit" / "models" / "starter" / "README.md").read_text(encoding="utf-8")


def test_the_committed_page_is_the_one_its_results_give() -> None:
    assert coco.page().splitlines() == coco.PAGE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("collection", ["flickr8k", "coco"])
@pytest.mark.parametrize("bank", ["", "-bank"])
def test_the_card_has_the_starters_own_figures(collection: str, bank: str) -> None:
    found = coco.results("both")[f"starter{bank}"][collection]
    assert f"| {collection}{', with the querybank' * bool(bank)} | {coco.numbers(found)} |" in CARD


@pytest.mark.parametrize(("title", "collection"), [("Flickr8k", "flickr8k"), ("COCO", "coco")])
def test_readme_has_the_figures_of_every_model_that_it_names(title: str, collection: str) -> None:
    found, starter = coco.results(f"{collection}-models"), coco.results("both")
    table = README.partition(f"| {title}, ")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines() if not line.startswith("| published") and "---" not in line][1:]
    assert len(rows) >= 2
    with_bank, plain = (starter[name][collection] for name in ("starter-bank", "starter"))
    assert rows[0] == f"| the starter, as it comes | {coco.numbers(with_bank)} | {plain['rsum']:.1f} |  |"
    for row in rows[1:]:
        name = row.partition(f"| `{collection}:")[2].partition("`")[0]
        one = found[name]
        figures = f"{coco.numbers(one['metrics'])} | {one['plain']['rsum']:.1f} | {one['cpu_minutes']:.1f} |"
        assert row.endswith(figures), name


def test_a_row_without_a_result_is_named_as_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = coco.results("coco-models")
    del found["scan"]
    monkeypatch.setattr(coco, "results", lambda folder: found)
    lines = coco.models()
    assert "`scan`" in lines[-1]
    assert not any(line.startswith("| `scan`") for line in lines)
