"""vse index: pictures in, an index to search out; again, and it is brought up to date."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import BulkOptions, CollectionOptions, OutputOptions, Trust, columns_dict, examples, print_json

if TYPE_CHECKING:
    from vsekit.progress import Progress
    from vsekit.search.book import Report

#: Broken files that are listed one by one.
_SHOWN = 20


@dataclass(frozen=True)
class UpdateOptions:
    """How an index is brought up to date."""

    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make the index anew, e.g. with another model.")] = False
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Remove pictures whose whole folder is gone or empty. By default they are kept."),
    ] = False
    ocr: Annotated[
        bool, typer.Option("--ocr", help="Read the text in pictures, too, of those that were not read yet (extra ocr).")
    ] = False
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on: take in what is new, changed, moved or deleted, until Ctrl-C.")
    ] = False


@dataclass(frozen=True)
class PlaceOptions:
    """Where the index is, and how it keeps its vectors."""

    out: Annotated[Path | None, typer.Option("--out", help="The index. Default: FOLDER/.vsekit-index")] = None
    store: Annotated[
        str | None, typer.Option("--store", help="In a database instead: postgresql://… or milvus://…")
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", help="Of a new index: float16 keeps vectors in half precision, for millions of pictures."
        ),
    ] = None


@app.command(
    epilog=examples(
        "vse index photos   (with the model that comes with vsekit; the index is photos/.vsekit-index)",
        "vse index runs/mine photos scans --out my.index",
        "vse index runs/mine/ensemble.json photos --out my.index   (the average of a run's models, not the best one)",
        "vse index photos --model openai/clip-vit-base-patch32 --out clip.index",
        "vse index starter catalogue.csv --columns image=file,caption=title --out catalogue.index",
        "vse index photos --ocr   (reads the text in pictures, too, so that it can be searched)",
        "vse index photos --watch   (goes on, and takes in what changes, until Ctrl-C)",
        "vse index photos --store postgresql://me@localhost/pictures",
        "vse index starter /shared/photos --out photos.index --engine ray --ray-address node0:6379",
        "vse index copy my.index postgresql://me@localhost/pictures",
        "vse index copy my.index small.index --dtype float16   (half the disk)",
        "vse index check my.index   (reads all of it; exit code 2 when something is damaged)",
    ),
)
@grouped
def index(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] FOLDER… | copy SOURCE TARGET | check INDEX",
            help="A run, a model folder or starter; then folders of pictures, at any depth, or collections with captions.",
        ),
    ],
    collection: CollectionOptions,
    update: UpdateOptions,
    output: BulkOptions,
    where: PlaceOptions,
    model: Annotated[
        str | None, typer.Option("--model", help="The same as MODEL; also a model like CLIP, its folder or hub name.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option("--features", help="Made by vse features: its pictures are not encoded again.")
    ] = None,
    trust: Trust = False,
) -> None:
    """Index pictures, so that they can be searched with words.

    Run it again to update the index: only new and changed files are read.
    """
    from vsekit import verbs
    from vsekit.errors import UserError
    from vsekit.search.models import is_model
    from vsekit.search.walk import place_of, source_of

    progress = output.progress
    if what[0] == "copy":
        _copy(what[1:], where.dtype, progress=progress, json=output.json)
        return
    if what[0] == "check" and len(what) > 1:
        _check(what[1:], json=output.json)
        return
    if model is None and len(what) > 1 and is_model(what[0]):
        model, *what = what
    if where.out and where.store:
        raise UserError("--out and --store name two places for one index", remedy="Give one of them.")
    place = where.store or (str(where.out) if where.out else place_of(what))
    named = columns_dict(collection.columns)
    sources = [source_of(path, format=collection.format, images=collection.images, columns=named) for path in what]
    for source in sources:
        if source.collection is not None:
            progress.say(f"{source.root} is a collection: {len(source.pictures)} pictures with their captions.")
            for note in source.notes:
                progress.say(note)
    options: dict[str, Any] = {"features": features, "rebuild": update.rebuild, "forget": update.forget}
    options |= {"model": model or "starter", "out": place, "dtype": where.dtype, "progress": progress}
    if update.watch:
        if update.ocr:
            raise UserError("--watch does not read the text in pictures", remedy="Run vse index --ocr now and then.")
        if output.ray is not None:
            raise UserError("--watch goes on in one process", field="--engine", remedy="Leave one of the two out.")
        _watch(verbs.watch(*sources, **options), place, output)
        return
    report = verbs.index(*sources, **options, ocr=update.ocr, engine=output.ray)
    if output.json:
        print_json({"index": place, **report.as_dict()})
    else:
        _print(report, place)


def _watch(reports: Iterator[Report], place: str, output: OutputOptions) -> None:
    """The first report whole, then a line for each time that something was done; --json: a line each."""
    import json
    import signal

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    told: Report | None = None
    try:
        for report in reports:
            if output.json:
                typer.echo(json.dumps({"index": place, **report.as_dict()}, ensure_ascii=False))
            elif told is None:
                _print(report, place)
                output.progress.say("Watching for changes; Ctrl-C ends it.")
            else:
                done = _done(replace(report, unchanged=0)) or "looked again"
                typer.echo(f"{time.strftime('%H:%M:%S')}  {done}; {report.pictures} pictures")
                _print_trouble(report, told)
            told = report
    except KeyboardInterrupt:
        output.progress.say("Stopped; what was indexed is kept.")


def _print(report: Report, place: str) -> None:
    typer.echo(_done(report) or "No pictures.")
    _print_trouble(report)
    if report.waiting:
        typer.echo(
            f"{len(report.waiting)} were damaged, and their pictures are not there; they wait for the next vse index:"
        )
        for path in report.waiting[:_SHOWN]:
            typer.echo(f"  {path}")
    captions = f" and {report.captions} captions" if report.captions else ""
    typer.echo(f"{place} holds {report.pictures} pictures{captions}, after {report.seconds:.1f} s.")
    if report.pictures:
        name = shlex.quote(place)
        typer.echo(f'Now search: vse search {name} "what you look for", or vse serve {name} --open')


def _done(report: Report) -> str:
    counts = {
        "new": report.added,
        "changed": report.changed,
        "renamed": report.renamed,
        "removed": report.removed,
        "damaged and made again": report.repaired,
        "unchanged": report.unchanged,
        "read for text": report.read,
    }
    return ", ".join(f"{n} {name}" for name, n in counts.items() if n)


def _print_trouble(report: Report, told: Report | None = None) -> None:
    """But for what was told."""
    for title, name in (("can't be read", "broken"), ("can't be looked into", "unreadable")):
        known = getattr(told, name, {}).items()
        entries = dict(entry for entry in getattr(report, name).items() if entry not in known)
        if entries:
            typer.echo(f"{len(entries)} {title}:")
            for path, reason in list(entries.items())[:_SHOWN]:
                typer.echo(f"  {path}: {reason}")
            if len(entries) > _SHOWN:
                typer.echo(f"  … and {len(entries) - _SHOWN} more; --json lists all")


def _copy(places: list[str], dtype: str | None, *, progress: Progress, json: bool) -> None:
    from vsekit.errors import UserError
    from vsekit.search.stores import copy_index, open_store

    if len(places) != 2:
        raise UserError(f"copy wants two places, not {len(places)}", remedy="Write: vse index copy SOURCE TARGET")
    with open_store(places[0]) as source, progress.bar("Copy", "items") as bar:
        copied = copy_index(source, places[1], bar, dtype=dtype)
    if json:
        print_json({"source": places[0], "target": places[1], "items": copied})
    else:
        typer.echo(f"{places[1]} holds {copied} items of {places[0]}.")


def _check(places: list[str], *, json: bool) -> None:
    from vsekit.errors import UserError
    from vsekit.search.stores import check_index

    if len(places) != 1:
        raise UserError(f"check wants one index, not {len(places)}", remedy="Write: vse index check INDEX")
    found = check_index(places[0])
    if json:
        print_json({"index": places[0], **found._asdict()})
    else:
        typer.echo(f"{places[0]} holds {found.pictures} pictures and {found.captions} captions.")
        for sentence in found.damage:
            typer.echo(sentence)
        if found.waiting:
            typer.echo(f"{found.waiting} items were put aside: their vectors were damaged.")
        if found.damage or found.waiting:
            typer.echo("Run vse index again: what is damaged is made anew from the pictures.")
        else:
            typer.echo("All of it is as it was written.")
        for note in found.notes:
            typer.echo(note)
    if found.damage or found.waiting:
        raise typer.Exit(2)
