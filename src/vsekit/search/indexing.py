"""Bringing an index up to date with folders and collections of pictures.

    walk ──► read, fingerprint, decode (threads) ──► encode (a thread) ──► write (every few seconds)

All steps overlap. A file of the same size and time as before is not opened. One whose bytes the index has already is not
encoded: it was renamed, if the old path is gone, or it is a copy. What was written stays written when the process is
killed, and the next call goes on from there.
"""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from vsekit import __version__
from vsekit.data.decoding import PictureError, open_picture, upright
from vsekit.data.pairs import Pairs
from vsekit.errors import UserError
from vsekit.files import fingerprint
from vsekit.progress import QUIET, Bar, Progress
from vsekit.search.calibration import calibrate
from vsekit.search.items import Item, Value
from vsekit.search.metadata import FIELDS, file_meta, picture_meta
from vsekit.search.models import SearchModel, load_search_model
from vsekit.search.pictures import read_bytes
from vsekit.search.sentences import SENTENCES
from vsekit.search.stores.base import Store
from vsekit.search.walk import Seen, Source, collected, source_of

#: Seconds of work a kill may cost.
FLUSH_SECONDS = 3.0
#: In larger indexes, sentences for approximate stores to tune their effort with: searches are in words.
SAMPLE_QUERIES_ABOVE = 100_000
#: Threads that decode; one is enough for a CPU's encoder, a GPU's wants more.
READERS = min(8, max(2, os.cpu_count() or 2))
#: Pictures read ahead of the encoder, and batches waiting for it: enough for it to go on while the store writes.
AHEAD = 32
WAITING = 8
TEXTS = 256
ITEMS = 1000


@dataclass
class Report:
    """What was done. Numbers of pictures, but for those of captions.

    encoded: pictures the encoder read; those added or changed, but for copies.
    pictures, captions: in the index now. new_captions: added or changed.
    broken: pictures that can't be read, with the reason. unreadable: folders likewise; what the index holds of them stays.
    """

    added: int = 0
    changed: int = 0
    renamed: int = 0
    removed: int = 0
    unchanged: int = 0
    encoded: int = 0
    new_captions: int = 0
    pictures: int = 0
    captions: int = 0
    seconds: float = 0.0
    broken: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def index(
    model: SearchModel | str | Path,
    source: Path | str | Pairs | Source | Sequence[Path | str | Pairs | Source],
    store: Store | str | Path,
    *,
    rebuild: bool = False,
    progress: Progress = QUIET,
) -> Report:
    """Brings `store` up to date with the pictures of `source`, and with its captions where it has any.

    >>> report = index("starter", "photos", "photos.index")                             # doctest: +SKIP
    >>> report.added, report.broken                                                      # doctest: +SKIP

    Args:
        model: what encodes; see `load_search_model`.
        source: folders, which are walked, and collections; see `vsekit.search.walk.source_of`. What the index holds from
            elsewhere stays as it is.
        store: an open store, or where one is or shall be.
        rebuild: start from nothing, for instance with another model.
    """
    if not isinstance(model, SearchModel):
        model = load_search_model(model)
    if not isinstance(store, Store):
        from vsekit.search.stores import open_store

        with open_store(store, create=model.dim, rebuild=rebuild) as opened:
            return index(model, source, opened, progress=progress)
    started = time.monotonic()
    _prepare_store(store, model, rebuild)
    given = [source] if isinstance(source, Path | str | Pairs | Source) else source
    sources = [_source(one) for one in given]
    report = _Indexer(model, store, sources, progress).run()
    report.seconds = time.monotonic() - started
    return report


def _source(given: Path | str | Pairs | Source) -> Source:
    if isinstance(given, Source):
        return given
    return collected(given) if isinstance(given, Pairs) else source_of(given)


def _prepare_store(store: Store, model: SearchModel, rebuild: bool) -> None:
    """From here on this process is the writer, so that what it sees stays so until it has written."""
    store.lock()
    if rebuild:
        store.rebuild(model.dim)
    made_with = store.header.get("fingerprint")
    if made_with not in (None, model.fingerprint):
        raise UserError(
            f"this index was made with another model: {store.header.get('model')} ({made_with}), "
            f"not {model.name} ({model.fingerprint})",
            file=store.location,
            remedy="Name that model, or make the index anew with --rebuild.",
        )
    if store.dim != model.dim:
        raise UserError(
            f"this index holds vectors of {store.dim} numbers, the model makes {model.dim}",
            file=store.location,
            remedy="Choose another place for the index of this model.",
        )


class _Known(NamedTuple):
    """What the index knows of a picture."""

    id: str
    content: str
    size: int
    mtime_ns: int
    collection: Value | None


class _Read(NamedTuple):
    """A picture that was read. prepared is None where its bytes are in the index or on their way, or where it is broken:
    `reason` says why, and `lasting` whether it stays so until the file changes."""

    seen: Seen
    content: str = ""
    meta: dict[str, Value] | None = None
    prepared: np.ndarray | None = None
    reason: str | None = None
    lasting: bool = True


class _Indexer:
    def __init__(self, model: SearchModel, store: Store, sources: list[Source], progress: Progress) -> None:
        self.model, self.store, self.sources, self.progress = model, store, sources, progress
        self.report = Report()
        self.known: dict[str, _Known] = {}
        self.ids: set[str] = set()
        self.contents: dict[str, str] = {}  # content → id
        self.claimed: set[str] = set()  # contents on their way to the encoder
        self.copies: dict[str, list[Seen]] = {}  # of those
        self.moved: set[str] = set()  # ids
        self.gone: dict[str, list[str]] = {}  # content → paths of the index that are there no more
        self.broken: dict[str, Sequence[Any]] = {}  # path → size, time, reason
        self.lock = Lock()
        # What the next flush writes.
        self.written: dict[str, tuple[Item, np.ndarray]] = {}
        self.updated: dict[str, Item] = {}
        self.deleted: list[str] = []
        self.flushed = time.monotonic()

    def run(self) -> Report:
        store, report, header = self.store, self.report, self.store.header
        was_complete = header.get("complete", False)
        # Another version may read what this one could not.
        self.broken = header.get("broken", {}) if header.get("vsekit") == __version__ else {}
        places = (place for source in self.sources for place in (source.root, *source.folders))
        header |= {"vsekit": __version__, "model": self.model.name, "fingerprint": self.model.fingerprint}
        header |= {"roots": sorted({*header.get("roots", []), *places}), "complete": False}
        store.set_header(header)
        for item in store.all_items("image"):
            self.known[item.path] = _Known(item.id, item.content, item.size, item.mtime_ns, item.meta.get("collection"))
            self.contents[item.content] = item.id
            self.ids.add(item.id)
        seen, gone = self._compare()
        with warnings.catch_warnings(), self.progress.bar("Pictures", "pictures") as bar:
            warnings.filterwarnings("ignore", module=r"PIL\.")
            try:
                self._pictures([picture for picture in seen.values() if not self._settled(picture)], bar)
            except KeyboardInterrupt:
                self._flush()
                raise
        self._remove([path for path in gone if path in self.known])
        self._columns([picture for picture in seen.values() if picture.meta])
        self._captions(seen)
        self._flush()
        changed = report.added + report.changed + report.removed + report.new_captions > 0
        report.pictures, report.captions = store.count("image"), store.count("caption")
        if changed or not was_complete:
            header["calibration"] = calibrate(store, self.model)
            if report.pictures > SAMPLE_QUERIES_ABOVE and "sample_queries" not in header:
                header["sample_queries"] = self.model.encode_texts(SENTENCES[:64]).round(4).tolist()
        header |= {
            "broken": self.broken,
            "counts": {"image": report.pictures, "caption": report.captions},
            "indexed": datetime.now(UTC).isoformat(timespec="seconds"),
            "complete": True,
        }
        store.set_header(header)
        return report

    def _compare(self) -> tuple[dict[str, Seen], list[str]]:
        """The pictures that are there, by path, and the paths of the index that are there no more."""
        seen: dict[str, Seen] = {}
        for source in self.sources:
            if source.collection is None and self._emptied(source.root):
                source.unreadable[source.root] = "empty now; what the index holds of it is kept (--rebuild forgets it)"
            self.report.broken |= source.missing
            self.report.unreadable |= source.unreadable
            for picture in source.pictures:
                if picture.path not in seen or picture.captions is not None:
                    seen[picture.path] = picture

        def absent(path: str, collection: Value | None) -> bool:
            return path not in seen and any(source.holds(path, collection) for source in self.sources)

        self.broken = {path: entry for path, entry in self.broken.items() if not absent(path, None)}
        gone = [path for path, known in self.known.items() if absent(path, known.collection)]
        for path in gone:
            self.gone.setdefault(self.known[path].content, []).append(path)
        return seen, gone

    def _emptied(self, root: str) -> bool:
        """Whether a folder the index holds pictures of has nothing at all in it: most likely a drive that is not there."""
        return any(path.startswith(f"{root}/") for path in self.known) and not any(os.scandir(root))

    def _settled(self, picture: Seen) -> bool:
        """Whether a picture need not be opened: it is in the index or known to be broken, and has not changed since."""
        path, now = picture.path, (picture.size, picture.mtime_ns)
        size, mtime_ns, reason = self.broken.get(path, (None, None, ""))
        if (size, mtime_ns) == now:
            self.report.broken[path] = reason
            return True
        self.broken.pop(path, None)
        if path in self.known and (self.known[path].size, self.known[path].mtime_ns) == now:
            self.report.unchanged += 1
            return True
        return False

    # Reading, in threads

    def _read(self, seen: Seen) -> _Read:
        try:
            data = read_bytes(seen.path)
        except OSError as error:
            return _Read(seen, reason=error.strerror or str(error), lasting=False)
        except PictureError as error:
            return _Read(seen, reason=error.reason, lasting=error.lasting)
        content = fingerprint(data)
        with self.lock:
            if content in self.contents or content in self.claimed:
                return _Read(seen, content)
            self.claimed.add(content)
        try:
            with open_picture(data) as image:
                meta = picture_meta(image)
                return _Read(seen, content, meta, self.model.prepare(upright(image, self.model.side)))
        except PictureError as error:
            return _Read(seen, content, reason=error.reason, lasting=error.lasting)
        except Exception as error:  # a model may be unable to look at what others can, such as a line of pixels
            return _Read(seen, content, reason=str(error) or type(error).__name__, lasting=False)

    # All else, in the caller's thread: a store need not be used from several.

    def _pictures(self, todo: list[Seen], bar: Bar) -> None:
        """Reads, encodes and writes."""
        total, done = len(todo), 0
        reading: deque[Future[_Read]] = deque()
        encoding: deque[tuple[list[_Read], Future[np.ndarray]]] = deque()
        batch: list[_Read] = []
        left = deque(todo)
        with _pool(READERS) as readers, _pool(1) as encoder:
            while left or reading or batch or encoding:
                while left and len(reading) < AHEAD:
                    reading.append(readers.submit(self._read, left.popleft()))
                if encoding and (len(encoding) > WAITING or encoding[0][1].done() or not (reading or batch)):
                    reads, future = encoding.popleft()
                    for read, vector in zip(reads, future.result()):
                        self._encoded(read, vector)
                    done += len(reads)
                elif reading:
                    read = reading.popleft().result()
                    if read.prepared is not None:
                        batch.append(read)
                    else:
                        again = self._without_encoding(read)
                        left.extend(again)
                        done += 1 - len(again)
                if len(batch) == self.model.batch_size or (batch and not (reading or left)):
                    encoding.append((batch, encoder.submit(self.model.embed, [read.prepared for read in batch])))  # type: ignore[misc]
                    batch = []
                bar(done, total)
                if time.monotonic() - self.flushed > FLUSH_SECONDS:
                    self._flush()

    def _encoded(self, read: _Read, vector: np.ndarray) -> None:
        assert read.meta is not None
        self.report.encoded += 1
        self._put(read.seen, read.content, read.meta, vector)
        with self.lock:
            self.claimed.discard(read.content)
        for copy in self.copies.pop(read.content, []):
            self._put(copy, read.content, read.meta, vector)

    def _without_encoding(self, read: _Read) -> list[Seen]:
        """Deals with a picture that is broken, or whose bytes are known; returns what must be read again."""
        seen, content = read.seen, read.content
        with self.lock:
            if read.reason is not None:
                self.claimed.discard(content)
            elif content in self.claimed:
                self.copies.setdefault(content, []).append(seen)
                return []
        if read.reason is not None:
            for one in [seen, *(self.copies.pop(content, []) if content else [])]:
                self._broken(one, read.reason, read.lasting)
            return []
        holder = self.contents.get(content)
        if holder is None:  # its file changed in the meantime
            return [seen]
        known = self.known.get(seen.path)
        if known is not None and known.content == content:
            self.report.unchanged += 1
            self._move(known.id, seen)
        elif known is None and self.gone.get(content):
            old = self.gone[content].pop()
            self.report.renamed += 1
            self._move(self.known.pop(old).id, seen)
        else:
            self._put(seen, content, _kept(self._item(holder)), self._vector(holder))
        return []

    def _put(self, seen: Seen, content: str, meta: Mapping[str, Value], vector: np.ndarray) -> None:
        """Adds a picture, or replaces what was known of the file."""
        known = self.known.get(seen.path)
        if known is None:
            self.report.added += 1
            id_ = self._new_id(seen.path)
        else:
            self.report.changed += 1
            id_ = known.id
            self._forget(known)
        item = Item(
            id_,
            "image",
            picture=id_,
            width=int(meta["width"]),
            height=int(meta["height"]),
            content=content,
            meta=meta,
        )
        self.written[id_] = (_placed(item, seen), vector)
        self._know(seen, id_, content)

    def _move(self, id_: str, seen: Seen) -> None:
        """The same bytes at another place or time."""
        item = _placed(self._item(id_), seen)
        if id_ in self.written:
            self.written[id_] = (item, self.written[id_][1])
        else:
            self.updated[id_] = item
        self.moved.add(id_)
        self._know(seen, id_, item.content)

    def _broken(self, seen: Seen, reason: str, lasting: bool) -> None:
        self.report.broken[seen.path] = reason
        if lasting:
            self.broken[seen.path] = [seen.size, seen.mtime_ns, reason]
        if seen.path in self.known:
            self._remove([seen.path])

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            known = self.known.pop(path)
            self._forget(known)
            self.deleted.append(known.id)
            self.report.removed += 1

    def _know(self, seen: Seen, id_: str, content: str) -> None:
        self.known[seen.path] = _Known(id_, content, seen.size, seen.mtime_ns, seen.meta.get("collection"))
        with self.lock:
            self.contents[content] = id_

    def _forget(self, known: _Known) -> None:
        with self.lock:
            if self.contents.get(known.content) == known.id:
                del self.contents[known.content]

    def _new_id(self, path: str) -> str:
        """Made from the path; from the path and a number where a renamed picture has that id."""
        id_, number = fingerprint(path), 1
        while id_ in self.ids:
            id_, number = fingerprint(path, number), number + 1
        self.ids.add(id_)
        return id_

    def _item(self, id_: str) -> Item:
        if id_ in self.written:
            return self.written[id_][0]
        return self.updated.get(id_) or self.store.items([id_])[0]

    def _vector(self, id_: str) -> np.ndarray:
        return self.written[id_][1] if id_ in self.written else self.store.vectors([id_])[0]

    def _columns(self, pictures: list[Seen]) -> None:
        """The columns of a collection may change while its pictures stay."""
        pictures = [picture for picture in pictures if picture.path in self.known]
        self._flush()
        for at in range(0, len(pictures), ITEMS):
            part = pictures[at : at + ITEMS]
            for picture, item in zip(part, self.store.items([self.known[one.path].id for one in part])):
                placed = _placed(item, picture)
                if placed != item:
                    self.updated[item.id] = placed

    def _captions(self, seen: Mapping[str, Seen]) -> None:
        """Captions follow their pictures; those of pictures that come with captions are brought up to date."""
        with_captions = [one for one in seen.values() if one.captions is not None and one.path in self.known]
        if not (with_captions or self.store.count("caption")):
            return
        had = {item.id: (hash(item.text), _hash(item)) for item in self.store.all_items("caption")}
        current = {known.id: path for path, known in self.known.items()}
        new: list[Item] = []
        for picture in with_captions:
            owner = self.known[picture.path].id
            for number, (text, meta) in enumerate(picture.captions or ()):
                meta = {**picture.meta, **meta}
                item = Item(f"{owner}#{number}", "caption", picture.path, text, owner, meta=meta)
                was = had.pop(item.id, None)
                if was is None or was[0] != hash(text):
                    new.append(item)
                elif was[1] != _hash(item):
                    self.updated[item.id] = item
        covered = {self.known[picture.path].id for picture in with_captions}
        for id_ in had:
            owner = id_.rpartition("#")[0]
            if owner in covered or owner not in current:
                self.deleted.append(id_)
            elif owner in self.moved:
                self.updated[id_] = replace(self._item(id_), path=current[owner])
        self.report.new_captions = len(new)
        with self.progress.bar("Captions", "captions") as bar:
            for at in range(0, len(new), TEXTS):
                part = new[at : at + TEXTS]
                for item, vector in zip(part, self.model.encode_texts([item.text for item in part])):
                    self.written[item.id] = (item, vector)
                bar(at + len(part), len(new))
                if time.monotonic() - self.flushed > FLUSH_SECONDS:
                    self._flush()

    def _flush(self) -> None:
        if self.written or self.deleted:
            vectors = (
                np.stack([vector for _, vector in self.written.values()])
                if self.written
                else np.zeros((0, self.store.dim))
            )
            self.store.write([item for item, _ in self.written.values()], vectors.astype(np.float32), self.deleted)
        if self.updated:
            self.store.update(list(self.updated.values()))
        self.written, self.updated, self.deleted = {}, {}, []
        self.flushed = time.monotonic()


def _placed(item: Item, seen: Seen) -> Item:
    """What is known of a picture, at another place or time. A collection's columns win, but for the size in pixels."""
    columns = {f"column_{name}" if name in ("width", "height") else name: value for name, value in seen.meta.items()}
    meta = {**_kept(item), **file_meta(seen.path, seen.folder), **columns}
    return replace(item, path=seen.path, size=seen.size, mtime_ns=seen.mtime_ns, meta=meta)


def _kept(item: Item) -> dict[str, Value]:
    """What the bytes of a picture say, wherever it lies."""
    return {name: item.meta[name] for name in FIELDS if name in item.meta}


def _hash(item: Item) -> int:
    return hash((item.path, frozenset(item.meta.items())))


@contextmanager
def _pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that on an error or Ctrl-C end what they are doing, and no more."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
