"""What the study of words shows is what docs/search.md says."""

from __future__ import annotations

import json
from pathlib import Path

from studies.words import PAGES, page

ROOT = Path(__file__).parents[2]


def test_the_table_in_the_docs_is_the_result() -> None:
    result = json.loads((ROOT / "studies/results/words.json").read_text())
    docs = (ROOT / "docs/search.md").read_text()
    for part, labels in ((result["without captions"], None), (list(result.values())[-1], ["sentences"])):
        for label in labels or part:
            one = part[label]
            cells = [" / ".join(f"{one[way][f'R@{k}']:.1f}" for k in (1, 5, 10)) for way in ("vectors", "both")]
            assert f"| {' | '.join(cells).replace('100.0', '100')} |" in docs, label


def test_words_cost_plain_sentences_nothing() -> None:
    result = json.loads((ROOT / "studies/results/words.json").read_text())
    for part in (result["without captions"], list(result.values())[-1]):
        sentences = part["sentences"]
        assert all(sentences["both"][name] >= value for name, value in sentences["vectors"].items())


def test_every_page_has_queries_of_its_own() -> None:
    pages = [page(i) for i in range(PAGES)]
    assert len({first for _, first, _ in pages}) == len({second for _, _, second in pages}) == PAGES
