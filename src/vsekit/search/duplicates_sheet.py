"""Groups of copies, near-copies and bursts to look at: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vsekit.drawing.page import page, picture, row, section
from vsekit.errors import UserError
from vsekit.files import sized, write_text
from vsekit.search.duplicates import Group, best_by
from vsekit.search.items import Item
from vsekit.search.rerank import opened

#: Groups of a kind that are shown, and pictures of a group.
GROUPS, PICTURES = 100, 12
SIDE = 192
TITLES = {"copies": "Copies", "near-copies": "Near-copies", "burst": "Bursts"}


def write_sheet(path: Path, groups: Sequence[Group]) -> None:
    if path.suffix.lower() != ".html":
        raise UserError(f"can't write a sheet as '{path.suffix}'", file=path, remedy="Use .html.")
    write_text(path, page("Duplicates", summary(groups), [_section(kind, groups) for kind in TITLES]))


def summary(groups: Sequence[Group]) -> str:
    """In a sentence."""
    of = {kind: [group for group in groups if group.kind == kind] for kind in TITLES}
    files, spare = sum(len(group.others) for group in of["copies"]), sum(group.spare for group in of["copies"])
    return (
        f"{len(of['copies'])} pictures have {files} copies ({sized(spare)}); "
        f"{len(of['near-copies'])} groups of near-copies; {len(of['burst'])} bursts."
    )


def _section(kind: str, groups: Sequence[Group]) -> str:
    mine = [group for group in groups if group.kind == kind]
    if not mine:
        return ""
    rows = []
    for group in mine[:GROUPS]:
        best = _shown(group.keep, f"best: {best_by(group.items)}", True)
        others = [_shown(item, why, None) for item, why in group.others[: PICTURES - 1]]
        rows.append(row(best, *others))
    left = len(mine) - GROUPS
    return section(
        f"{TITLES[kind]}: {len(mine)}", *rows, note=f"{left} more groups; --json lists all." if left > 0 else ""
    )


def _shown(item: Item, why: str, good: bool | None) -> str:
    from PIL import Image

    image = opened(item, SIDE) or Image.new("RGB", (SIDE, SIDE), "#888888")
    name = f"{item.meta.get('folder', '')}/{item.meta.get('name', item.path)}"
    favourite = "favourite, " if item.meta.get("favourite") is True else ""
    return picture(image, f"{favourite}{why}. {item.width} × {item.height}, {sized(item.size)}. {name}", good, SIDE)
