"""Modules written as ONNX graphs; and the graph of an image encoder.

pixels (B, V, P, P, 3) uint8, the V crops of each picture as they are cut → vectors (B, N, d) float32, mask (B, N) bool

B is free. Scaling the pixels by the encoder's mean and std and the mean over crops are inside the graph.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vsekit.encoders.base import ImageEncoder
from vsekit.engines.twins import OPSET, exportable
from vsekit.errors import UserError, missing_extra
from vsekit.files import atomic_path
from vsekit.parts import Sets

#: Sizes that are free in a graph, by input: axis → name.
FREE = {
    "pixels": {0: "pictures"},
    "features": {0: "pictures", 1: "regions"},
    "ids": {0: "sentences", 1: "words"},
    "lengths": {0: "n"},
}


class PixelGraph(nn.Module):
    """uint8 (B, V, P, P, 3) → an image encoder's mean over the V crops, `Sets`.

    twin: what `exportable` made of the encoder, where the caller has it.
    """

    def __init__(self, encoder: ImageEncoder, twin: nn.Module | None = None) -> None:
        super().__init__()
        self.encoder = twin or exportable(encoder)
        self.register_buffer("scale", torch.tensor([1 / (255 * s) for s in encoder.std]).view(3, 1, 1))
        self.register_buffer("shift", torch.tensor([m / s for m, s in zip(encoder.mean, encoder.std)]).view(3, 1, 1))

    def _values(self, pixels: Tensor) -> Tensor:
        return pixels.flatten(0, 1).permute(0, 3, 1, 2).float() * self.get_buffer("scale") - self.get_buffer("shift")

    def sets(self, pixels: Tensor) -> Sets:
        views = pixels.shape[1]
        sets = self.encoder(self._values(pixels))
        if views == 1:
            return sets
        vectors, mask = sets.vectors.unflatten(0, (-1, views)), sets.mask.unflatten(0, (-1, views))
        return Sets(vectors.mean(1), mask[:, 0])

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N, d) and (B, N)."""
        sets = self.sets(pixels)
        return sets.vectors, sets.mask


class RegionGraph(PixelGraph):
    """Of an encoder that looks at regions, with one crop a picture: the boxes (B, N, 4) too."""

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        regions: Any = self.encoder.regions
        sets, boxes = regions(self._values(pixels))
        return sets.vectors, sets.mask, boxes


def write_graph(
    module: nn.Module, inputs: dict[str, Tensor], outputs: list[str], path: Path, metadata: dict[str, str]
) -> None:
    """Writes `module` as one `.onnx` file.

    Args:
        inputs: an example of each, by name. Axes in `FREE` may have any size later; their size here must not be 1.
        metadata: kept in the file, read back by the runtime.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise missing_extra(str(error.name), "onnx") from None
    free = {name: dict.fromkeys(FREE[name], torch.export.Dim.DYNAMIC) for name in inputs}
    with _quiet():
        try:
            program = torch.onnx.export(
                module.eval(),
                tuple(inputs.values()),
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=free,
                input_names=list(inputs),
                output_names=outputs,
                verbose=False,
            )
        except Exception as error:  # the exporter raises errors of many kinds, all of which mean this
            raise UserError(
                f"this model has a part that can't be written as an ONNX graph: {_first_line(error)}",
                remedy="Use it with vsekit.load, or --to sentence-transformers, which need no graph.",
            ) from error
    assert program is not None
    program.model.metadata_props.update(metadata)
    with atomic_path(path) as temporary:
        program.save(str(temporary))


def _first_line(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's talk, and without torch's fused attention, which has no form as a graph."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    talkative = [logging.getLogger(name) for name in ("onnxscript", "torch.onnx", "onnx_ir")]
    levels = [logger.level for logger in talkative]
    for logger in talkative:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for logger, level in zip(talkative, levels):
            logger.setLevel(level)
