"""COCO captions JSON: captions_train2014.json, captions_val2014.json (Chen et al., arXiv:1504.00325).

    {"images": [{"id": 9, "file_name": "COCO_train2014_000000000009.jpg"}],
     "annotations": [{"image_id": 9, "id": 661611, "caption": "Closeup of bins of food that …"}]}

The split stands in the file's name. Ids are kept where Karpathy's JSON has them: `cocoid` and `sentid`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from vsekit.data.pairs import Pairs
from vsekit.data.readers.base import Options, Reader, expect, files_in, parse_json, read_text, sniff, split_in
from vsekit.data.readers.build import Builder, Images
from vsekit.data.readers.problems import Place, Problems


def find(path: Path, options: Options) -> list[Path]:
    heads = ((file, sniff(file)) for file in files_in(path, ".json"))
    return [f for f, head in heads if head.startswith("{") and '"image_id"' in head and '"caption"' in head]


def read(path: Path, files: list[Path], options: Options, problems: Problems) -> Pairs:
    builder = Builder(path, options, problems)
    for file in files:
        with problems.catching():
            content = parse_json(read_text(file, problems), Place(file))
            by_id = _add_images(content, file, builder, Images(file, options, problems), problems)
            _add_captions(content, file, builder, by_id, problems)
    return builder.pairs()


def _add_images(content: Any, file: Path, builder: Builder, images: Images, problems: Problems) -> dict[Any, int]:
    by_id: dict[Any, int] = {}
    year = re.search(r"(train|val|test)\d{4}", file.stem)
    for i, entry in enumerate(expect(content, "images", list, Place(file), problems) or []):
        at = Place(file, field=f"images[{i}]")
        name = expect(entry, "file_name", str, at, problems)
        key = expect(entry, "id", (int, str), at, problems) if name else None
        if name is None or key is None:
            continue
        named = at._replace(field=f"{at.field}.file_name")
        location = images(name, named, year[0] if year else "")
        meta = {k: v for k, v in entry.items() if k not in {"id", "file_name"}} | {"cocoid": key}
        by_id[key] = builder.picture(name, location, named, split=split_in(file.stem), meta=meta)
    return by_id


def _add_captions(content: Any, file: Path, builder: Builder, by_id: dict[Any, int], problems: Problems) -> None:
    for i, entry in enumerate(expect(content, "annotations", list, Place(file), problems) or []):
        at = Place(file, field=f"annotations[{i}]")
        key = expect(entry, "image_id", (int, str), at, problems)
        if key in by_id:
            meta = {k: v for k, v in entry.items() if k not in {"id", "image_id", "caption"}} | {
                "sentid": entry.get("id")
            }
            builder.caption(entry.get("caption"), by_id[key], at._replace(field=f"{at.field}.caption"), meta)
        elif key is not None:
            problems.add(
                "unknown-picture",
                f"there is no picture with the id {key!r}",
                at._replace(field=f"{at.field}.image_id"),
                remedy="It must be the 'id' of an entry of 'images' in the same file.",
            )


READER = Reader(
    "coco", 'a .json with {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}', find, read
)
