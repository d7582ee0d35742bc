"""The searcher of an index: with the model that made it, exported or in torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vsekit.errors import UserError
from vsekit.progress import QUIET, Progress
from vsekit.search.searcher import Searcher
from vsekit.search.stores import Store, open_store
from vsekit.search.stores.base import UnreachableError

if TYPE_CHECKING:
    from vsekit.search.base import SearchModel


def load_searcher(
    store: Store, model: str | None = None, rerank: str | None = None, *, progress: Progress = QUIET
) -> Searcher:
    """The searcher of an index, with the model that made it: exported where `vsekit.search.exported` keeps it, else with torch,
    which is told.

    Args:
        model: where that model is, if no longer where it was.
        rerank: a run or model that reads the best answers again; what it makes of pictures is kept beside an index that is a
            folder.
    """
    loaded = _model(store, model, progress)
    if rerank is None:
        return Searcher(store, loaded)
    from vsekit.search.rerank import Reranker

    beside = Path(store.location)
    folder = beside / "rerank" if beside.is_dir() else None
    return Searcher(store, loaded, Reranker.load(rerank, folder=folder))


def _model(store: Store, model: str | None, progress: Progress) -> SearchModel:
    from vsekit.search.exported import kept, runs_here

    header = store.header
    if not header.get("model"):
        raise UserError("this index holds nothing yet", file=store.location, remedy="Fill it with vse index.")
    if model in (None, header["model"]):
        found = kept(store) if runs_here() else None
        if found is not None:
            return found
        progress.say(
            "Loading torch: this index has no exported model. vse index on the same folders leaves one."
            if runs_here()
            else "Loading torch: onnxruntime is not installed, which would start at once: pip install 'vsekit[search]'"
        )
    from vsekit.search.models import load_search_model

    try:
        return load_search_model(model or header["model"])
    except UserError as error:
        if model:
            raise
        raise UserError(
            f"the model of this index can't be loaded: {error}", file=store.location, remedy="Say where it is: --model"
        ) from None


def followed(old: Searcher, identity: str, load: Callable[[], Searcher]) -> Searcher:
    """The searcher of the index as it is now; the old one where nothing that matters has changed.

    Args:
        identity: of the index that `old` was opened with.
        load: makes one anew, for an index of another model.
    """
    try:
        same = old.store.identity() == identity
        header = old.store.header if same else {}
    except UnreachableError:  # a thread new to the index finds another in its place; opening tells whether there is one
        same, header = False, {}
    if same and header.get("fingerprint") in (None, old.model.fingerprint):
        judged = header.get("calibration") == old.header.get("calibration")
        return old if judged else Searcher(old.store, old.model, old.reranker)
    store = open_store(old.store.location)
    if store.header.get("fingerprint") == old.model.fingerprint:
        return Searcher(store, old.model, old.reranker)
    store.close()
    return load()
