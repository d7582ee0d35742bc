"""What `--data` and `--val` name, as a stream: addresses of shards, and the pairs it is measured on."""

from __future__ import annotations

import atexit
import io
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from vsekit.data.clean import SetAside
from vsekit.data.pairs import Pairs
from vsekit.data.readers.problems import Problem
from vsekit.data.stream.addresses import names_stream, shards
from vsekit.data.stream.reading import described, samples
from vsekit.data.stream.stream import Stream
from vsekit.errors import UserError
from vsekit.features.reading import Reading
from vsekit.progress import QUIET, Progress

#: Pictures of a stream that are kept to measure with, unless `data.val_pictures` says another number.
MEASURED = 5_000


def open_stream(
    data: str,
    val: str | Path | Reading | Pairs | None,
    split: str = "val",
    *,
    pictures: int | None = None,
    strict: bool = False,
    progress: Progress = QUIET,
) -> Stream:
    """The shards that `data` names, with what `val` names to measure on.

    Args:
        val: a collection; its split `split`, or all of it where it has but one. Or shards, of which the first `pictures` are
            kept on disk as long as this process lives.
    """
    found = shards(data)
    if val is None:
        raise UserError(
            "a stream is not divided into splits: it needs a collection to measure with",
            field="--val",
            remedy="For example --val val.csv, or --val 'shards/val-{00..03}.tar'.",
        )
    if isinstance(val, Pairs):
        return Stream(found, _split(val, split), strict)
    aside: list[SetAside] = []
    if not isinstance(val, Reading):
        if names_stream(val):
            val, aside = kept_on_disk(shards(str(val)), split, pictures or MEASURED, progress)
        val = Reading(Path(val).expanduser(), strict=strict, notes=progress)
    clean = val.clean(progress)
    return Stream(found, _split(clean.pairs, split), strict, [*aside, *clean.skipped])


def _split(pairs: Pairs, split: str) -> Pairs:
    return pairs if len(pairs.splits) == 1 else pairs.split(split)


def kept_on_disk(
    addresses: Sequence[str], split: str, pictures: int, progress: Progress
) -> tuple[Path, list[SetAside]]:
    """The first samples of a stream as a shard on disk, for this process alone; and what of them can't be used."""
    folder = Path(tempfile.mkdtemp(prefix="vsekit-val-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    aside: list[SetAside] = []
    path, kept = folder / f"{split}.tar", 0
    with tarfile.open(path, "w") as archive, progress.bar("Fetching pictures to measure with", "pictures") as bar:
        for number, shard in enumerate(addresses):
            for item in samples(shard):
                told = item if isinstance(item, Problem) else described(item)
                if isinstance(told, Problem):
                    aside.append(SetAside(told, "left out"))
                    continue
                assert not isinstance(item, Problem)
                if told.split not in (None, split):
                    continue
                for suffix, content in item.members.items():
                    member = tarfile.TarInfo(f"{number:06d}/{item.key}{suffix}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
                kept += 1
                bar.update(kept, pictures)
                if kept == pictures:
                    return path, aside
    if not kept:
        raise UserError(f"there is no sample of the split '{split}' in these shards", field="--val", file=addresses[0])
    return path, aside
