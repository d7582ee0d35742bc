"""A frozen image encoder through ONNX Runtime: the features torch gives, to 1e-5, some three times as fast on a CPU.

The graph is written once for each encoder and kept in the cache folder, named by the encoder's weights, mean, std and size,
with its checksum beside it: one that is not what was written is written anew.
torch remains the reference: `compiled` compares both on two pictures before it keeps a graph.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from vsekit.encoders.base import ImageEncoder
from vsekit.encoders.weights import weights_fingerprint
from vsekit.engines.graphs import PixelGraph, write_graph
from vsekit.engines.session import start_session
from vsekit.errors import UserError
from vsekit.files import cache_folder, fingerprint
from vsekit.seals import KEY, check_files, read_sealed, sums_of, write_sealed
from vsekit.threads import usable_cores

#: Of numbers as large as the features' own; ReLU6 networks give 0 … 6.
AGREEMENT = 1e-5


class ImageEngine:
    """Calls like an image encoder, on crops as they are cut: (B, V, P, P, 3) uint8 → features and mask, numpy."""

    def __init__(self, path: Path, threads: int | None = None) -> None:
        self.path = path
        self._session = start_session(path, threads or len(usable_cores()), f"Remove {path}.")

    def __call__(self, crops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(B, N, d) float32, the mean over the V crops, and (B, N) bool."""
        vectors, mask = self._session.run(None, {"pixels": crops})
        return vectors, mask


def compiled(
    encoder: ImageEncoder, views: int = 1, *, threads: int | None = None, folder: Path | None = None
) -> ImageEngine:
    """The engine of an encoder, from the cache where it is there.

    Args:
        views: V, the crops of each picture, which is fixed in a graph.
        folder: in place of the cache folder.
    """
    name = fingerprint(weights_fingerprint(encoder), encoder.mean, encoder.std, encoder.pixels, str(encoder), views)
    path = (folder or cache_folder() / "engines") / f"{name}.onnx"
    seal = path.with_suffix(".json")
    if _whole(path, seal):
        return ImageEngine(path, threads)
    path.unlink(missing_ok=True)  # damaged, or of before there were checksums; it is written anew
    graph = PixelGraph(encoder)
    rng = np.random.default_rng(0)
    crops = rng.integers(0, 256, (2, views, encoder.pixels, encoder.pixels, 3), dtype=np.uint8)
    example = torch.from_numpy(crops)
    write_graph(graph, {"pixels": example}, ["vectors", "mask"], path, {"vsekit.fingerprint": name})
    engine = ImageEngine(path, threads)
    with torch.inference_mode():
        wanted = encoder.eval()(_normalised(encoder, example)).vectors.unflatten(0, (2, views)).mean(1).numpy()
    apart = float(np.abs(engine(crops)[0] - wanted).max()) / max(1.0, float(np.abs(wanted).max()))
    if not apart <= AGREEMENT:
        path.unlink()
        raise UserError(
            f"onnxruntime gives other features than torch for this encoder, by {apart:.1e}",
            remedy="Run it with torch, and report the encoder.",
        )
    write_sealed(seal, {}, sums_of(path.parent, [path]))
    return engine


def _whole(path: Path, seal: Path) -> bool:
    try:
        check_files(path.parent, read_sealed(seal, "")[KEY], "")
    except (FileNotFoundError, KeyError, UserError):
        return False
    return True


def _normalised(encoder: ImageEncoder, crops: torch.Tensor) -> torch.Tensor:
    from vsekit.data.views import normalised

    return normalised(crops.flatten(0, 1).permute(0, 3, 1, 2), encoder.mean, encoder.std)
