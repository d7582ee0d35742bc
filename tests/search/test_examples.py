from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from vsekit.search import examples as room
from vsekit.search.asking import Answer, Ask
from vsekit.search.examples import PHRASES, STEP, examples
from vsekit.search.items import Hit, Item


def captions(*texts: str, hidden: Sequence[str] = ()) -> Any:
    """As much of a searcher as examples ask for: an index with one picture a caption."""
    items = [Item(f"{i}#0", "caption", text=text, picture=str(i)) for i, text in enumerate(texts)]
    return SimpleNamespace(
        store=SimpleNamespace(all_items=lambda kind: iter(items)), hiding=SimpleNamespace(ids=lambda _: set(hidden))
    )


def test_captions_of_three_to_ten_words_are_examples_and_no_others() -> None:
    fitting = ["red boats asleep", "one two three four five six seven eight nine ten"]
    others = ["red boats", "a b c d e f g h i j k", 'the "blue" door opens', "a " + "very " * 3 + "l" * 60 + "ong word"]
    assert [sorted(found) for found in examples(captions(*fitting, *others), 2)] == [sorted(fitting)]


def test_examples_share_no_telling_word_and_the_shortest_come_first() -> None:
    found = next(
        examples(captions("a dog in the park", "a dog on sand", "the cat on a mat", "two birds at sea, far out."), 3)
    )
    assert found == ["a dog on sand", "the cat on a mat", "two birds at sea, far out"]


def test_captions_of_hidden_pictures_are_no_examples() -> None:
    found = next(examples(captions("red boats asleep", "a dog on sand", "the cat sleeps", hidden=["1"]), 2))
    assert found == ["the cat sleeps", "red boats asleep"]


def test_without_captions_phrases_that_find_something_are_examples_the_surest_first() -> None:
    matches = {PHRASES[0]: ("likely", 0.9), PHRASES[1]: ("strong", 0.99), PHRASES[2]: ("weak", 0.999)}

    def search_many(asks: Sequence[Ask]) -> list[Any]:
        found = []
        for ask in asks:
            match, standing = matches.get(ask.query.text, ("none", 0.1))
            found.append(Answer([Hit(Item(ask.query.text, "image"), 0.5, standing, match)]))  # type: ignore[arg-type]
        return found

    searcher = captions()
    searcher.search_many = search_many
    steps = list(examples(searcher, 6))
    assert len(steps) == -(-len(PHRASES) // STEP)
    assert steps[-1] == [PHRASES[1], PHRASES[0]]
    assert room.COUNT == 6
