"""Where a hit holds the words it was found by: in the name of its file, in a caption, in the picture …"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vsekit.search.items import Item, Said
from vsekit.search.stores.base import Store
from vsekit.search.words import Phrase, holds, phrases_of, texts_of

#: How a place is called.
PLACES = {
    "name": "file name",
    "folder": "folder name",
    "caption": "caption",
    "about": "description",
    "column": "column",
    "picture": "text in the picture",
}


def said_by(store: Store, item: Item, phrases: Sequence[Phrase]) -> tuple[Said, ...]:
    """The phrases that an item, or a caption of it, holds, by place."""
    found: dict[str, dict[Phrase, None]] = {}
    _note(found, item, phrases)
    left = [phrase for phrase in phrases if not any(phrase in held for held in found.values())]
    if left and item.kind == "image":
        for caption in captions_of(store, item):
            _note(found, caption, left)
    return tuple(Said(PLACES[where], tuple(" ".join(phrase) for phrase in held)) for where, held in found.items())


def _note(found: dict[str, dict[Phrase, None]], item: Item, phrases: Iterable[Phrase]) -> None:
    for where, text in texts_of(item):
        words = phrases_of(text)
        for phrase in phrases:
            if any(holds(own, phrase) for own in words):
                found.setdefault(where, {})[phrase] = None


def captions_of(store: Store, item: Item) -> Iterator[Item]:
    """Of a picture: their ids are its own with a number."""
    number = 0
    while True:
        try:
            yield store.items([f"{item.picture or item.id}#{number}"])[0]
        except KeyError:
            return
        number += 1
