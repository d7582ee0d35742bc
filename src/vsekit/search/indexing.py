"""Bringing an index up to date with folders and collections of pictures.

    walk ──► read, fingerprint, decode (threads) ──► encode (threads) ──► write (every few seconds)

All steps overlap. A file of the same size and time as before is not opened. One whose bytes the index has already is not
encoded: it was renamed, if the old path is gone, or it is a copy. What was written stays written when the process is
killed, and the next call goes on from there.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from vsekit import threads
from vsekit.bulk.ray import Ray
from vsekit.data.pairs import Pairs
from vsekit.progress import QUIET, Bar, Progress
from vsekit.search.base import SearchModel
from vsekit.search.book import Book, Report, kept, there
from vsekit.search.calibration import calibrate
from vsekit.search.captions import bring_captions_up_to_date, encode_captions_again
from vsekit.search.exported import keep
from vsekit.search.hubs import item_vectors, query_vectors
from vsekit.search.items import Item, Value
from vsekit.search.looking import Looking, Read, look
from vsekit.search.marks import opened_for, prepare_store, waiting
from vsekit.search.models import load_search_model
from vsekit.search.sentences import SENTENCES
from vsekit.search.stores.base import Store
from vsekit.search.walk import Seen, Source, away, collected, source_of
from vsekit.version import __version__

#: In larger indexes, sentences for approximate stores to tune their effort with: searches are in words.
SAMPLE_QUERIES_ABOVE = 100_000
#: Threads that decode: photographs of 12 megapixels keep as many cores busy as there are.
READERS = max(2, threads.most())
#: Pictures read ahead for each thread, and batches waiting for each encoder: enough for it to go on while the store writes.
AHEAD, WAITING = 16, 8


def index(
    model: SearchModel | str | Path,
    source: Path | str | Pairs | Source | Sequence[Path | str | Pairs | Source],
    store: Store | str | Path,
    *,
    rebuild: bool = False,
    forget: bool = False,
    export: bool = False,
    dtype: str | None = None,
    engine: Ray | None = None,
    progress: Progress = QUIET,
) -> Report:
    """Brings `store` up to date with the pictures of `source`, and with its captions where it has any.

    >>> index("starter", "photos", "photos.index").added                                # doctest: +SKIP

    Args:
        model: what encodes; see `load_search_model`.
        source: folders, which are walked, and collections; see `vsekit.search.walk.source_of`. What the index holds from
            elsewhere stays as it is.
        store: an open store, or where one is or shall be.
        rebuild: start from nothing, for instance with another model; favourites and hidden pictures stay so.
        forget: remove, too, what lay in folders that are gone or empty as a whole, and is else kept.
        export: leave the model with the index in a form that searches without torch; see `vsekit.search.exported`.
        dtype: in which a store that is named keeps its vectors; see `open_store`.
        engine: reads and encodes pictures with the workers of Ray; the index is the same.
    """
    if engine is not None:
        engine.ready()
    if not isinstance(model, SearchModel):
        model = load_search_model(model)
    if not isinstance(store, Store):
        with opened_for(store, model, rebuild, dtype) as opened:
            return index(model, source, opened, forget=forget, export=export, engine=engine, progress=progress)
    started = time.monotonic()
    lost = prepare_store(store, model, rebuild)
    if export:
        keep(model, store, progress)
    given = [source] if isinstance(source, Path | str | Pairs | Source) else source
    report = _Indexer(model, store, [_source(one, progress) for one in given], progress, forget, engine).run(lost)
    report.seconds = time.monotonic() - started
    return report


def _source(given: Path | str | Pairs | Source, progress: Progress) -> Source:
    if isinstance(given, Source):
        return given
    source = collected(given) if isinstance(given, Pairs) else source_of(given)
    for note in source.notes:
        progress.say(note)
    return source


class _Indexer:
    def __init__(
        self,
        model: SearchModel,
        store: Store,
        sources: list[Source],
        progress: Progress,
        forget: bool,
        engine: Ray | None,
    ) -> None:
        self.model, self.store, self.sources, self.progress = model, store, sources, progress
        self.forget, self.engine = forget, engine
        self.report = Report()
        self.book = Book(store, self.report)
        self.claimed: set[str] = set()  # contents on their way to the encoder
        self.copies: dict[str, list[Seen]] = {}  # of those
        self.gone: dict[str, list[str]] = {}  # content → paths of the index that are there no more
        self.broken: dict[str, Sequence[Any]] = {}  # path → size, time, reason
        self.lock = Lock()

    def run(self, lost: Sequence[Item] = ()) -> Report:
        """lost: see `Store.repair`."""
        store, report, header = self.store, self.report, self.store.header
        was_complete = header.get("complete", False)
        # Another version may read what this one could not.
        self.broken = header.get("broken", {}) if header.get("vsekit") == __version__ else {}
        places = (place for source in self.sources for place in (source.root, *source.folders))
        header |= {"vsekit": __version__, "model": self.model.name, "fingerprint": self.model.fingerprint}
        header["dim"] = self.model.dim
        header |= {"roots": sorted({*header.get("roots", []), *places}), "complete": False}
        # What `vsekit.search.watching` looks at again.
        header["sources"] = header.get("sources", {}) | {one.root: one.how for one in self.sources if one.how}
        store.set_header(header)
        self.book.open(lost)
        encode_captions_again(self.book, self.model, [item for item in lost if item.kind == "caption"])
        seen, gone = self._compare()
        self._find_lost(seen)
        with warnings.catch_warnings(), self.progress.bar("Pictures", "pictures") as bar:
            warnings.filterwarnings("ignore", module=r"PIL\.")
            try:
                todo = [picture for picture in seen.values() if not self._settled(picture)]
                self._pictures(todo, bar) if self.engine is None else self._elsewhere(self.engine, todo, bar)
            except KeyboardInterrupt:
                self.book.flush()
                raise
        self.book.remove([path for path in gone if path in self.book.known and not self._away(path)])
        self.book.columns([picture for picture in seen.values() if picture.meta])
        bring_captions_up_to_date(self.book, self.model, seen, self.progress)
        self.book.flush()
        report.waiting = sorted(self.book.lost)
        changed = report.added + report.changed + report.removed + report.repaired + report.new_captions > 0
        report.pictures, report.captions = store.count("image"), store.count("caption")
        if changed or not was_complete:
            header["calibration"] = calibrate(store, self.model)
            if report.pictures > SAMPLE_QUERIES_ABOVE and "sample_queries" not in header:
                texts = self.model.encode_texts(SENTENCES[:64])
                queries = query_vectors(texts, 1.0, self.model.dim, store.dim)
                header["sample_queries"] = queries.round(4).tolist()
        header |= {
            "broken": self.broken,
            "counts": {"image": report.pictures, "caption": report.captions},
            "indexed": datetime.now(UTC).isoformat(timespec="seconds"),
            "complete": True,
        }
        store.set_header(waiting(header, self.book.marks))
        return report

    def _compare(self) -> tuple[dict[str, Seen], list[str]]:
        """The pictures that are there, by path, and the paths of the index that are there no more."""
        seen: dict[str, Seen] = {}
        for source in self.sources:
            self.report.broken |= source.missing
            self.report.unreadable |= source.unreadable
            for picture in source.pictures:
                if picture.path not in seen or picture.captions is not None:
                    seen[picture.path] = picture

        def absent(path: str, collection: Value | None) -> bool:
            return path not in seen and any(source.holds(path, collection) for source in self.sources)

        self.broken = {path: entry for path, entry in self.broken.items() if not absent(path, None)}
        gone = [path for path, known in self.book.known.items() if absent(path, known.collection)]
        for path in gone:
            self.gone.setdefault(self.book.known[path].content, []).append(path)
        return seen, gone

    def _find_lost(self, seen: dict[str, Seen]) -> None:
        """Adds pictures that must be encoded again, if the sources don't name them and they are there. What a collection said
        of them stays. Those that were removed since are forgotten; those that can't be looked at now wait."""
        for path, item in list(self.book.lost.items()):
            if path in seen and seen[path].meta:
                continue
            try:
                seen[path] = there(item)
            except OSError:
                held = any(source.holds(path, item.meta.get("collection")) for source in self.sources)
                if held and not self._away(path):
                    self.book.deleted.append(self.book.lost.pop(path).id)
                    self.report.removed += 1

    def _away(self, path: str) -> bool:
        """Whether a picture stays in the index since it went with its whole folder, which is named."""
        deleted = self.forget or any(path in source.deleted for source in self.sources)
        found = None if deleted else away(path)
        if found is not None:
            folder, what = found
            self.report.unreadable[folder] = f"{what}; what the index holds of it is kept (--forget removes it)"
        return found is not None

    def _settled(self, picture: Seen) -> bool:
        """Whether a picture need not be opened: it is in the index or known to be broken, and has not changed since."""
        path, now = picture.path, (picture.size, picture.mtime_ns)
        size, mtime_ns, reason = self.broken.get(path, (None, None, ""))
        if (size, mtime_ns) == now:
            self.report.broken[path] = reason
            return True
        self.broken.pop(path, None)
        if path in self.book.known and (self.book.known[path].size, self.book.known[path].mtime_ns) == now:
            self.report.unchanged += 1
            return True
        return False

    # Reading, in threads

    def _on_its_way(self, content: str) -> bool:
        """Whether the bytes are in the index or with the encoder; if not, they are now."""
        with self.lock:
            if self.book.holder(content) is not None or content in self.claimed:
                return True
            self.claimed.add(content)
        return False

    # All else, in the caller's thread: a store need not be used from several.

    def _pictures(self, todo: list[Seen], bar: Bar) -> None:
        """Reads, encodes and writes."""
        total, done = len(todo), 0
        reading: deque[Future[Read]] = deque()
        encoding: deque[tuple[list[Read], Future[np.ndarray]]] = deque()
        batch: list[Read] = []
        left = deque(todo)
        self.model.get_ready(total)
        with threads.pool(READERS) as readers, threads.pool(self.model.at_once) as encoder:
            while left or reading or batch or encoding:
                while left and len(reading) < AHEAD * READERS:
                    reading.append(readers.submit(look, left.popleft(), self.model, self._on_its_way))
                if encoding and (
                    len(encoding) > WAITING * self.model.at_once or encoding[0][1].done() or not (reading or batch)
                ):
                    reads, future = encoding.popleft()
                    vectors = item_vectors(self.model, future.result(), "image", self.store.dim)
                    for read, vector in zip(reads, vectors):
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
                self.book.flush_when_due()

    def _elsewhere(self, engine: Ray, todo: list[Seen], bar: Bar) -> None:
        """The same with the workers of an engine. The last batch is encoded here: a small one has other last bits."""
        self.model.get_ready(len(todo))
        work, done, batch = Looking(self.model, todo, self.store.dim), 0, []
        for reads in engine.map(work, work.blocks):
            for read in reads:
                if read.prepared is None or self._on_its_way(read.content):
                    self._without_encoding(read)
                else:
                    batch.append(read)
                if len(batch) == self.model.batch_size:
                    for one in batch:
                        self._encoded(one, one.prepared)
                    batch = []
            done += len(reads)
            bar(done, len(todo))
            self.book.flush_when_due()
        for one, vector in zip(batch, work.small(batch)):
            self._encoded(one, vector)

    def _encoded(self, read: Read, vector: np.ndarray) -> None:
        assert read.meta is not None
        self.report.encoded += not read.cached
        self.book.put(read.seen, read.content, read.meta, vector)
        with self.lock:
            self.claimed.discard(read.content)
        for copy in self.copies.pop(read.content, []):
            self.book.put(copy, read.content, read.meta, vector)

    def _without_encoding(self, read: Read) -> list[Seen]:
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
        holder = self.book.holder(content)
        if holder is None:  # its file changed in the meantime
            return [seen]
        known = self.book.known.get(seen.path)
        if known is not None and known.content == content:
            self.report.unchanged += 1
            self.book.move(known.id, seen)
        elif known is None and self.gone.get(content):
            old = self.gone[content].pop()
            self.report.renamed += 1
            self.book.move(self.book.known.pop(old).id, seen)
        else:
            self.book.put(seen, content, kept(self.book.item(holder)), self.book.vector(holder))
        return []

    def _broken(self, seen: Seen, reason: str, lasting: bool) -> None:
        self.report.broken[seen.path] = reason
        if lasting:
            self.broken[seen.path] = [seen.size, seen.mtime_ns, reason]
        if seen.path in self.book.known:
            self.book.remove([seen.path])
        elif lasting and seen.path in self.book.lost:
            self.book.deleted.append(self.book.lost.pop(seen.path).id)
