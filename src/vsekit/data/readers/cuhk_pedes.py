"""CUHK-PEDES JSON and its kin ICFG-PEDES, RSTPReid (Li et al., CVPR 2017): the groups are persons.

    [{"id": 1, "file_path": "CUHK01/0363004.png", "split": "train", "captions": ["The man has …", "A man in …"]}]

`reid_raw.json` has the official split; `caption_all.json` has none, so that persons are split by a hash of their id.
"""

from __future__ import annotations

from pathlib import Path

from vsekit.data.pairs import Pairs
from vsekit.data.readers.base import Options, Reader, expect, files_in, parse_json, read_text, sniff
from vsekit.data.readers.build import Builder, Images
from vsekit.data.readers.problems import Place, Problems

_KEYS = {"id", "file_path", "img_path", "split", "captions", "processed_tokens"}


def find(path: Path, options: Options) -> list[Path]:
    heads = ((file, sniff(file)) for file in files_in(path, ".json"))
    return [file for file, head in heads if head.startswith("[") and _is_persons(head)]


def _is_persons(head: str) -> bool:
    return '"captions"' in head and '"id"' in head and ('"file_path"' in head or '"img_path"' in head)


def read(path: Path, files: list[Path], options: Options, problems: Problems) -> Pairs:
    (file,) = files
    builder, images = Builder(path, options, problems), Images(file, options, problems)
    for i, entry in enumerate(parse_json(read_text(file, problems), Place(file))):
        at = Place(file, field=f"[{i}]")
        key = "img_path" if isinstance(entry, dict) and "img_path" in entry else "file_path"
        name = expect(entry, key, str, at, problems)
        person = expect(entry, "id", (int, str), at, problems) if name else None
        captions = expect(entry, "captions", list, at, problems) if name else None
        if name is None or person is None or captions is None:
            continue
        named = at._replace(field=f"[{i}].{key}")
        picture = builder.picture(
            name,
            images(name, named),
            named,
            split=expect(entry, "split", str, at, problems) if "split" in entry else None,
            group=str(person),
            meta={k: v for k, v in entry.items() if k not in _KEYS},
        )
        for j, text in enumerate(captions):
            builder.caption(text, picture, Place(file, field=f"[{i}].captions[{j}]"))
    return builder.pairs()


READER = Reader(
    "cuhk-pedes", 'a .json with [{"id", "file_path", "captions"}], where id is a person', find, read, single=True
)
