"""The model an index is made with: a vsekit model or one like CLIP, with torch; or either, exported (`exported`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vsekit.data.text import Ragged
from vsekit.data.views import chosen_crops, cut, resized
from vsekit.engines.images import CompiledImages, ImageEngine, TorchImages, graph_of, image_engine
from vsekit.errors import UserError
from vsekit.evaluation.meeting import ENSEMBLE, members_of
from vsekit.export.runtime import is_exported
from vsekit.features.cache import CachedFeatures
from vsekit.features.fingerprints import content_of
from vsekit.files import fingerprint
from vsekit.models.embed import embed_captions
from vsekit.models.hub import HUB_NAME, config_of, load_from_hub, unit
from vsekit.models.model import STARTER, VSE, load_model, model_folder
from vsekit.parts import Sets
from vsekit.search.base import SearchModel
from vsekit.search.ensemble import EnsembleModel
from vsekit.search.exported import ExportedModel, cached, load_exported
from vsekit.search.hubs import Bank

if TYPE_CHECKING:
    from PIL import Image


class _TorchModel(SearchModel):
    def __init__(self, name: str) -> None:
        self.name = name
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.batch_size = 64 if self.device.type == "cuda" else 8


class VSEModel(_TorchModel):
    """A model made by vse train. One that was trained on features gets the encoder that made them."""

    def __init__(self, model: VSE, name: str, folder: Path | None = None) -> None:
        super().__init__(name)
        if not model.similarity.inner_product:
            kind = model.settings.similarity.kind
            why = "compares sets of regions and words" if model.similarity.on_sets else "is no inner product"
            raise UserError(
                f"the similarity '{kind}' of this model {why}, so its pictures can't be indexed as vectors",
                file=name,
                remedy="Index with a model of cosine similarity"
                + (", and re-rank with this one: vse search --rerank." if model.similarity.on_sets else "."),
            )
        self.model = model.eval().read_pictures().to(self.device)
        self.folder, self.view, self.side, self.dim = folder, model.view, model.view.resize, model.settings.dim
        self.fingerprint = fingerprint(model.fingerprint(), model.view.model_dump(mode="json"))
        self._encoder = self.model.image.with_tail()
        self.has_bank = model.querybank is not None
        self._engine: ImageEngine = TorchImages(self._encoder)
        self._named: Path | None = None  # features that a person named

    @cached_property
    def bank(self) -> Bank | None:
        bank, similarity = self.model.querybank, self.model.similarity
        if bank is None:
            return None
        images, captions = similarity.prepare_images(bank.images), similarity.prepare_captions(bank.captions)
        return Bank(images.numpy(), captions.numpy(), bank.temperature, bank.weight)

    def get_ready(self, pictures: int) -> None:
        """Through ONNX Runtime where that pays, or its graph is there already. Who indexes again and again starts it once."""
        encoder = self._encoder
        graph = graph_of(encoder) if pictures and self.device.type == "cpu" else None
        if graph is not None and isinstance(self._engine, CompiledImages) and self._engine.path == graph:
            self._engine.look_around()
        else:
            there = graph is not None and graph.is_file()
            self._engine = image_engine(encoder, math.inf if there else pictures * self.model.view.count)
        self.at_once = self._engine.at_once

    def prepare(self, image: Image.Image) -> np.ndarray:
        """(V, pixels, pixels, 3) uint8"""
        view = self.model.view
        array = resized(image, view)
        return np.stack([cut(array, crop, view.pixels) for crop in chosen_crops(view)])

    def use_features(self, folder: Path) -> None:
        if self._averages_later:
            raise UserError(
                f"{self.name} averages {self.model.view.count} views after its head; features are averages already",
                field="--features",
                remedy="Leave --features out.",
            )
        self._features, self._named = self._known(folder), folder.absolute()

    @property
    def _averages_later(self) -> bool:
        return self.model.image.average_views == "after_head" and self.model.view.count > 1

    def _known(self, named: Path | None = None) -> CachedFeatures:
        spec = self.model.settings.image.encoder.model_dump(mode="json")
        return CachedFeatures(self._encoder, spec, self.model.view, named)

    @cached_property
    def _features(self) -> CachedFeatures:
        return self._known(self._named)

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens features itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_features"}

    def cached(self, data: bytes) -> np.ndarray | None:
        """(N, d) float32 features that were kept of the picture."""
        if self._averages_later:
            return None  # what is kept are averages
        return self._features.get(content_of(data)) if len(self._features) else None

    @torch.inference_mode()
    def embed(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        """Views, or features from `cached`, mixed at will."""
        result = np.empty((len(prepared), self.dim), np.float32)
        views = [i for i, one in enumerate(prepared) if one.ndim == 4]
        features = [i for i, one in enumerate(prepared) if one.ndim == 2]
        if views:
            sets = self._engine.views(np.stack([prepared[i] for i in views]))
            result[views] = self._vectors(Sets(sets.vectors.to(self.device), sets.mask.to(self.device)))
        if features:
            rows = [torch.from_numpy(prepared[i]) for i in features]
            vectors = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            mask = torch.arange(vectors.shape[1]) < torch.tensor([len(row) for row in rows])[:, None]
            result[features] = self._vectors(Sets(vectors.to(self.device), mask.to(self.device)))
        return result

    def _vectors(self, inputs: torch.Tensor | Sets) -> np.ndarray:
        vectors = self.model.embed_images(inputs)
        return self.model.similarity.prepare_images(vectors).cpu().numpy()  # type: ignore[arg-type]

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        vectors = embed_captions(self.model, Ragged.of(self.model.tokenizer(texts)))
        return self.model.similarity.prepare_captions(vectors).numpy()  # type: ignore[arg-type]

    def words(self, text: str) -> list[str]:
        tokenizer = self.model.tokenizer
        marks = tokenizer.special_ids - {tokenizer.mask_id}  # which stands for unknown words
        return [word for id_, word in zip(tokenizer([text])[0].tolist(), tokenizer.words(text)) if id_ not in marks]


class TransformersModel(_TorchModel):
    """CLIP, SigLIP and whatever else in transformers has `get_image_features` and `get_text_features`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.hub = load_from_hub(name)
        self.model, self._images, self._tokens = self.hub.model.to(self.device), self.hub.images, self.hub.tokens
        self.folder = Path(name)
        size = dict(getattr(self._images, "crop_size", None) or {}) | dict(self._images.size)
        self.side = max(value for value in size.values() if isinstance(value, int))
        self.dim = self.encode_texts(["a"]).shape[1]
        self.fingerprint = self.hub.fingerprint()
        self._exported: ExportedModel | None = None

    def get_ready(self, pictures: int) -> None:
        """Through ONNX Runtime where the model is exported already, as `vse index` has done by then."""
        self._exported = cached(self) if pictures and self.device.type == "cpu" else None
        self.at_once = 1
        if self._exported is not None:
            self._exported.get_ready(pictures)
            self.at_once = self._exported.at_once

    def prepare(self, image: Image.Image) -> np.ndarray:
        """(3, H, W) float32, or what the exported model reads."""
        if self._exported is not None:
            return self._exported.prepare(image)
        return np.asarray(self._images(images=image, return_tensors="np")["pixel_values"][0], np.float32)

    @torch.inference_mode()
    def embed(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        if self._exported is not None:
            return self._exported.embed(prepared)
        pixels = torch.from_numpy(np.stack(prepared)).to(self.device)
        return unit(self.model.get_image_features(pixel_values=pixels)).cpu().numpy()

    @torch.inference_mode()
    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        tokens = self._tokens(list(texts), padding=self.hub.padding, truncation=True, return_tensors="pt").to(
            self.device
        )
        return unit(self.model.get_text_features(**tokens)).cpu().numpy()

    def words(self, text: str) -> list[str]:
        ids = self._tokens(text, truncation=True, add_special_tokens=False)["input_ids"]
        return [self._tokens.decode([token]).strip() for token in ids]


def load_search_model(name: str | Path) -> SearchModel:
    """Loads "starter" (it comes with vsekit), a run or model folder, one that vse export made, the ensemble.json of a run of
    several models, or a model like CLIP: a folder or a hub's name."""
    path = Path(name)
    if path.name == ENSEMBLE and path.is_file():
        members = [Path(member) for member in members_of(path.resolve().parent)]
        loaded = [VSEModel(load_model(one), str(one), model_folder(one)) for one in members]
        return EnsembleModel(loaded, path.resolve())
    if str(name) == STARTER:
        return VSEModel(load_model(STARTER), STARTER, model_folder(STARTER))
    if path.is_dir():
        where = str(path.resolve())
        if is_exported(path):
            return load_exported(path, where)
        if "model_type" in config_of(path):
            return TransformersModel(where)
        folder = model_folder(path)
        return VSEModel(load_model(folder), where, folder)
    if HUB_NAME.fullmatch(str(name)):
        return TransformersModel(str(name))
    raise UserError(
        f"no model '{name}'",
        remedy="Give starter, a run or model folder, or the folder or hub name of a model like CLIP.",
    )


def is_model(name: str | Path) -> bool:
    """Whether `name` means a model rather than a folder of pictures, without loading it."""
    path = Path(name)
    if str(name) == STARTER or not path.exists():
        return str(name) == STARTER or bool(HUB_NAME.fullmatch(str(name)))
    if path.name == ENSEMBLE and path.is_file():
        return True
    marks = {"vsekit", "vsekit_export", "model_type"}
    return any(marks & config_of(folder).keys() for folder in (path, path / "model"))
