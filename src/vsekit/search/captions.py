"""Bringing the captions of an index up to date, once its pictures are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vsekit.progress import Progress
from vsekit.search.base import SearchModel
from vsekit.search.book import Book
from vsekit.search.hubs import item_vectors
from vsekit.search.items import Item
from vsekit.search.walk import Seen

TEXTS = 256  # encoded at once


def bring_captions_up_to_date(book: Book, model: SearchModel, seen: Mapping[str, Seen], progress: Progress) -> None:
    """Captions follow their pictures; those of pictures that come with captions are brought up to date."""
    with_captions = [one for one in seen.values() if one.captions is not None and one.path in book.known]
    if not (with_captions or book.store.count("caption")):
        return
    had = {item.id: (hash(item.text), _hash(item)) for item in book.store.all_items("caption")}
    current = {known.id: path for path, known in book.known.items()}
    new: list[Item] = []
    for picture in with_captions:
        owner = book.known[picture.path].id
        for number, (text, meta) in enumerate(picture.captions or ()):
            meta = {**picture.meta, **meta}
            item = Item(f"{owner}#{number}", "caption", picture.path, text, owner, meta=meta)
            was = had.pop(item.id, None)
            if was is None or was[0] != hash(text):
                new.append(item)
            elif was[1] != _hash(item):
                book.updated[item.id] = item
    covered = {book.known[picture.path].id for picture in with_captions}
    for id_ in had:
        owner = id_.rpartition("#")[0]
        if owner in covered or owner not in current:
            book.deleted.append(id_)
        elif owner in book.moved:
            book.updated[id_] = replace(book.item(id_), path=current[owner])
    book.report.new_captions = len(new)
    with progress.bar("Captions", "captions") as bar:
        for at in range(0, len(new), TEXTS):
            part = new[at : at + TEXTS]
            for item, vector in zip(part, _encoded(book, model, part)):
                book.written[item.id] = (item, vector)
            bar(at + len(part), len(new))
            book.flush_when_due()


def encode_captions_again(book: Book, model: SearchModel, captions: Sequence[Item]) -> None:
    """Of captions whose vectors were damaged; their texts are known."""
    for at in range(0, len(captions), TEXTS):
        part = captions[at : at + TEXTS]
        for item, vector in zip(part, _encoded(book, model, part)):
            book.written[item.id] = (item, vector)
        book.report.repaired += len(part)
        book.flush()


def _encoded(book: Book, model: SearchModel, captions: Sequence[Item]) -> np.ndarray:
    vectors = model.encode_texts([item.text for item in captions])
    return item_vectors(model, vectors, "caption", book.store.dim)


def _hash(item: Item) -> int:
    return hash((item.path, frozenset(item.meta.items())))
