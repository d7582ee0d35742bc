"""A model that searches without torch: exported (`vsekit.export`), and kept where the searches of an index find it.

    INDEX/exported/FINGERPRINT          of an index that is a folder, unless its model is the starter
    CACHE/exported/FINGERPRINT          all others, and whatever was exported on this machine; CACHE is ~/.cache/vsekit

`keep` is called by `vse index`. It exports a model once on a machine; an index on the same disk holds it by hard links, which
take no room. `kept` finds it again. A folder bears the fingerprint of its model, as do its config and each of its graphs, and
every file has a SHA-256: one that is damaged, or another model's, is an error.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vsekit import system, threads
from vsekit.errors import UserError
from vsekit.export.ensemble import ExportedEnsemble, is_ensemble, open_ensemble
from vsekit.export.runtime import AGAIN, Exported, open_exported
from vsekit.files import cache_folder, remove_left_over, sized
from vsekit.models import STARTER
from vsekit.progress import QUIET, Progress
from vsekit.search.base import SearchModel
from vsekit.search.ensemble import EnsembleModel
from vsekit.search.hubs import Bank

if TYPE_CHECKING:
    from PIL import Image

    from vsekit.data.views import ViewSettings
    from vsekit.export.sources import Source
    from vsekit.search.stores.base import Store

FOLDER = "exported"
ANEW = "Run vse index again on the same folders: it writes the exported model anew."


class ExportedModel(SearchModel):
    """What `vse export --to onnx` made, at work with onnxruntime. name: of the model it was made from."""

    def __init__(self, exported: Exported, name: str) -> None:
        if exported.config["similarity"] not in ("cosine", "inner_product"):
            raise UserError(
                f"the similarity '{exported.config['similarity']}' of this model is no inner product, so its pictures can't "
                "be indexed as vectors",
                file=exported.folder,
                remedy="Index with a model of cosine similarity.",
            )
        if exported.config["image"]["reads"] != "pixels":
            raise UserError(
                "this model was trained on features whose encoder is not known, and can't read pictures",
                file=exported.folder,
                remedy="Index with a model that reads pictures.",
            )
        self.exported, self.name, self.folder = exported, name, exported.folder
        self.fingerprint, self.dim = exported.fingerprint, exported.dim
        self._cosine = exported.config["similarity"] == "cosine"
        self.has_bank = exported.config.get("querybank") is not None

    @cached_property
    def bank(self) -> Bank | None:
        bank = self.exported.querybank
        if bank is None:
            return None
        images, captions = (self._finished(bank[side]) for side in ("images", "captions"))
        return Bank(images, captions, bank["temperature"], bank["weight"])

    @property
    def side(self) -> int:  # type: ignore[override]  # asked for only with pictures
        return self.exported.preparation.side

    @property
    def view(self) -> ViewSettings | None:  # type: ignore[override]
        return getattr(self.exported.preparation, "view", None)

    def get_ready(self, pictures: int) -> None:
        """Several batches at once then, each on one thread; see `vsekit.engines.images`."""
        self.at_once = 1
        if pictures:
            self.at_once = threads.choose(threads.most())
            self.exported = open_exported(self.exported.folder, threads=1, again=self.exported.again)
            _ = self.exported.image_session  # now, not by several threads

    def prepare(self, image: Image.Image) -> np.ndarray:
        """(V, P, P, 3) uint8"""
        return self.exported.preparation(image)

    def embed(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        return self._finished(self.exported.embed(prepared))

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self._finished(self.exported.encode_texts(texts))

    def words(self, text: str) -> list[str]:
        return self.exported.sentences.words(text, marks=False)

    def _finished(self, vectors: np.ndarray) -> np.ndarray:
        """Of unit length where the similarity is the cosine; a vector without length stays."""
        if not self._cosine:
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 1e-8, lengths, 1)


class ExportedEnsembleModel(EnsembleModel):
    """What `vse export RUN/ensemble.json --to onnx` made. place: its folder."""

    def __init__(self, members: Sequence[ExportedModel], name: str, place: Path) -> None:
        super().__init__(members, name)
        self.place = place


def kept(store: Store) -> SearchModel | None:
    """The exported model of an index; None where there is none. UserError for one that is not what was exported."""
    header = store.header
    if header.get("fingerprint"):
        for place in _places(store.location, header["fingerprint"]):
            if place.exists():
                return _model(_opened(place), header["model"])
    return None


def load_exported(folder: Path | str, name: str) -> SearchModel:
    """The model in a folder that vse export made: of one model, or of several as one."""
    return _model(_open(Path(folder)), name)


def _model(exported: Exported | ExportedEnsemble, name: str) -> SearchModel:
    if isinstance(exported, Exported):
        return ExportedModel(exported, name)
    members = [ExportedModel(member, str(member.folder)) for member in exported.members]
    return ExportedEnsembleModel(members, name, exported.folder)


def cached(model: SearchModel) -> ExportedModel | None:
    """The exported form of a model, where it was exported on this machine and can run here."""
    place = cache_folder() / FOLDER / model.fingerprint
    found = _model(_opened(place), model.name) if runs_here() and _whole(place) else None
    return found if isinstance(found, ExportedModel) else None


def runs_here() -> bool:
    """Whether what exported models run on is installed."""
    return all(find_spec(name) is not None for name in ("onnxruntime", "tokenizers"))


def keep(model: SearchModel, store: Store, progress: Progress = QUIET) -> Path | None:
    """Leaves the exported model where searches of the index find it, and gives that folder.

    A model that can't be exported, or a place that can't be written to, is told: searches then load torch. None is given.
    """
    *inside, cache = _places(store.location, model.fingerprint)
    place = inside[0] if inside and model.name != STARTER else cache
    try:
        if isinstance(model, ExportedModel | ExportedEnsembleModel):
            made = model.exported.folder if isinstance(model, ExportedModel) else model.place
            _make(place, lambda folder: _link(made, folder))
        elif not _whole(place):
            _make(cache, lambda folder: _export(model, folder, progress))
            _make(place, lambda folder: _link(cache, folder))
        if place != cache:
            for other in place.parent.glob("[!.]*"):  # of a model that the index had before
                if other != place:
                    shutil.rmtree(other)
    except (UserError, OSError) as error:
        progress.say(f"This index keeps no exported model, so that searching it takes torch: {error}")
        return None
    return place


def damage(index: Path) -> list[str]:
    """A sentence for each exported model inside an index that is not as it was exported."""
    found = []
    for place in sorted((index / FOLDER).glob("[!.]*")):
        try:
            _opened(place).check()
        except UserError as error:
            found.append(str(error))
    return found


def _places(location: str, fingerprint: str) -> list[Path]:
    """Where the exported model of an index may be, in the order of looking; the last is the cache."""
    inside = [Path(location) / FOLDER / fingerprint] if Path(location).is_dir() else []
    return [*inside, cache_folder() / FOLDER / fingerprint]


def _open(folder: Path, again: str = AGAIN) -> Exported | ExportedEnsemble:
    return open_ensemble(folder, again) if is_ensemble(folder) else open_exported(folder, again=again)


def _opened(place: Path) -> Exported | ExportedEnsemble:
    exported = _open(place, ANEW)
    if exported.fingerprint != place.name:
        raise UserError(
            f"this exported model is {exported.fingerprint}, not {place.name}, the index's", file=place, remedy=ANEW
        )
    return exported


def _whole(place: Path) -> bool:
    try:
        _opened(place).check()
    except UserError:
        return False
    return True


def _export(model: SearchModel, folder: Path, progress: Progress) -> None:
    from vsekit.export.folder import export_ensemble, export_onnx

    progress.say("Exporting the model, so that searches need no torch; once on this machine …")
    if isinstance(model, EnsembleModel):
        written = export_ensemble([_source(member) for member in model.members], folder)
    else:
        written = export_onnx(_source(model), folder)
    progress.say(f"The exported model takes {sized(sum(written.sizes.values()))} of disk.")


def _source(model: SearchModel) -> Source:
    from vsekit.export.sources import VSESource, read_source
    from vsekit.search.models import VSEModel

    source: Source
    if isinstance(model, VSEModel) and model.device.type == "cpu":
        source = VSESource(model.model, model.name, model.folder)
    else:
        source = read_source(model.name)
    if source.fingerprint != model.fingerprint:
        raise UserError(f"the model has changed since it was loaded: {source.fingerprint}, not {model.fingerprint}")
    return source


def _make(place: Path, fill: Callable[[Path], object]) -> None:
    """Puts a folder there that `fill` fills, whole or not at all, unless one is there. One process at a time."""
    if _whole(place):
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with system.locked(place.parent / ".lock", wait=True):
        if _whole(place):  # another process was faster
            return
        remove_left_over(place.parent)
        folder = place.parent / f".{place.name}.tmp"
        try:
            folder.mkdir()
            fill(folder)
            _open(folder).check()
            shutil.rmtree(place, ignore_errors=True)  # a damaged one
            system.replace(folder, place)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _link(source: Path, target: Path) -> None:
    """The files of a folder in another: the same ones where the disk is, else copies."""
    for path in source.iterdir():
        if path.is_dir():  # a member of an ensemble
            (target / path.name).mkdir()
            _link(path, target / path.name)
            continue
        try:
            os.link(path, target / path.name)
        except OSError:
            shutil.copyfile(path, target / path.name)
