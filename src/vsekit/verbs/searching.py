"""The verbs of who keeps pictures: an index that stays current, searches, the server, copies that take up room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from vsekit.progress import QUIET, Progress

if TYPE_CHECKING:
    from PIL import Image

    from vsekit.bulk.ray import Ray
    from vsekit.data.pairs import Pairs
    from vsekit.search.book import Report
    from vsekit.search.duplicates import Group
    from vsekit.search.items import Kind
    from vsekit.search.searcher import Answer
    from vsekit.search.walk import Source


def index(
    *sources: Path | str | Pairs | Source,
    model: str | Path = "starter",
    out: Path | str | None = None,
    features: Path | str | None = None,
    rebuild: bool = False,
    forget: bool = False,
    dtype: str | None = None,
    ocr: bool = False,
    engine: Ray | None = None,
    progress: Progress = QUIET,
) -> Report:
    """Indexes folders of pictures and collections; again, and only what is new or has changed is read.

    >>> report = vsekit.index("~/Pictures")                                             # doctest: +SKIP
    >>> report.added, report.broken                                                     # doctest: +SKIP

    Args:
        model: a run, a model folder, "starter", or a model like CLIP.
        out: where the index goes: a folder, postgresql://… or milvus://…; for a single folder, inside it unless said.
        features: a folder made by `vse features` with the model's encoder and view; its pictures are not encoded again.
        rebuild: start from nothing, for instance with another model.
        forget: remove what lay in folders that are gone or empty as a whole, which is kept otherwise.
        dtype: "float16" for a new index in a folder that keeps its vectors in half precision, for millions of pictures.
        ocr: read the text in pictures, too, of those of the index that were not read yet.
        engine: `vsekit.bulk.ray.Ray` spreads the work over its workers.
    """
    from vsekit.search.indexing import index as bring_up_to_date
    from vsekit.search.models import load_search_model
    from vsekit.search.ocr import Reader, read_into
    from vsekit.search.walk import place_of

    given = [Path(source).expanduser() if isinstance(source, str | Path) else source for source in sources]
    place = str(out) if out is not None else place_of(given)
    loaded = load_search_model(model)
    if features is not None:
        loaded.use_features(Path(features).expanduser())
    if ocr:
        Reader()  # that it is not installed is said before anything else is done
    options: dict[str, Any] = {"rebuild": rebuild, "forget": forget, "export": True, "dtype": dtype, "engine": engine}
    report = bring_up_to_date(loaded, given, place, **options, progress=progress)
    return read_into(report, place, progress) if ocr else report


def watch(
    *sources: Path | str | Source,
    model: str | Path = "starter",
    out: Path | str | None = None,
    features: Path | str | None = None,
    rebuild: bool = False,
    forget: bool = False,
    dtype: str | None = None,
    stop: Event | None = None,
    progress: Progress = QUIET,
) -> Iterator[Report]:
    """Indexes as `vsekit.index` does, and goes on: what changes in the folders is taken in within seconds. A report each time.

    >>> for report in vsekit.watch("~/Pictures"):                                        # doctest: +SKIP
    ...     print(report.added, report.renamed, report.removed)

    Args:
        stop: ends it when set.
        rebuild, forget: of the first time.
        dtype: of a new index, see `vsekit.index`.
    """
    from vsekit.search.models import load_search_model
    from vsekit.search.walk import Source, place_of, source_of
    from vsekit.search.watching import watch as keep_watching

    given = [one if isinstance(one, Source) else source_of(Path(one).expanduser()) for one in sources]
    place = str(out) if out is not None else place_of(given)
    loaded = load_search_model(model)
    if features is not None:
        loaded.use_features(Path(features).expanduser())
    options: dict[str, Any] = {"rebuild": rebuild, "forget": forget, "export": True, "dtype": dtype}
    return keep_watching(loaded, given, place, **options, stop=stop, progress=progress)


def search(
    index: Path | str,
    query: str | None = None,
    *,
    image: Path | str | Image.Image | None = None,
    like: str | None = None,
    top: int = 20,
    offset: int = 0,
    kind: Kind = "image",
    filter: str | None = None,
    rerank: str | Path | None = None,
    rerank_top: int = 50,
    model: str | Path | None = None,
    progress: Progress = QUIET,
) -> Answer:
    """The best of an index for words, a picture, or an item of it.

    >>> answer = vsekit.search("~/Pictures", "a brown dog running on sand", filter="year >= 2020")  # doctest: +SKIP
    >>> [(hit.match, hit.item.path) for hit in answer.hits]                             # doctest: +SKIP

    To ask often, keep the searcher: `vsekit.search.opening.load_searcher(open_store(index))`.

    Args:
        query: words, or arithmetic: '"dog" + photo.jpg - 0.5*"water"'.
        image, like: a picture; the id of an item. One of the three is given.
        kind: what to find, "image" or "caption".
        filter: what the metadata must be like.
        rerank: a run or model that reads the best `rerank_top` again.
        model: where the model of the index is, if no longer where it was.
    """
    from vsekit.search.opening import load_searcher
    from vsekit.search.query import asked
    from vsekit.search.stores import open_store

    text = [None if path is None else str(path) for path in (model, rerank)]
    with open_store(_place(index)) as store:
        searcher = load_searcher(store, *text, progress=progress)
        wanted = {"top": top, "offset": offset, "kind": kind, "filter": filter}
        return searcher.search(asked(query, image, like), **wanted, rerank=rerank_top if rerank else 0)  # type: ignore[arg-type]


def serve(
    index: Path | str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    model: str | None = None,
    rerank: str | None = None,
    progress: Progress = QUIET,
    **options: Any,
) -> None:
    """Serves an index over HTTP, with the page, until Ctrl-C.

    >>> vsekit.serve("~/Pictures", port=8000)                                           # doctest: +SKIP

    Args:
        options: those of `vsekit.serve.run.serve`: token, limits, allow_hosts, behind_proxy, log.
    """
    from vsekit.search.stores import open_store
    from vsekit.serve.run import bind, load_searcher
    from vsekit.serve.run import serve as run

    store = open_store(_place(index))
    run(lambda: load_searcher(store, model, rerank, progress=progress), bind(host, port), host=host, **options)


def duplicates(index: Path | str, *, progress: Progress = QUIET) -> list[Group]:
    """The copies, near-copies and bursts of an index. Nothing is changed; `vsekit.search.trash.trash_copies` does that.

    >>> groups = vsekit.duplicates("~/Pictures")                                         # doctest: +SKIP
    >>> [(group.kind, group.keep.path, len(group.others)) for group in groups]           # doctest: +SKIP
    """
    from vsekit.search.duplicates import find_duplicates
    from vsekit.search.stores import open_store

    with open_store(str(index) if "://" in str(index) else Path(index).expanduser()) as store:
        return find_duplicates(store, progress=progress)


def _place(index: Path | str) -> str:
    return str(index) if "://" in str(index) else str(Path(index).expanduser())
