"""An exported model at work: pictures and sentences in, numpy out, with onnxruntime and without torch.

>>> model = open_exported("starter-onnx")                                                     # doctest: +SKIP
>>> model.encode_texts(["a dog on a beach"]) @ model.encode_images(["a.jpg", "b.jpg"]).T       # doctest: +SKIP

A file is used only if it is the one that was exported: its SHA-256 stands in config.json, and the model's fingerprint in
the graph itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit.engines.session import start_session
from vsekit.errors import UserError
from vsekit.export.sentences import sentence_reader
from vsekit.seals import read_sealed
from vsekit.threads import usable_cores

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

    from vsekit.export.preparation import Preparation

FORMAT = 1
CONFIG = "config.json"
AGAIN = "Export the model again: vse export MODEL --to onnx DIR"


class Exported:
    """What `open_exported` gives. Graphs are loaded when they are first needed, so that a text query loads no image tower.

    Attributes:
        config: config.json.
        fingerprint: changes with anything that changes the vectors; equal to that of the model in a search index.
        dim: the size D of the common space.
        threads: cores that one call uses.
        again: the remedy where a file is not the one that was exported.
    """

    def __init__(self, folder: Path, config: dict[str, Any], threads: int | None = None, again: str = AGAIN) -> None:
        self.folder, self.config, self.threads, self.again = folder, config, threads or len(usable_cores()), again
        self.fingerprint: str = config["fingerprint"]
        self.dim: int = config["dim"]

    def __reduce__(self) -> Any:
        """Another process opens the folder itself."""
        return type(self), (self.folder.absolute(), self.config, self.threads, self.again)

    @cached_property
    def image_session(self) -> InferenceSession:
        return self._session(self.config["image"]["file"])

    @cached_property
    def text_session(self) -> InferenceSession:
        return self._session(self.config["text"]["file"])

    @cached_property
    def preparation(self) -> Preparation:
        """How a picture becomes what the image tower reads; UserError for a model of features."""
        if self.config["image"]["reads"] != "pixels":
            raise UserError(
                "this model was trained on features whose encoder is not known, and can't read pictures",
                file=self.folder,
                remedy="Give feature arrays, (d,) or (N, d).",
            )
        from vsekit.export.preparation import Preparation

        return Preparation.of(self.config["image"])

    @cached_property
    def sentences(self) -> Any:
        """Sentences to ids, and to words."""
        for name in self.config["text"]["files"]:
            self._whole(name)
        return sentence_reader(self.folder, self.config["text"])

    def encode_images(self, images: Iterable[Any] | Any, batch_size: int = 8) -> np.ndarray:
        """(n, D) float32.

        Args:
            images: paths, PIL pictures or (H, W, 3) uint8 arrays, mixed at will; one alone counts as a list of one. A
                model of features takes feature arrays, (d,) or (N, d), instead.
        """
        features = self.config["image"]["reads"] == "features"
        alone = images.ndim <= (1 if features else 3) if isinstance(images, np.ndarray) else _alone(images)
        images = [images] if alone else list(images)
        batches = [images[start : start + batch_size] for start in range(0, len(images), batch_size)]
        embed = self._of_features if features else self._of_pictures
        return np.concatenate([np.zeros((0, self.dim), np.float32), *map(embed, batches)])

    def embed(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        """Pictures that `preparation` made ready, each (V, P, P, 3) uint8 → (n, D) float32, in one call of the graph."""
        return self.image_session.run(None, {"pixels": np.stack(prepared)})[0]

    def encode_texts(self, texts: Sequence[str] | str, batch_size: int = 64) -> np.ndarray:
        """(n, D) float32; a single string counts as a list of one. Short and long are read apart, to save padding."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        wrong = next((text for text in texts if not isinstance(text, str)), None)
        if wrong is not None:
            raise UserError(
                f"a sentence must be a string, not {type(wrong).__name__}", remedy="Decode bytes to str first."
            )
        sentences = self.sentences(texts)
        if len(sentences) == 1:  # most queries
            return self.text_session.run(None, _padded(sentences, "ids", np.int64))[0]
        found = np.zeros((len(texts), self.dim), np.float32)
        order = np.argsort([len(ids) for ids in sentences], kind="stable")
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            found[chosen] = self.text_session.run(None, _padded([sentences[i] for i in chosen], "ids", np.int64))[0]
        return found

    def words(self, text: str) -> list[str]:
        """What the model reads of a sentence, word by word or piece by piece, specials included."""
        return self.sentences.words(text)

    @cached_property
    def querybank(self) -> dict[str, Any] | None:
        """images and captions (M, D), temperature and weight, of a model that has a bank; see `vsekit.models.querybank`."""
        name = self.config.get("querybank")
        if name is None:
            return None
        from safetensors import safe_open

        with safe_open(self._whole(name), "np") as file:
            numbers = json.loads(file.metadata()["numbers"])
            names = set(file.keys())
            sides = {key: file.get_tensor(key).astype(np.float32) for key in names if not key.endswith(".scale")}
            for key in sides:
                if f"{key}.scale" in names:  # 8 bits, see `vsekit.models.bits`
                    sides[key] *= file.get_tensor(f"{key}.scale")[:, None]
        directions = sides.pop("directions", None)
        bank: dict[str, Any] = {key: side if directions is None else side @ directions for key, side in sides.items()}
        return bank | {key: float(numbers[key]) for key in ("temperature", "weight")}

    def _of_pictures(self, images: Sequence[Any]) -> np.ndarray:
        return self.embed([self.preparation.read(image) for image in images])

    def _of_features(self, arrays: Sequence[Any]) -> np.ndarray:
        if any(not isinstance(array, np.ndarray) for array in arrays):
            _ = self.preparation  # says what this model reads
        rows = [np.atleast_2d(array).astype(np.float32) for array in arrays]
        size = self.config["image"]["feature_dim"]
        wrong = next((row.shape[1] for row in rows if row.shape[1] != size), None)
        if wrong is not None:
            raise UserError(
                f"features have {wrong} numbers, the model expects {size}",
                file=self.folder,
                remedy="Use the features the model was trained with.",
            )
        return self.image_session.run(None, _padded(rows, "features", np.float32))[0]

    def check(self) -> None:
        """UserError where a file is not the one that was exported."""
        for name in self.config["files"]:
            self._whole(name)

    def _whole(self, name: str) -> Path:
        """The path of one of the folder's files, if it is the one that was exported."""
        path = self.folder / name
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise UserError("this file of the exported model is missing", file=path, remedy=self.again) from None
        if found != self.config["files"].get(name):
            raise UserError(
                "this is not the file that was exported: it is damaged, or belongs to another model",
                file=path,
                remedy=self.again,
            )
        return path

    def _session(self, name: str) -> InferenceSession:
        path = self._whole(name)
        session = start_session(path, self.threads, self.again)
        owner = session.get_modelmeta().custom_metadata_map.get("vsekit.fingerprint")
        if owner != self.fingerprint:
            raise UserError(
                f"this graph was exported from model {owner}, not from {self.fingerprint}", file=path, remedy=self.again
            )
        return session


def _alone(images: Any) -> bool:
    return isinstance(images, str) or not isinstance(images, Iterable)


def _padded(rows: Sequence[np.ndarray], name: str, dtype: Any) -> dict[str, np.ndarray]:
    """Rows (n_i, …) of one batch padded with 0 to the longest, as the input `name`, with `lengths`."""
    lengths = np.array([len(row) for row in rows], np.int64)
    batch = np.zeros((len(rows), lengths.max(), *rows[0].shape[1:]), dtype)
    for place, row in zip(batch, rows):
        place[: len(row)] = row
    return {name: batch, "lengths": lengths}


def is_exported(folder: Path | str) -> bool:
    """Whether a folder holds a model that `vse export --to onnx` made."""
    return read_config(folder) is not None


def read_config(folder: Path | str) -> dict[str, Any] | None:
    """What config.json of an exported folder says, unchecked; None for any other folder."""
    try:
        config = json.loads((Path(folder) / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) and "vsekit_export" in config else None


def open_exported(folder: Path | str, threads: int | None = None, again: str = AGAIN) -> Exported:
    """Opens a folder made by `vse export --to onnx`. threads: None takes all cores the process may use. again: see `Exported`."""
    folder = Path(folder)
    try:
        config = read_sealed(folder / CONFIG, again)
        if config["vsekit_export"] != FORMAT:
            raise ValueError(f"format {config['vsekit_export']}, and this version reads format {FORMAT}")
        if "members" in config:
            raise UserError(
                "these are several exported models as one",
                file=folder,
                remedy="Index with it, open it with vsekit.export.ensemble.open_ensemble, or take one of its folders.",
            )
        if any(config[tower]["file"] not in config["files"] for tower in ("image", "text")):
            raise ValueError("its graphs have no checksums")
        return Exported(folder, config, threads, again)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError("no exported model here", file=folder, remedy=again) from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"not an exported model: {error}", file=folder / CONFIG, remedy=again) from None
