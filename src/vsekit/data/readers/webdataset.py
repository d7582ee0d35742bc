"""WebDataset shards: tar files in which the files of one sample share a key.

    train-000000.tar:  000000001.jpg  000000001.txt  000000002.jpg  000000002.json ({"caption": …, "split": …})

Only headers and texts are read; a picture is the tar file, an offset and a size. Captions stand in the .json as
`caption` or `captions`, else in the .txt, one a line; the rest of the .json is `meta`. The split is the .json's, or is
told by the shard's name or folder, or by a hash of the group.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from vsekit.data.pairs import Pairs
from vsekit.data.readers.base import IMAGE_SUFFIXES, Options, Reader, files_in, one_or_more, parse_json, split_in
from vsekit.data.readers.build import Builder
from vsekit.data.readers.problems import Place, Problems
from vsekit.errors import UserError


def find(path: Path, options: Options) -> list[Path]:
    if path.is_file():
        return files_in(path, ".tar", ".tar.gz", ".tgz")
    shards = files_in(path, ".tar", below=[entry.name for entry in os.scandir(path) if entry.is_dir()])
    return shards if any(map(_has_texts, shards)) else []


def _has_texts(shard: Path) -> bool:
    """Whether a tar file found in a folder is a shard, and not just an archive of pictures beside other annotations."""
    try:
        with tarfile.open(shard, "r:") as archive:
            return any(member.name.endswith((".txt", ".json")) for member in islice(archive, 20))
    except tarfile.TarError:
        return False


def read(path: Path, files: list[Path], options: Options, problems: Problems) -> Pairs:
    builder = Builder(path, options, problems)
    for shard in files:
        name = shard.stem if shard == path else shard.relative_to(path).with_suffix("").as_posix()
        with problems.catching(), shard.open("rb") as file:
            for sample in samples(shard):
                _add(sample, name, file, builder, problems)
    return builder.pairs()


class Sample(NamedTuple):
    """The files of one key: suffix to (offset, size) in the shard."""

    shard: Path
    key: str
    members: dict[str, tuple[int, int]]

    def place(self, suffix: str = "") -> Place:
        return Place(self.shard, field=self.key + suffix)

    def text(self, suffix: str, file: BinaryIO, problems: Problems) -> str:
        offset, size = self.members[suffix]
        file.seek(offset)
        data = file.read(size)
        try:
            return data.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            problems.add("encoding", "the text is not UTF-8", self.place(suffix), remedy="Encode it as UTF-8.")
            return data.decode(errors="replace")


def samples(shard: Path) -> Iterable[Sample]:
    """The samples of a shard, from its headers. As in WebDataset, a key ends at the first dot of the file's name."""
    with shard.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            raise UserError(
                "this shard is compressed, so that pictures can't be read from the middle",
                file=shard,
                remedy="Unpack it (images don't get smaller by gzip): gunzip, and keep the .tar.",
            )
    found: dict[str, Sample] = {}
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                folder, slash, name = member.name.rpartition("/")
                stem, dot, suffix = name.partition(".")
                if member.isreg() and stem:
                    key = folder + slash + stem
                    sample = found.setdefault(key, Sample(shard, key, {}))
                    sample.members[dot + suffix.lower()] = member.offset_data, member.size
    except tarfile.TarError as error:
        what = f"this is not a whole tar file: {error}"
        raise UserError(what, file=shard, remedy="Fetch or write it again.") from None
    return found.values()


def _add(sample: Sample, shard_name: str, file: BinaryIO, builder: Builder, problems: Problems) -> None:
    image = next((suffix for suffix in sample.members if suffix in IMAGE_SUFFIXES), None)
    if image is None:
        what = f"the sample has no image, only {', '.join(sample.members)}"
        problems.add("missing-image", what, sample.place(), remedy="Write key.jpg, key.png or key.webp beside it.")
        return
    meta: Any = {}
    if ".json" in sample.members:
        with problems.catching():
            meta = parse_json(sample.text(".json", file, problems), sample.place(".json"))
        if not isinstance(meta, dict):
            problems.add("bad-field", "this is not an object", sample.place(".json"), remedy="Write {…}.")
            meta = {}
    captions = [
        (f".json:{name}{index}", text)
        for name in ("caption", "captions")
        for index, text in one_or_more(meta.pop(name, []))
    ]
    if not captions and ".txt" in sample.members:
        captions = [(".txt", line) for line in sample.text(".txt", file, problems).split("\n")]
    group, split = meta.pop("group", meta.pop("person_id", None)), meta.pop("split", None)
    split = str(split) if split else split_in(sample.shard.stem) or split_in(sample.shard.parent.name)
    offset, size = sample.members[image]
    picture = builder.picture(
        f"{shard_name}/{sample.key}",
        sample.shard,
        sample.place(),
        split=split,
        group=None if group is None else str(group),
        offset=offset,
        size=size,
        meta=meta,
    )
    for where, text in captions:
        builder.caption(text, picture, sample.place(where))


READER = Reader("webdataset", "uncompressed shards *.tar with key.jpg and key.txt or key.json", find, read)
