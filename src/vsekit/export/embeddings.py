"""Embeddings as plain files: `vse embed`.

    images.npy, captions.npy            (n, D) float32, one row an item
    image_ids.txt, caption_ids.txt      the item of each row, one id a line; captions are PICTURE#0, PICTURE#1, …
    image_groups.npy, caption_groups.npy   equal numbers belong together; see `vse evaluate --image-groups`
    images.parquet, captions.parquet    the same with ids and sentences, where asked for
    embed.json                          what made them, how many rows of each are done, and checksums at the end

A kill at any moment costs the last few seconds: the same call goes on where embed.json stands.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from vsekit import threads
from vsekit.bulk.ray import Ray
from vsekit.bulk.work import Work
from vsekit.data.pairs import Pairs, Picture
from vsekit.errors import UserError, missing_extra
from vsekit.export.runtime import CONFIG, Exported, is_exported, open_exported
from vsekit.features.fingerprints import identities_of
from vsekit.features.writer import AGAIN, ResumableWriter
from vsekit.files import atomic_path, fingerprint, write_npy, write_text
from vsekit.progress import QUIET, Progress
from vsekit.seals import CHECKED, KEY, check_files

MARKER = "embed.json"
SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp"))
#: Items encoded at a time, and so the grain of going on.
PICTURES, CAPTIONS = 8, 256
#: In a block of work for others: some seconds of it, and what is lost with a worker.
BATCHES = 8

#: Rows, and the reason by id of those that stay zero.
Encoded: TypeAlias = tuple[np.ndarray, dict[str, str]]


def open_model(name: str | Path) -> Any:
    """An exported folder, or any model that can be exported: both encode pictures and texts and have a fingerprint."""
    if is_exported(name):
        return open_exported(name, threads=1)  # several batches at once, each on a thread
    from vsekit.export.sources import read_source

    return read_source(name)


def pictures_below(folder: Path) -> Pairs:
    """The pictures of a folder, at any depth, in the order of their names; each its own group, none with captions."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not paths:
        raise UserError("no pictures here", file=folder, remedy=f"They end in {', '.join(sorted(SUFFIXES))}.")
    names = [path.relative_to(folder).as_posix() for path in paths]
    return Pairs([Picture(name, path, "all", name) for name, path in zip(names, paths)], [], folder)


def embed(
    model: Any,
    pairs: Pairs,
    out: Path | str,
    *,
    parquet: bool = False,
    skip_broken: bool = False,
    engine: Ray | None = None,
    progress: Progress = QUIET,
) -> dict[str, Any]:
    """Embeds a collection into the folder `out`, or goes on with it, or finds it finished. Gives embed.json.

    Args:
        model: what `open_model` gave.
        parquet: also write Parquet files.
        skip_broken: leave zeros for pictures that can't be read, and name them in embed.json, instead of raising UserError.
        engine: spreads the work over the workers of Ray; the files are the same.
    """
    if engine is not None:
        engine.ready()
    out = Path(out)
    ids, caption_ids = [picture.id for picture in pairs.pictures], caption_names(pairs)
    if any("\n" in name for name in ids):
        raise UserError("a picture's id has a line break", file=pairs.root, remedy="Give pictures other ids.")
    texts = [caption.text for caption in pairs.captions]
    made_by = fingerprint(model.fingerprint, ids, identities_of(pairs.pictures), texts)
    with ResumableWriter(out, MARKER, {"fingerprint": made_by}, _other) as writer:
        check_files(out, (writer.state or {}).pop(KEY, {}), AGAIN, most=CHECKED)
        header = writer.state or {
            "fingerprint": made_by,
            "model": model.fingerprint,
            "dim": model.dim,
            "images": {"count": len(ids), "done": 0},
            "captions": {"count": len(texts), "done": 0},
            "broken": {},
        }
        if header["images"]["done"] < len(ids) or header["captions"]["done"] < len(texts):
            _check(model, pairs)
        if writer.state is None:
            for name, lines in (("image_ids", ids), ("caption_ids", caption_ids)):
                write_text(out / f"{name}.txt", "".join(f"{line}\n" for line in lines))
            write_npy(out / "image_groups.npy", pairs.picture_groups)
            write_npy(out / "caption_groups.npy", pairs.caption_groups)
            sides = {"images": len(ids), "captions": len(texts)}
            writer.reserve({side: (np.float32, (count, model.dim)) for side, count in sides.items()})

        if header["images"]["done"] < len(ids):
            at_once = _ready(model, len(ids))
            _fill(writer, header, _Side("images", model, pairs, header, skip_broken), at_once, engine, progress)
        _fill(writer, header, _Side("captions", model, pairs, header), 1, engine, progress)
        writer.mark(header, finished=True)
    if parquet:
        _write_parquet(out / "images.parquet", {"id": ids}, out / "images.npy")
        owners = [pairs.pictures[caption.picture].id for caption in pairs.captions]
        _write_parquet(
            out / "captions.parquet", {"id": caption_ids, "picture": owners, "text": texts}, out / "captions.npy"
        )
    return header


def caption_names(pairs: Pairs) -> list[str]:
    """PICTURE#0, PICTURE#1, … in the collection's order."""
    seen: Counter[int] = Counter()
    names = []
    for caption in pairs.captions:
        names.append(f"{pairs.pictures[caption.picture].id}#{seen[caption.picture]}")
        seen[caption.picture] += 1
    return names


def _other(name: str, was: Any, now: Any) -> UserError:
    what = "these embeddings are of another model, or of other pictures or captions"
    return UserError(what, field=MARKER, remedy="Give a new folder.")


def _check(model: Any, pairs: Pairs) -> None:
    """Raises UserError for what no picture is at fault for, before anything is written: `skip_broken` must not pass it over."""
    if isinstance(model, Exported):
        if pairs.pictures:
            _ = model.image_session
        if pairs.captions:
            _ = model.text_session, model.sentences
    if pairs.pictures and pairs.features is None:
        _given(model, pairs.pictures[0], pairs)


def _ready(model: Any, pictures: int) -> int:
    """How many batches to encode at once."""
    return threads.choose(threads.most()) if isinstance(model, Exported) else model.get_ready(pictures)


class _Batch(NamedTuple):
    """Rows from `start` on, and the reason by id of those that stay zero."""

    start: int
    rows: np.ndarray
    broken: dict[str, str]


class _Side(Work):
    """The batches of pictures or captions that are still to be made. A block is `BATCHES` of them."""

    def __init__(self, name: str, model: Any, pairs: Pairs, header: dict[str, Any], skip_broken: bool = False) -> None:
        self.name, self.model, self.pairs, self.skip_broken = name, model, pairs, skip_broken
        self.first, self.count = header[name]["done"], header[name]["count"]
        self.size = PICTURES if name == "images" else CAPTIONS

    def batch(self, start: int) -> _Batch:
        some = slice(start, min(start + self.size, self.count))
        if self.name == "images":
            return _Batch(start, *_of_pictures(self.model, self.pairs, some, self.skip_broken))
        return _Batch(start, self.model.encode_texts([caption.text for caption in self.pairs.captions[some]]), {})

    def here(self, at_once: int) -> Iterator[_Batch]:
        """All batches, some at once."""
        starts = range(self.first, self.count, self.size)
        waiting: deque[Future[_Batch]] = deque()
        ahead = iter(starts)
        with threads.pool(at_once) as pool:
            for _ in starts:
                waiting.extend(pool.submit(self.batch, at) for at in islice(ahead, 2 * at_once - len(waiting)))
                yield waiting.popleft().result()

    @property
    def blocks(self) -> range:
        return range(-(-(self.count - self.first) // (BATCHES * self.size)))

    def __call__(self, block: int) -> list[_Batch]:
        return [self.batch(start) for start in self._rows_of(block)[:: self.size]]

    def paths(self, block: int) -> list[Path]:
        found = [self.model.folder / CONFIG] if isinstance(self.model, Exported) else []
        pictures = self.pairs.pictures if self.name == "images" and not _reads_features(self.model) else []
        some = (pictures[row].path for row in self._rows_of(block)) if pictures else ()
        return [*found, *(path for path in some if path is not None)]

    def _rows_of(self, block: int) -> range:
        start = self.first + block * BATCHES * self.size
        return range(start, min(start + BATCHES * self.size, self.count))


def _fill(
    writer: ResumableWriter,
    header: dict[str, Any],
    side: _Side,
    at_once: int,
    engine: Ray | None,
    progress: Progress,
) -> None:
    """Writes the rows that are missing."""
    batches = side.here(at_once) if engine is None else chain.from_iterable(engine.map(side, side.blocks))
    with progress.bar(side.name.capitalize(), side.name) as bar:
        for start, rows, broken in batches:
            writer.write(side.name, start, np.asarray(rows, np.float32))
            header["broken"] |= broken
            header[side.name]["done"] = start + len(rows)
            if writer.due:
                writer.mark(header)
            bar.update(start + len(rows), side.count)


def _of_pictures(model: Any, pairs: Pairs, some: slice, skip_broken: bool) -> Encoded:
    pictures = pairs.pictures[some]
    try:
        return model.encode_images([_given(model, picture, pairs) for picture in pictures]), {}
    except (UserError, OSError, ValueError):
        if not skip_broken:
            raise
    rows, broken = np.zeros((len(pictures), model.dim), np.float32), {}
    for row, picture in zip(rows, pictures):
        try:
            row[:] = model.encode_images([_given(model, picture, pairs)])[0]
        except (UserError, OSError, ValueError) as error:
            broken[picture.id] = error.what if isinstance(error, UserError) else str(error)
    return rows, broken


def _given(model: Any, picture: Picture, pairs: Pairs) -> Any:
    """What the model reads: the picture, or its features."""
    if _reads_features(model):
        if pairs.features is None or picture.row is None:
            raise UserError(
                "this model reads features, and the collection has none", file=pairs.root, remedy="Give --features DIR."
            )
        return np.asarray(pairs.features[picture.row], np.float32)
    return picture


def _reads_features(model: Any) -> bool:
    if isinstance(model, Exported):
        return model.config["image"]["reads"] == "features"
    return model.feature_dim is not None


def _write_parquet(path: Path, columns: dict[str, Sequence[str]], vectors: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_extra("pyarrow", "tables") from None
    array = np.load(vectors, mmap_mode="r", allow_pickle=False)
    flat = pa.array(array.reshape(-1), pa.float32())
    table = {name: pa.array(list(values), pa.string()) for name, values in columns.items()}
    table["embedding"] = pa.FixedSizeListArray.from_arrays(flat, array.shape[1])
    with atomic_path(path) as temporary:
        pq.write_table(pa.table(table), temporary)
