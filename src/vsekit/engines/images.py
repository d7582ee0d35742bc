"""A frozen image encoder at work: crops as they are cut in, features out, through ONNX Runtime or through torch.

ONNX Runtime gives the features torch gives, to 1e-5, in about half the time or less on a CPU. The graph is written once
for each encoder and kept in the cache folder, named by the encoder's weights, settings and modules, with its checksum beside
it: one that is not what was written is written anew. torch remains the reference: `compiled` compares both on two pictures
before it keeps a graph.

A call computes on one thread; several threads may call at once. Cores are used without threads that wait for each other
within a batch, at the CPU time of one thread, and with the same bits for any number of them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vsekit import threads
from vsekit.data.views import normalised
from vsekit.encoders.base import ImageEncoder
from vsekit.encoders.image.tails import WithTail
from vsekit.encoders.weights import weights_fingerprint
from vsekit.engines.graphs import PixelGraph, RegionGraph, write_graph
from vsekit.engines.session import start_session
from vsekit.errors import UserError
from vsekit.files import cache_folder, fingerprint
from vsekit.parts import Sets
from vsekit.progress import say_once
from vsekit.seals import KEY, check_files, read_sealed, sums_of, write_sealed

#: Of numbers as large as the features' own; ReLU6 networks give 0 … 6.
AGREEMENT = 1e-5
#: Of maps for a tail to read: sums over several blocks, no mean over places, and kept at half precision, which is coarser. Of
#: an encoder with its tail, too: with batch normalisation folded into the filters, numbers are rounded in other places.
AGREEMENT_OF_MAPS = 1e-4
#: Floating-point operations in all from which writing a graph, some 5 CPU-seconds, pays: 400 pictures of EfficientNet-lite0.
WORTH = 3e11
#: For fewer crops their work isn't even counted, which takes as long as one of them.
FEW = 64


class ImageEngine(ABC):
    """Runs a frozen image encoder.

    name: of what computes, for the stamp of what is made.
    batch: crops to be given at once; small batches are the fastest on CPUs.
    at_once: how many threads may call it at the same time with profit.
    """

    name: str
    batch: int = 8
    at_once: int = 1

    @abstractmethod
    def __call__(self, crops: np.ndarray) -> Sets:
        """(n, P, P, 3) uint8 → `Sets` of (n, N, d), on the CPU."""

    def with_boxes(self, crops: np.ndarray) -> tuple[Sets, Tensor | None]:
        """The same, and the boxes (n, N, 4) of an encoder that looks at regions, where the engine gives them."""
        return self(crops), None

    def views(self, crops: np.ndarray) -> Sets:
        """V crops of each picture, (B, V, P, P, 3) uint8 → `Sets` of (B, V, N, d), as a tower reads it."""
        vectors, mask = self.spread(crops.reshape(-1, *crops.shape[2:]))
        return Sets(vectors.unflatten(0, crops.shape[:2]), mask.unflatten(0, crops.shape[:2]))

    def spread(self, crops: np.ndarray) -> Sets:
        """Many crops, a few at a time, on as many threads as there is profit in."""
        parts = [crops[start : start + self.batch] for start in range(0, len(crops), self.batch)]
        several = self.at_once > 1 and len(parts) > 1
        found = list(self._pool.map(self, parts)) if several else [self(part) for part in parts]
        return Sets(torch.cat([sets.vectors for sets in found]), torch.cat([sets.mask for sets in found]))

    def __getstate__(self) -> dict[str, Any]:
        """Without threads, for another process."""
        return {name: value for name, value in self.__dict__.items() if name != "_pool"}

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.at_once, thread_name_prefix="encoder")


class TorchImages(ImageEngine):
    """The reference, on whatever device the encoder is. It spreads a batch over threads by itself."""

    name = "torch"

    def __init__(self, encoder: ImageEncoder) -> None:
        self.encoder = encoder
        if self.device.type != "cpu":
            self.batch = 64

    @property
    def device(self) -> torch.device:
        weight = next(self.encoder.parameters(), None)
        return torch.device("cpu") if weight is None else weight.device

    @torch.inference_mode()
    def __call__(self, crops: np.ndarray) -> Sets:
        vectors, mask = self.encoder(self._pixels(crops))
        return Sets(vectors.cpu(), mask.cpu())

    @torch.inference_mode()
    def with_boxes(self, crops: np.ndarray) -> tuple[Sets, Tensor | None]:
        regions = getattr(self.encoder, "regions", None)
        if regions is None:
            return self(crops), None
        (vectors, mask), boxes = regions(self._pixels(crops))
        return Sets(vectors.cpu(), mask.cpu()), boxes.cpu()

    def _pixels(self, crops: np.ndarray) -> Tensor:
        """(n, P, P, 3) uint8 → what the encoder reads, (n, 3, P, P), where it is."""
        values = torch.from_numpy(crops).to(self.device).permute(0, 3, 1, 2)
        return normalised(values, self.encoder.mean, self.encoder.std)


class CompiledImages(ImageEngine):
    name = "onnxruntime"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start(path)

    def _start(self, graph: Path | bytes) -> None:
        self._session = start_session(graph, 1, "It is written anew when the file is removed.")
        self.look_around()

    def look_around(self) -> None:
        """Chooses anew on how many threads to work: others may have begun or ended since."""
        self.at_once = threads.choose(threads.most())

    def __getstate__(self) -> dict[str, Any]:
        """The graph itself: another process may be on another machine."""
        return {"graph": self.path.read_bytes()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._start(state["graph"])

    def __call__(self, crops: np.ndarray) -> Sets:
        return self.with_boxes(crops)[0]

    def with_boxes(self, crops: np.ndarray) -> tuple[Sets, Tensor | None]:
        vectors, mask, *boxes = map(torch.from_numpy, self._session.run(None, {"pixels": crops[:, None]}))
        return Sets(vectors, mask), boxes[0] if boxes else None


def image_engine(encoder: ImageEncoder, crops: float, begun_with: str | None = None) -> ImageEngine:
    """What runs an encoder on so many crops: ONNX Runtime on a CPU, or torch where no graph is worth its writing.

    Where ONNX Runtime would be worth it and can't be had, torch runs, and that is said once. The choice depends on the
    encoder and the number of crops, and on nothing else, so that work done twice gives the same bits.

    begun_with: the name of the engine that did the first part of the work, which does the rest too.
    """
    reference = TorchImages(encoder)
    if begun_with == TorchImages.name or reference.device.type != "cpu":
        return reference
    if begun_with is None and crops < FEW:
        return reference
    with evaluating(encoder):
        graph = graph_of(encoder)
        if begun_with is None and not math.isinf(crops) and _operations(reference, graph) * crops < WORTH:
            return reference
        try:
            return compiled(encoder, graph)
        except UserError as error:
            say_once(f"The image encoder runs in torch, which is slower: {error.what}. {error.remedy}")
            return reference


def _operations(reference: TorchImages, graph: Path) -> int:
    """Of one crop: as noted beside the graph or, where there is none, counted. What counts them takes a second to import."""
    with suppress(FileNotFoundError, KeyError, UserError):
        return int(read_sealed(_seal(graph), "")["operations"])
    from torch.utils.flop_counter import FlopCounterMode

    side = reference.encoder.pixels
    with FlopCounterMode(display=False) as counter:
        reference(np.zeros((1, side, side, 3), np.uint8))
    return counter.get_total_flops()


@contextmanager
def evaluating(encoder: ImageEncoder) -> Iterator[None]:
    """The encoder in eval mode; afterwards as it was."""
    training = encoder.training
    encoder.eval()
    try:
        yield
    finally:
        encoder.train(training)


def graph_of(encoder: ImageEncoder) -> Path:
    """Where the graph of an encoder is, once it is written."""
    name = fingerprint(weights_fingerprint(encoder), encoder.mean, encoder.std, encoder.pixels, str(encoder))
    return cache_folder() / "engines" / f"{name}.onnx"


def compiled(encoder: ImageEncoder, graph: Path | None = None) -> CompiledImages:
    """The engine of an encoder in eval mode, from the cache where it is there. graph: `graph_of` it, where that is known.

    UserError where it can't be written, differs from torch, or onnxruntime is not there.
    """
    path = graph or graph_of(encoder)
    if _whole(path):
        return CompiledImages(path)
    path.unlink(missing_ok=True)  # damaged, another's, or of before there were checksums
    rng = np.random.default_rng(0)
    crops = rng.integers(0, 256, (2, encoder.pixels, encoder.pixels, 3), dtype=np.uint8)
    example = {"pixels": torch.from_numpy(crops[:, None])}
    has_boxes = hasattr(encoder, "regions")
    graph_module = RegionGraph(encoder) if has_boxes else PixelGraph(encoder)
    outputs = ["vectors", "mask", *["boxes"] * has_boxes]
    write_graph(graph_module, example, outputs, path, {"vsekit.fingerprint": path.stem})
    engine, reference = CompiledImages(path), TorchImages(encoder)
    wanted = reference(crops).vectors
    apart = float((engine(crops).vectors - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))
    cut = encoder.tail() is not None or isinstance(encoder, WithTail)
    if not apart <= (AGREEMENT_OF_MAPS if cut else AGREEMENT):
        path.unlink()
        raise UserError(
            f"onnxruntime gives other features than torch for this encoder, by {apart:.1e}",
            remedy="Please report the encoder.",
        )
    write_sealed(_seal(path), {"operations": _operations(reference, path)}, sums_of(path.parent, [path]))
    return engine


def _seal(path: Path) -> Path:
    return path.with_suffix(".json")


def _whole(path: Path) -> bool:
    """Whether a graph is there and is what was written."""
    try:
        check_files(path.parent, read_sealed(_seal(path), "")[KEY], "")
    except (FileNotFoundError, KeyError, UserError):
        return False
    return True
