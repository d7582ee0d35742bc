"""vse duplicates: copies, near-copies and bursts of an index; copies to the trash, when asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import OutputOptions, examples, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vsekit.progress import Progress
    from vsekit.search.duplicates import Group
    from vsekit.search.stores import Store
    from vsekit.search.trash import Trashed

#: Groups of a kind that are listed, and pictures of a group.
_SHOWN, _MEMBERS = 20, 10


@app.command(
    epilog=examples(
        "vse duplicates photos",
        "vse duplicates photos --sheet duplicates.html   (to look at)",
        "vse duplicates photos --trash copies   (asks first; the best of each stays)",
        "vse duplicates photos --trash copies --yes --json",
    ),
)
@grouped
def duplicates(
    index: Annotated[str, typer.Argument(help="An index: a folder, or the address of a store.")],
    output: OutputOptions,
    sheet: Annotated[Path | None, typer.Option("--sheet", help="Write an HTML file to look at.")] = None,
    trash: Annotated[
        str | None,
        typer.Option("--trash", metavar="copies", help="Move copies to the trash, but for the best of each."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before that.")] = False,
) -> None:
    """Find copies of pictures, near-copies, and shots of one moment. Nothing is changed unless --trash says so.

    Copies have the same bytes, or show the same picture at another size or quality, or in another format.
    """
    from vsekit.errors import UserError
    from vsekit.search.duplicates import find_duplicates
    from vsekit.search.duplicates_sheet import summary, write_sheet
    from vsekit.search.stores import open_store

    if trash not in (None, "copies"):
        raise UserError(
            f"can't trash '{trash}'", remedy="Only copies can go: --trash copies. The rest is for you to look at."
        )
    with open_store(index) as store:
        groups = find_duplicates(store, progress=output.progress)
        if sheet is not None:
            write_sheet(sheet, groups)
        if not output.json:
            _list(groups)
            typer.echo(summary(groups))
            if sheet is not None:
                typer.echo(f"Look at {sheet}")
        done = _trash(store, groups, yes, output.progress) if trash else None
    if output.json:
        told = {"moved": [item.path for item in done.moved], "left": done.left, "bytes": done.bytes} if done else None
        print_json({"index": index, "groups": [group.as_dict() for group in groups], "trash": told})
    elif done is not None:
        _told(done)


def _list(groups: Sequence[Group]) -> None:
    from vsekit.files import sized
    from vsekit.search.duplicates import best_by
    from vsekit.search.sheet import one_line

    for kind in ("copies", "near-copies", "burst"):
        mine = [group for group in groups if group.kind == kind]
        for group in mine[:_SHOWN]:
            typer.echo(f"{kind}:")
            told = [(group.keep, f"best: {best_by(group.items)}"), *group.others]
            for item, why in told[:_MEMBERS]:
                size = f"{item.width} × {item.height}, {sized(item.size)}"
                favourite = ", favourite" if item.meta.get("favourite") is True else ""
                typer.echo(f"  {one_line(item.path)}  ({why}; {size}{favourite})")
            if len(told) > _MEMBERS:
                typer.echo(f"  … and {len(told) - _MEMBERS} more")
        if len(mine) > _SHOWN:
            typer.echo(f"… and {len(mine) - _SHOWN} more groups of {kind}; --json lists all, --sheet shows them")


def _trash(store: Store, groups: Sequence[Group], yes: bool, progress: Progress) -> Trashed | None:
    """None where there is nothing to do, or where that was the answer."""
    import sys

    from vsekit.errors import UserError
    from vsekit.files import sized
    from vsekit.search.trash import trash_copies

    copies = [group for group in groups if group.kind == "copies"]
    files, spare = sum(len(group.others) for group in copies), sum(group.spare for group in copies)
    if not files:
        return None
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("there is nobody to ask whether copies may go to the trash", remedy="Add --yes to say so.")
        if not typer.confirm(f"Move {files} copies ({sized(spare)}) to the trash?", err=True):
            return None
    return trash_copies(store, copies, progress=progress)


def _told(done: Trashed) -> None:
    from vsekit.files import sized

    typer.echo(f"{len(done.moved)} copies ({sized(done.bytes)}) are in the trash.")
    for path, reason in list(done.left.items())[:_SHOWN]:
        typer.echo(f"  left: {path}: {reason}")
    if len(done.left) > _SHOWN:
        typer.echo(f"  … and {len(done.left) - _SHOWN} more; --json lists all")
