"""Why an item matches: the weight of every word, and where in the picture it looks.

The weight is found by leaving one out (dual-path, Sec. 5.5): with q the query's vector and q∖w that of the query
without the word w,

    weight(w) = q·v − (q∖w)·v

Pictures and items in a sum are weighed the same way, and for captions found with a picture the caption's words are. With
a reranker that compares sets (SCAN, BFAN) the regions that a word attends to are given too, as boxes in 0…1 of the whole
upright picture, whatever part of it the model saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.search.items import Item
from vsekit.search.query import Query, Term

if TYPE_CHECKING:
    from PIL import Image

    from vsekit.data.views import ViewSettings
    from vsekit.search.rerank import Reranker
    from vsekit.search.searcher import Searcher

#: x0, y0, x1, y1 in 0…1 of the picture, and the attention it gets.
Box = tuple[float, float, float, float, float]
BOXES, DRAWN = 5, 3
_COLOURS = ((230, 92, 0), (0, 114, 178), (0, 158, 115))


@dataclass(frozen=True)
class Word:
    """weight: how far the score falls without it."""

    word: str
    weight: float


@dataclass(frozen=True)
class Why:
    """score: of the item. words: in the order of the query. boxes: of each word, the regions it looks at most."""

    score: float
    words: list[Word]
    boxes: dict[str, list[Box]]

    @property
    def top(self) -> list[Word]:
        """The words that matter most, those that don't left out."""
        return sorted((word for word in self.words if word.weight > 0), key=lambda word: -word.weight)


def explain(searcher: Searcher, query: Query, item_id: str) -> Why:
    """UserError when the item, or one that the query names, is not in the index."""
    (item,) = searcher.named([item_id])
    vector = searcher.store.vectors([item_id])[0]
    boxes: dict[str, list[Box]] = {}
    if item.kind == "caption" and not query.texts:
        words, variants = _left_out(Query.of("text", item.text))
        asked, dim = searcher.vector(query, "caption"), searcher.model.dim
        texts = searcher.encode_texts([item.text, *(variant.words or "" for variant in variants)])
        scores = texts @ asked[:dim] + vector[dim:] @ asked[dim:]
        if len(words) == 1:
            scores[1] = 0.0
        named = {one.id: one for one in searcher.named(query.items)}
        shown = next((named[i] for i in query.items if named[i].kind == "image"), None)
    else:
        words, variants = _left_out(query)
        # One call of the encoder for all of them.
        searcher.encode_texts([text for variant in (query, *variants) for text in variant.texts])
        directions = [
            searcher.vector(v, item.kind, strict=False) if v.terms else 0 * vector for v in (query, *variants)
        ]
        scores = np.stack(directions) @ vector
        shown = item if item.kind == "image" else None
    text = item.text if item.kind == "caption" else " ".join(query.texts)
    if shown and text and searcher.reranker:
        boxes = regions(searcher.reranker, shown, text)
    weights = [float(scores[0] - without) for without in scores[1:]]
    return Why(float(scores[0]), [Word(*pair) for pair in zip(words, weights)], boxes)


def _left_out(query: Query) -> tuple[list[str], list[Query]]:
    """Every word, picture and item of a query, and the query without it; a term of one word goes as a whole."""
    words: list[str] = []
    variants: list[Query] = []
    for at, term in enumerate(query.terms):
        before, after = query.terms[:at], query.terms[at + 1 :]
        pieces = str(term.value).split() if term.kind == "text" else [_label(term)]
        for i, piece in enumerate(pieces):
            rest = " ".join(pieces[:i] + pieces[i + 1 :])
            words.append(piece)
            variants.append(Query((*before, *((replace(term, value=rest),) if rest else ()), *after)))
    return words, variants


def _label(term: Term) -> str:
    if term.kind == "item":
        return "item:" + str(term.value)
    return getattr(term.value, "name", "") or "picture"


def regions(reranker: Reranker, item: Item, text: str) -> dict[str, list[Box]]:
    """The regions each word of `text` attends to in an item's picture, best first; {} for models that compare no sets.

    None either where the model saw several crops at once, whose regions have no one place.
    """
    import torch

    from vsekit.diagnostics.attention import attends, attention
    from vsekit.parts import Sets

    model = reranker.embedder.model
    (vectors,) = reranker.embedded([item])
    if vectors is None or not attends(model) or model.view.count != 1 or not (item.width and item.height):
        return {}
    sets = Sets(torch.from_numpy(vectors)[None], torch.ones(1, len(vectors), dtype=torch.bool))
    found = attention(model, sets, text, _detected(model, item))
    if found.boxes is None:
        return {}
    placed = in_picture(np.array(found.boxes), model.view, item.width, item.height)
    boxes: dict[str, list[Box]] = {}
    for word, weights in zip(found.words, np.array(found.weights)):
        # Less than an equal share is no attention.
        best = [i for i in np.argsort(-weights, kind="stable")[:BOXES] if weights[i] >= 1 / len(weights)]
        both = boxes.get(word, []) + [(*placed[i].tolist(), float(weights[i])) for i in best]
        boxes[word] = sorted(both, key=lambda box: -box[4])[:BOXES]
    return boxes


def _detected(model: Any, item: Item) -> np.ndarray | None:
    """(N, 4) boxes of the regions where a detector finds them; None for a grid."""
    import torch

    from vsekit.data.views import crops, normalised, resized
    from vsekit.search.rerank import opened

    encoder, image = model.image.encoder, opened(item, model.view.resize)
    if not hasattr(encoder, "regions") or image is None:
        return None
    pixels = torch.from_numpy(crops(resized(image, model.view), model.view))
    with torch.inference_mode():
        return encoder.regions(normalised(pixels, encoder.mean, encoder.std))[1][0].numpy()


def in_picture(boxes: np.ndarray, view: ViewSettings, width: int, height: int) -> np.ndarray:
    """Boxes (n, 4) in 0…1 of what the model saw → in 0…1 of the picture it was cut from.

    A view scales the picture (or with `keep_aspect` its middle square) to a square and cuts its middle out.
    """
    margin = (view.resize - view.pixels) // 2
    square = (margin + boxes * view.pixels) / view.resize
    if not view.keep_aspect:
        return square
    side = min(width, height)
    size, corner = np.array([width, height] * 2), np.array([(width - side) / 2, (height - side) / 2] * 2)
    return (corner + square * side) / size


def drawn(image: Image.Image, why: Why) -> Image.Image:
    """The picture with the regions of the words that matter most, each word in its colour, named below the picture."""
    from PIL import Image, ImageDraw, ImageFont, ImageOps

    chosen = [word.word for word in why.top if _boxes_of(why, word.word)][:DRAWN]
    picture = image.convert("RGB")
    if max(picture.size) < 320:  # too small to write below
        picture = ImageOps.contain(picture, (320, 320))
    size = max(12, min(picture.size) // 16)
    line, font = max(2, size // 8), ImageFont.load_default(size)
    room = (picture.width - size) / max(font.getlength(" ".join(chosen)), 1)
    font = font if room >= 1 else ImageFont.load_default(size * room)
    light = Image.new("RGBA", picture.size)
    for word, colour in reversed(list(zip(chosen, _COLOURS))):
        boxes = _boxes_of(why, word)
        for x0, y0, x1, y1, weight in boxes:
            corners = (x0 * picture.width, y0 * picture.height, x1 * picture.width - 1, y1 * picture.height - 1)
            alpha = round(110 * weight / boxes[0][4])
            ImageDraw.Draw(light).rectangle(corners, fill=(*colour, alpha), outline=(*colour, 255), width=line)
    sheet = Image.new("RGB", (picture.width, picture.height + 2 * size), "white")
    sheet.paste(Image.alpha_composite(picture.convert("RGBA"), light).convert("RGB"))
    draw, x = ImageDraw.Draw(sheet), size / 2
    for word, colour in zip(chosen, _COLOURS):
        draw.text((x, picture.height + size / 2), word, fill=colour, font=font)
        x += draw.textlength(f"{word} ", font=font)
    return sheet


def _boxes_of(why: Why, word: str) -> Sequence[Box]:
    """Boxes go by the reranker's own words, which are lower-cased and without the punctuation around them."""
    return why.boxes.get(word) or why.boxes.get(word.lower().strip(".,;:!?\"'()")) or ()
