"""The pieces of a report as HTML strings: a page, sections, tables, pictures. Whatever comes from data is escaped."""

from __future__ import annotations

import base64
import io
from collections.abc import Container, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

    from vsekit.data.pairs import Picture

STYLE = """
:root {
  --ink:#1a1f2b; --soft:#5c6675; --line:#e3e6eb; --card:#fff; --page:#f6f7f9;
  --good:#17834f; --bad:#b4412f; --one:#2f5fd0; --two:#d07a1f;
}
@media (prefers-color-scheme: dark) { :root {
  --ink:#e8eaee; --soft:#9aa4b2; --line:#2c333f; --card:#191d25; --page:#101319;
  --good:#4cc38a; --bad:#ef7a66; --one:#7da2ff; --two:#f0a860;
} }
* { box-sizing: border-box; }
body { margin:0; background:var(--page); color:var(--ink); }
body { font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif; overflow-wrap:anywhere; }
main { max-width:62rem; margin:0 auto; padding:2rem 1rem 4rem; }
h1 { font-size:1.7rem; line-height:1.2; margin:0 0 .3rem; } h2 { font-size:1.15rem; margin:0 0 .8rem; }
h3 { font-size:.95rem; margin:1.1rem 0 .4rem; } .charts h3, h2+h3 { margin-top:0; }
.lead { color:var(--soft); margin:0 0 1.5rem; }
section { background:var(--card); border:1px solid var(--line); border-radius:.8rem; padding:1.2rem; margin:0 0 1rem; }
/* A shadow at the edge that more columns lie behind. */
.wide { overflow-x:auto; background:linear-gradient(90deg,transparent,var(--card) 90%) 100% 0/2.5rem 100% no-repeat local,
  linear-gradient(90deg,transparent,var(--line)) 100% 0/1rem 100% no-repeat scroll; }
table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; }
th,td { padding:.35rem .6rem; text-align:right; border-bottom:1px solid var(--line); white-space:nowrap; }
th:first-child,td:first-child { text-align:left; } th { font-weight:600; color:var(--soft); }
tr.main td { font-weight:650; } small { font-weight:400; }
.note,figcaption,small { color:var(--soft); font-size:.85rem; } .note { margin:.4rem 0 .8rem; }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr)); gap:.6rem; margin:0 0 1.1rem; }
.tiles div { border:1px solid var(--line); border-radius:.6rem; padding:.6rem .8rem; }
.tiles b,.tiles span,.tiles small { display:block; } .tiles span { font-size:.9rem; line-height:1.3; }
.tiles b { font-size:1.6rem; line-height:1.3; font-variant-numeric:tabular-nums; }
.halves { display:grid; grid-template-columns:1fr 1fr; gap:.6rem; }
.row { display:grid; grid-auto-flow:column; grid-auto-columns:minmax(6.5rem,1fr); gap:.6rem; margin:.4rem 0 1.2rem; }
.row { overflow-x:auto; } .row img,.row .name { aspect-ratio:4/3; object-fit:cover; }
figure { margin:0; } figure img { width:100%; height:auto; display:block; }
figure img,.name { border-radius:.4rem; border:3px solid var(--line); }
.good img,.good .name { border-color:var(--good); } .bad img,.bad .name { border-color:var(--bad); }
.exact img { image-rendering:pixelated; border-width:1px; }
.name { aspect-ratio:4/3; display:grid; place-items:center; text-align:center; padding:.4rem; }
.name { font-size:.8rem; color:var(--soft); }
.query { font-weight:600; margin:.6rem 0 .2rem; } ol { margin:.3rem 0 1rem; padding-left:1.4rem; }
li.good,.true { color:var(--good); }
.pair { display:grid; grid-template-columns:9rem 1fr; gap:1rem; align-items:start; margin:0 0 1rem; }
.cards { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(22rem,100%),1fr)); gap:0 2rem; }
.versus { display:grid; grid-template-columns:1fr 1fr; gap:.4rem 1rem; padding:.8rem 0; align-content:start; }
.versus { border-top:1px solid var(--line); } .versus p { margin:.3rem 0 0; font-size:.9rem; line-height:1.35; }
.versus .why { grid-column:1/-1; margin:0; color:var(--soft); }
.words { line-height:2; margin:0; } .words b,.words span { padding:.1rem .25rem; border-radius:.3rem; }
svg { width:100%; height:auto; display:block; } svg text { fill:var(--soft); font-size:13px; font-family:inherit; }
svg .title { fill:var(--ink); font-size:15px; font-weight:650; }
.charts { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(22rem,100%),1fr)); gap:1.2rem 2rem; }
pre { overflow-x:auto; font-size:.8rem; margin:0; } details summary { cursor:pointer; color:var(--soft); }
@media (max-width:32rem) {
  .pair { grid-template-columns:6.5rem 1fr; gap:.8rem; } .pair .note:first-child { margin-top:0; } section { padding:.9rem; }
  .row { gap:.4rem; } .tiles { grid-template-columns:1fr 1fr; } svg text { font-size:15px; } svg .title { font-size:17px; }
  table { font-size:.8rem; } th,td { padding:.3rem .35rem; }
  th:first-child,td:first-child { position:sticky; left:0; background:var(--card); }
}
"""


def page(title: str, lead: str, sections: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>\n<main><h1>{escape(title)}</h1>"
        f'<p class="lead">{escape(lead)}</p>\n' + "\n".join(sections) + "\n</main></html>\n"
    )


def section(title: str, *content: str, note: str = "") -> str:
    after = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{''.join(content)}{after}</section>"


def table(header: Sequence[str], rows: Iterable[Sequence[object]], main: int | Container[int] | None = None) -> str:
    """`main`: the number of the row that matters, or several. Cells are escaped."""
    bold = main if isinstance(main, Container) else {main}
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in header)
    body = "".join(
        f"<tr{' class=main' if i in bold else ''}>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for i, row in enumerate(rows)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def picture(image: Image.Image, caption: str = "", good: bool | None = None, side: int = 192) -> str:
    """The picture embedded as a small JPEG; `good` gives it a green or a red border."""
    small = image.convert("RGB")
    small.thumbnail((side, side))
    return _figure(small, "jpeg", caption, _kind(good), quality=82)


def exact(image: Image.Image, caption: str = "") -> str:
    """A picture whose pixels are data: embedded without loss, and enlarged without smoothing."""
    return _figure(image, "png", caption, "exact")


def shown(item: Picture, caption: str = "", good: bool | None = None, side: int = 192) -> str:
    """A picture of a collection; its name where there are only features of it, or where it can't be read."""
    from vsekit.data.decoding import PictureError

    if item.path is not None:
        try:
            return picture(item.open(side), caption, good, side)
        except PictureError as error:
            caption = f"{caption} (can't be read: {error.reason})".strip()
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure class="{_kind(good)}"><div class="name">{escape(item.id)}</div>{below}</figure>'


def _kind(good: bool | None) -> str:
    return {True: "good", False: "bad", None: ""}[good]


def _figure(image: Image.Image, kind: str, caption: str, style: str, **options: int) -> str:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    data = base64.b64encode(buffer.getvalue()).decode()
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    size = f'width="{image.width}" height="{image.height}"'
    alt = escape(caption or "picture", quote=True)
    return f'<figure class="{style}"><img {size} alt="{alt}" src="data:image/{kind};base64,{data}">{below}</figure>'


def row(*items: str) -> str:
    return f'<div class="row">{"".join(items)}</div>'


def query(text: str) -> str:
    return f'<p class="query">{escape(text)}</p>'


def listed(items: Iterable[tuple[str, bool]]) -> str:
    """An ordered list; each text with whether it is right."""
    return "<ol>" + "".join(f"<li{' class=good' if good else ''}>{escape(text)}</li>" for text, good in items) + "</ol>"


def halves(left: str, right: str) -> str:
    """Two things of equal width, on any screen."""
    return f'<div class="halves">{left}{right}</div>'


def tiles(items: Iterable[tuple[str, str, str]]) -> str:
    """Figures to see at first glance: a value, what it is, and a remark, each."""
    cells = (
        f"<div><b>{escape(v)}</b><span>{escape(name)}</span><small>{escape(note)}</small></div>"
        for v, name, note in items
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def charts(*items: str) -> str:
    """Charts side by side where there is room. Each may be HTML of its own kind."""
    return f'<div class="charts">{"".join(f"<div>{item}</div>" for item in items)}</div>'


def note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def versus(why: str, left: str, right: str) -> str:
    """Two things side by side, and above them why they are shown together."""
    return f'<div class="versus"><p class="why">{escape(why)}</p><div>{left}</div><div>{right}</div></div>'


def cards(items: Iterable[str]) -> str:
    """Items in as many columns as there is room for."""
    return f'<div class="cards">{"".join(items)}</div>'


def paragraph(text: str, good: bool = False) -> str:
    return f"<p{' class=true' if good else ''}>{escape(text)}</p>"


def beside(left: str, right: str) -> str:
    return f'<div class="pair"><div>{left}</div><div>{right}</div></div>'


def folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"
