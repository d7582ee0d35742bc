"""What can be exported: the graphs, preparation and tokenizer of a vsekit model, or of one like CLIP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vsekit.engines.images import ImageEngine
from vsekit.errors import UserError
from vsekit.evaluation.meeting import ENSEMBLE
from vsekit.export.graphs import FeatureGraph, ImageGraph, TextGraph
from vsekit.export.sentences import TOKENIZER
from vsekit.files import fingerprint, write_text
from vsekit.models.embedder import Embedder
from vsekit.models.hub import HUB_NAME, config_of
from vsekit.models.model import VSE, load_model, model_folder
from vsekit.models.querybank import FILE as QUERYBANK


class Source(ABC):
    """A model about to be exported.

    fingerprint: changes with anything that changes its vectors; the same as in a search index.
    beside: further files of the model's folder that go along, by the name they have there.
    """

    name: str
    dim: int
    similarity: str
    fingerprint: str
    beside: dict[str, Path]

    @abstractmethod
    def image(self) -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]:
        """The graph of the image tower, an example of its inputs, and what config.json says of it."""

    @abstractmethod
    def text(self) -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]: ...

    @abstractmethod
    def save_tokenizer(self, folder: Path) -> None: ...

    @abstractmethod
    def encode_images(self, images: Sequence[Any]) -> np.ndarray:
        """What torch gives, to compare with."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> np.ndarray: ...

    def get_ready(self, pictures: int) -> int:
        """Before so many pictures are encoded; how many calls of `encode_images` at once then have profit."""
        return 1

    @property
    def feature_dim(self) -> int | None:
        """Size of the features the image tower reads in place of pictures."""
        return None


class VSESource(Source):
    """A model made by vse train. One that was trained on features gets the encoder that made them, where it is known."""

    def __init__(self, model: VSE, name: str, folder: Path | None = None) -> None:
        if model.similarity.on_sets:
            raise UserError(
                f"the similarity '{model.settings.similarity.kind}' of this model compares sets of regions and words: "
                "it has a score for each pair, and no vectors to export",
                file=name,
                remedy="Export a model of cosine or order similarity; re-rank with this one: vse search --rerank.",
            )
        if model.feature_source is not None:
            model.read_pictures()
        self.model, self.name, self.dim = model.eval(), name, model.settings.dim
        self.similarity = model.settings.similarity.kind
        self.fingerprint = fingerprint(model.fingerprint(), model.view.model_dump(mode="json"))
        found = {file: folder / file for file in (QUERYBANK, "calibration.json")} if folder else {}
        self.beside = {file: path for file, path in found.items() if path.is_file()}
        self._embedder = Embedder(model)
        self._engine: ImageEngine | None = None

    @property
    def feature_dim(self) -> int | None:
        return self.model.image.encoder.dim if self.model.settings.image.encoder.reads_features else None

    def image(self) -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]:
        size = self.feature_dim
        if size is not None:
            one = self.model.settings.image.pooling.one_vector
            features = {"features": torch.zeros(3, 4, size), "lengths": torch.tensor([1 if one else 4, 1, 1])}
            return FeatureGraph(self.model), features, {"reads": "features", "feature_dim": size}
        view = self.model.view
        example = torch.zeros(2, view.count, view.pixels, view.pixels, 3, dtype=torch.uint8)
        return ImageGraph(self.model), {"pixels": example}, {"reads": "pixels", "view": view.model_dump(mode="json")}

    def text(self) -> tuple[nn.Module, dict[str, Tensor], dict[str, Any]]:
        ids = torch.full((3, 5), len(self.model.tokenizer) - 1)
        written = {"tokenizer": "words", "files": ["vocab.json"]}
        if self._pieces:
            length = self.model.tokenizer.max_length  # type: ignore[attr-defined]
            written = {"tokenizer": "pieces", "files": [TOKENIZER], "max_length": length}
        return TextGraph(self.model), {"ids": ids, "lengths": torch.tensor([5, 3, 2])}, written

    @property
    def _pieces(self) -> bool:
        return self.model.settings.text.encoder.reads_pieces

    def save_tokenizer(self, folder: Path) -> None:
        if self._pieces:
            save_pieces(self.model.tokenizer.inner, folder)  # type: ignore[attr-defined]
        else:
            self.model.tokenizer.save(folder)

    def get_ready(self, pictures: int) -> int:
        if self.feature_dim is None:
            self._engine = self._embedder.engine_for(pictures)
        return self._engine.at_once if self._engine else 1

    def encode_images(self, images: Sequence[Any]) -> np.ndarray:
        return self._embedder.encode_images(images, engine=self._engine)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self._embedder.encode_texts(texts)


def save_pieces(tokenizer: Any, folder: Path) -> None:
    """Writes a tokenizer of transformers as `tokenizer.json`."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is None:
        raise UserError(
            f"the tokenizer {type(tokenizer).__name__} has no form as a tokenizer.json",
            remedy="Use the model with vsekit.load, or with a tokenizer of the package tokenizers.",
        )
    write_text(folder / TOKENIZER, fast.to_str())


def read_source(name: str | Path) -> Source:
    """The model that is named: starter, a run or model folder, or a folder or hub name of a model like CLIP."""
    path = Path(name)
    if path.name == ENSEMBLE and path.is_file():
        raise UserError(
            "an ensemble is exported to onnx, in 32 bits",
            file=path,
            remedy="Leave --int8 out, or export one of its members.",
        )
    if (path / "config.json").is_file() and not (path / "model" / "config.json").is_file():
        from vsekit.export.clip import CLIPSource

        if "model_type" in config_of(path):
            return CLIPSource(str(name))
    elif not path.exists() and HUB_NAME.fullmatch(str(name)):
        from vsekit.export.clip import CLIPSource

        return CLIPSource(str(name))
    folder = model_folder(name)
    return VSESource(load_model(name), str(name), folder)
