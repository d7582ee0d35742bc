"""A contact sheet of an answer: one HTML file that needs nothing else, or one picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from vsekit.errors import UserError
from vsekit.files import atomic_path, write_text
from vsekit.search.items import Hit, Item
from vsekit.search.searcher import Answer
from vsekit.search.why import Why, drawn

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".html", ".png", ".jpg", ".jpeg", ".webp")
_STYLE = """<style>
main { max-width:90rem; } .sheet { display:grid; gap:1rem; grid-template-columns:repeat(auto-fill,minmax(13rem,1fr)); }
.sheet img { border-width:1px; } .sheet figcaption b { color:var(--ink); font-weight:600; }
</style>"""


def name_of(item: Item) -> str:
    """What a person calls it: the caption, or the file's name."""
    return one_line(item.text or Path(item.path).name or item.id)


def one_line(text: str) -> str:
    """Without line breaks and other characters that are not to be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def standing_of(hit: Hit) -> str:
    """In per cent, with as many nines as it has, up to ">99.9999 %"."""
    if hit.standing is None:
        return ""
    above = 100 * (1 - hit.standing)
    digits = next((d for d in range(4) if above >= 0.95 * 10**-d), 4)
    shown = f"{100 * hit.standing:.{digits}f}"
    return f"{'>99.9999' if float(shown) >= 100 else shown} %"


def figures_of(hit: Hit) -> list[str]:
    """Score, standing and match; the score alone without calibration."""
    return [f"{hit.score:.3f}"] + ([standing_of(hit), str(hit.match)] if hit.standing is not None else [])


def pictures_of(hits: Sequence[Hit], whys: Sequence[Why] = ()) -> list[Image.Image | None]:
    """The pictures of hits, of captions too; with reasons, those that have regions are drawn on."""
    from vsekit.search.rerank import opened

    images = [opened(hit.item) if hit.item.path else None for hit in hits]
    for i, (image, why) in enumerate(zip(images, whys)):
        if image and why.boxes:
            images[i] = drawn(image, why)
    return images


def write_sheet(path: Path, title: str, answer: Answer, whys: Sequence[Why] = ()) -> None:
    """Writes .html, or a picture.

    Args:
        title: the query.
        whys: of the hits, in their order, when they are to be shown.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(f"can't write a sheet as '{path.suffix}'", file=path, remedy=f"Use {', '.join(SUFFIXES)}.")
    images = pictures_of(answer.hits, whys)
    if path.suffix.lower() == ".html":
        write_text(path, html(title, answer, images, whys))
        return
    kind = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".webp": "WEBP"}[path.suffix.lower()]
    with atomic_path(path) as temporary:
        montage(answer.hits, images).save(temporary, kind)


def html(title: str, answer: Answer, images: Sequence[Image.Image | None], whys: Sequence[Why] = ()) -> str:
    """A page that needs nothing else."""
    from vsekit.diagnostics.words import Words, draw_words
    from vsekit.drawing.page import note, page, picture

    figures = []
    for i, (hit, image) in enumerate(zip(answer.hits, images)):
        shown = picture(image, side=480) if image else f'<div class="name">{escape(name_of(hit.item))}</div>'
        below = f"<b>{escape(name_of(hit.item))}</b><br>{' · '.join(figures_of(hit))}"
        if i < len(whys):
            weighed = [word.word for word in whys[i].words], [word.weight for word in whys[i].words]
            below += draw_words(Words(*weighed, whys[i].score))
        link = f' title="{escape(hit.item.path, quote=True)}"' if hit.item.path else ""
        figures.append(f"<div{link}>{shown}<figcaption>{below}</figcaption></div>")
    verdict = note(answer.verdict) if answer.verdict else ""
    return page(title, f"{len(answer.hits)} answers", [_STYLE, verdict, f'<div class="sheet">{"".join(figures)}</div>'])


def montage(
    hits: Sequence[Hit], images: Sequence[Image.Image | None], columns: int = 5, side: int = 240
) -> Image.Image:
    """All hits in one picture, row by row, each with its number, score and name."""
    from PIL import Image, ImageDraw, ImageFont, ImageOps

    font, gap, text = ImageFont.load_default(13), 8, 36
    columns = max(1, min(columns, len(hits)))
    rows = -(-len(hits) // columns) or 1
    sheet = Image.new("RGB", (columns * (side + gap) + gap, rows * (side + text + gap) + gap), "white")
    draw = ImageDraw.Draw(sheet)
    for i, (hit, image) in enumerate(zip(hits, images)):
        x, y = gap + i % columns * (side + gap), gap + i // columns * (side + text + gap)
        if image is None:
            draw.rectangle((x, y, x + side - 1, y + side - 1), outline="#cccccc")
        else:
            small = ImageOps.contain(image, (side, side))
            sheet.paste(small, (x + (side - small.width) // 2, y + (side - small.height) // 2))
        for line, words in enumerate(("  ".join([str(i + 1), *figures_of(hit)]), name_of(hit.item))):
            draw.text((x, y + side + 2 + 16 * line), _fitting(draw, words, font, side), fill="#333333", font=font)
    return sheet


def _fitting(draw: object, text: str, font: object, width: int) -> str:
    """The text, cut to fit the width; letters the font lacks are drawn as boxes."""
    length = draw.textlength  # type: ignore[attr-defined]
    if length(text, font=font) <= width:
        return text
    while text and length(f"{text}…", font=font) > width:
        text = text[:-1]
    return f"{text}…"
