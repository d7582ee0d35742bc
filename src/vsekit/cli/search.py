"""vse search: ask an index in words or with a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import Json, Trust, examples, print_json
from vsekit.errors import UserError
from vsekit.progress import Progress

if TYPE_CHECKING:
    from vsekit.search.items import Hit
    from vsekit.search.searcher import Answer
    from vsekit.search.why import Why

RERANKED = 50


@dataclass(frozen=True)
class Wanted:
    """What is asked with, and which of the answers are wanted."""

    image: Annotated[Path | None, typer.Option("--image", help="Ask with this picture.")] = None
    like: Annotated[
        str | None, typer.Option("--like", metavar="ITEM", help="Ask with an item of the index, by id.")
    ] = None
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="How many answers.")] = 10
    offset: Annotated[int, typer.Option("--offset", min=0, help="Skip this many of the best answers.")] = 0
    filter: Annotated[
        str | None, typer.Option("--filter", help="A condition on the metadata, e.g. 'year >= 2020'.")
    ] = None
    captions: Annotated[bool, typer.Option("--captions", help="Answer with captions instead of pictures.")] = False
    rerank: Annotated[
        str | None,
        typer.Option(
            "--rerank", metavar="RUN[:N]", help=f"A second model reads the best N (default {RERANKED}) again."
        ),
    ] = None


@dataclass(frozen=True)
class Shown:
    """How answers are shown."""

    why: Annotated[bool, typer.Option("--why", help="Show how much each word adds to each score.")] = False
    why_dir: Annotated[
        Path | None,
        typer.Option(
            "--why-dir",
            help="With --why and --rerank: write pictures here, with boxes around what the words refer to.",
        ),
    ] = None
    sheet: Annotated[
        Path | None, typer.Option("--sheet", help="Write a contact sheet: .html, .png, .jpg or .webp.")
    ] = None
    open_: Annotated[bool, typer.Option("--open", help="Open a contact sheet in the browser.")] = False
    pictures: Annotated[bool, typer.Option("--pictures/--no-pictures", help="Show pictures in terminals that can.")] = (
        True
    )


@app.command(
    epilog=examples(
        'vse search photos.index "a brown dog running on sand"',
        "vse search photos.index '\"4711\" invoice'   (words in quotes are exact: in names, captions, the picture …)",
        'vse search photos.index \'"dog" + photo.jpg - "water"\'   (words in quotes, pictures, item:ID, 0.5*…)',
        "vse search photos.index --image photo.jpg --top 50 --open",
        'vse search photos.index "sunset" --filter \'year >= 2020 and camera = "X100"\'',
        'vse search photos.index "two dogs" --rerank runs/scan:100 --why --sheet dogs.html',
        "vse search photos.index --image photo.jpg --captions --json",
    ),
)
@grouped
def search(
    index: Annotated[str, typer.Argument(help="An index: a folder, postgresql://… or milvus://…")],
    wanted: Wanted,
    shown: Shown,
    words: Annotated[
        str | None,
        typer.Argument(
            metavar="QUERY",
            help='Words, of which "those in quotes" are exact; or a sum: "dog" + photo.jpg - 0.5*"water".',
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Where the model of the index is, if it has moved.")
    ] = None,
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Find pictures (or captions) by words, by a picture, or by a sum of both.

    Each score comes with the share of unrelated items that score lower, and with a match: strong, likely, weak or none. The
    match takes into account how many items the index has.
    """
    from vsekit.search.opening import load_searcher
    from vsekit.search.query import asked
    from vsekit.search.stores import open_store

    query = asked(words, wanted.image, wanted.like)
    if shown.why_dir and not (shown.why and wanted.rerank):
        raise UserError("--why-dir writes what --why finds with --rerank", remedy="Give all three.")
    run, reads = _split(wanted.rerank)
    with open_store(index) as store:
        searcher = load_searcher(store, model, run, progress=Progress())
        kind: Any = "caption" if wanted.captions else "image"
        which = {"top": wanted.top, "offset": wanted.offset, "filter": wanted.filter}
        answer = searcher.search(query, **which, kind=kind, rerank=reads)  # type: ignore[arg-type]
        whys = [searcher.why(query, hit.item.id) for hit in answer.hits] if shown.why else []
    title = query.text or words or f"like {wanted.image or wanted.like}"
    sheet = shown.sheet or (_temporary_sheet() if shown.open_ else None)
    if sheet:
        from vsekit.search.sheet import write_sheet

        write_sheet(sheet, title, answer, whys)
    drawings = _draw(shown.why_dir, answer, whys) if shown.why_dir else []
    if json:
        print_json(_as_json(title, answer, whys))
    else:
        _show(answer, whys, wanted.offset, shown.pictures)
        for path in [*([sheet] if sheet else []), *drawings]:
            typer.echo(f"Look at {path}")
    if shown.open_:
        import webbrowser

        assert sheet is not None
        webbrowser.open(sheet.resolve().as_uri())


def _split(rerank: str | None) -> tuple[str | None, int]:
    """RUN[:N]; a run whose own name ends so is given whole, with its N behind."""
    if rerank is None:
        return None, 0
    run, colon, n = rerank.rpartition(":")
    if colon and n.isdigit():
        if int(n) < 1:
            raise UserError(f"--rerank {rerank} re-ranks nothing", remedy="Give at least 1.")
        return run, int(n)
    return rerank, RERANKED


def _temporary_sheet() -> Path:
    """A new file that stays, since the browser reads it when this program has ended."""
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile(prefix="vse-search-", suffix=".html", delete=False) as file:
        return Path(file.name)


def _draw(folder: Path, answer: Answer, whys: list[Why]) -> list[Path]:
    """Writes the pictures that have regions, numbered as the answers are."""
    from vsekit.files import atomic_path
    from vsekit.search.sheet import pictures_of

    written = []
    for i, (image, found) in enumerate(zip(pictures_of(answer.hits, whys), whys), start=1):
        if image and found.boxes:
            written.append(folder / f"{i:02d}-{Path(answer.hits[i - 1].item.path).stem}.png")
            with atomic_path(written[-1]) as temporary:
                image.save(temporary, "PNG")
    return written


def _as_json(query: str, answer: Answer, whys: list[Why]) -> dict[str, Any]:
    from dataclasses import asdict

    hits = [
        {**asdict(hit.item), "score": hit.score, "standing": hit.standing, "match": hit.match, "said": _said(hit)}
        for hit in answer.hits
    ]
    for hit, found in zip(hits, whys):
        hit["why"] = asdict(found)
    return {"query": query, "verdict": answer.verdict, "more": answer.more, "timing": vars(answer.timing), "hits": hits}


def _said(hit: Hit) -> list[dict[str, Any]]:
    """The words it was found by, for other programs."""
    return [{"where": one.where, "words": list(one.words)} for one in hit.said]


def _show(answer: Answer, whys: list[Why], offset: int, pictures: bool) -> None:
    """A line an answer, best first; above them the pictures, where the terminal shows them."""
    import shutil

    from vsekit.search.sheet import figures_of, montage, one_line, pictures_of
    from vsekit.search.terminal import escape_sequence, graphics

    how = graphics() if pictures else None
    if how and answer.hits:
        columns = max(1, shutil.get_terminal_size().columns * 8 // 200)
        typer.echo(
            escape_sequence(montage(answer.hits, pictures_of(answer.hits, whys), columns, side=180), how), nl=False
        )
    columns_of = [[str(offset + i), *figures_of(hit)] for i, hit in enumerate(answer.hits, start=1)]
    widths = [max(map(len, column)) for column in zip(*columns_of)]
    for i, (hit, cells) in enumerate(zip(answer.hits, columns_of)):
        where = hit.item.path or hit.item.picture
        place = one_line(f"{hit.item.text}  ({where})" if hit.item.text else where)
        aligned = [cell.rjust(width) for cell, width in zip(cells[:3], widths)]
        aligned += [cell.ljust(width) for cell, width in zip(cells[3:], widths[3:])]
        reasons = [f"{one['where']}: {', '.join(one['words'])}" for one in _said(hit)]
        typer.echo("  ".join([*aligned, place, *([f"[{'; '.join(reasons)}]"] if reasons else [])]))
        if whys:
            typer.echo("      " + "  ".join(f"{word.word} {word.weight:+.3f}" for word in whys[i].words))
    if answer.verdict:
        typer.echo(answer.verdict)
