"""The image tower in 8 bits: weights and what flows between layers as int8, by scales found on pictures.

Static quantisation (Jacob et al. 2018, "Quantization and training of neural networks for efficient integer-arithmetic-only
inference"): x ≈ s · (q − z) with a scale s and a zero point z for each tensor, those of weights for each channel. The ranges of
what flows are seen on pictures of the collection. What it costs in recall is measured on another split, beside fp32.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from vsekit.data.pairs import Pairs
from vsekit.errors import UserError, missing_extra
from vsekit.evaluation.protocols import evaluate
from vsekit.evaluation.scorers import scorer
from vsekit.export.folder import export_onnx, seal
from vsekit.export.readme import readme
from vsekit.export.runtime import Exported, open_exported
from vsekit.export.sources import Source, VSESource, read_source
from vsekit.files import atomic_path, fingerprint, write_text
from vsekit.progress import QUIET, Progress

#: Pictures whose activations are looked at.
CALIBRATED_ON = 128
BATCH = 8


@dataclass(frozen=True)
class Measured:
    """An export in 8 bits beside the same in fp32: two of each, fp32 first.

    recalls: R@1, R@5, R@10 image → text and text → image, and rsum. size: bytes of the image tower.
    speed: pictures per CPU-second of the image tower, pictures in memory.
    """

    folder: Path
    fingerprint: str
    pictures: int
    recalls: tuple[dict[str, float], dict[str, float]]
    size: tuple[int, int]
    speed: tuple[float, float]

    def as_dict(self) -> dict[str, Any]:
        sides = {
            name: {"recalls": self.recalls[i], "image_bytes": self.size[i], "pictures_per_cpu_second": self.speed[i]}
            for i, name in enumerate(("fp32", "int8"))
        }
        return {"out": str(self.folder), "fingerprint": self.fingerprint, "pictures": self.pictures, **sides}

    def table(self) -> list[str]:
        names = list(self.recalls[0])
        lines = [f"{self.folder}: the image tower in int8, measured on {self.pictures} pictures", ""]
        lines.append("      " + "".join(f"{name:>11}" for name in [*names, "MB", "pictures/s"]))
        for i, name in enumerate(("fp32", "int8")):
            numbers = [*self.recalls[i].values(), self.size[i] / 1e6, self.speed[i]]
            lines.append(f"{name:<6}" + "".join(f"{number:>11.1f}" for number in numbers))
        lost = self.recalls[0]["rsum"] - self.recalls[1]["rsum"]
        return [*lines, "", f"int8 loses {lost:.1f} of rsum (pictures/s: per CPU-second, decoding not counted)."]


def export_int8(
    model: str | Path | Source, out: Path | str, pairs: Pairs, split: str, progress: Progress = QUIET
) -> Measured:
    """`export_onnx` with an image tower in 8 bits.

    Args:
        pairs: pictures of `train` (of `split`, where there is no train) are calibrated on; `split` is measured on.
    """
    source = model if isinstance(model, Source) else read_source(model)
    if source.feature_dim is not None:
        raise UserError("int8 is for towers that read pictures, and this one reads features", file=source.name)
    out, measured = Path(out), pairs.split(split)
    known = pairs.split("train") if "train" in pairs.splits else measured
    export_onnx(source, out, progress)
    plain = open_exported(out)
    chosen = np.random.default_rng(0).permutation(len(known.pictures))[:CALIBRATED_ON]
    progress.say(f"Calibrating on {len(chosen)} pictures …")
    seen = [plain.preparation.read(known.pictures[i].open()) for i in sorted(chosen)]
    before = _embedded(plain, measured, progress), _speed(plain, seen), (out / "image.onnx").stat().st_size
    captions = plain.encode_texts([caption.text for caption in measured.captions])
    name = fingerprint(source.fingerprint, "int8", np.stack(seen))
    _quantise(out / "image.onnx", seen, name)
    _renamed(out / "text.onnx", name)
    config = plain.config | {"fingerprint": name, "int8": {"of": source.fingerprint, "pictures": len(seen)}}
    # Banks and calibrations are of the vectors of fp32.
    for extra in ("querybank", "calibration"):
        if config[extra]:
            (out / config[extra]).unlink()
            config[extra] = None
    write_text(out / "README.md", readme(config))
    seal(out, {key: value for key, value in config.items() if key != "files"})
    small = open_exported(out)
    after = _embedded(small, measured, progress), _speed(small, seen), (out / "image.onnx").stat().st_size
    recalls = (_recalls(source, before[0], captions, measured), _recalls(source, after[0], captions, measured))
    return Measured(out, name, len(measured.pictures), recalls, (before[2], after[2]), (before[1], after[1]))


def _embedded(model: Exported, pairs: Pairs, progress: Progress) -> np.ndarray:
    """(n, D) of a collection's pictures."""
    found = []
    with progress.bar("Pictures", "pictures") as bar:
        for start in range(0, len(pairs.pictures), BATCH):
            some = pairs.pictures[start : start + BATCH]
            found.append(model.embed([model.preparation.read(picture.open()) for picture in some]))
            bar.update(start + len(some), len(pairs.pictures))
    return np.concatenate(found)


def _speed(model: Exported, prepared: Sequence[np.ndarray]) -> float:
    """Pictures per CPU-second."""
    model.embed(prepared[:BATCH])
    start = time.process_time()
    for at in range(0, len(prepared), BATCH):
        model.embed(prepared[at : at + BATCH])
    return len(prepared) / (time.process_time() - start)


def _recalls(source: Source, images: np.ndarray, captions: np.ndarray, pairs: Pairs) -> dict[str, float]:
    similarity = source.model.similarity if isinstance(source, VSESource) else None
    scores = scorer(torch.from_numpy(images), torch.from_numpy(captions), similarity)
    metrics = evaluate(scores, pairs.picture_groups, pairs.caption_groups)
    sides = (("i2t", metrics.i2t), ("t2i", metrics.t2i))
    recalls = {f"{name} R@{k}": side[f"r{k}"] for name, side in sides for k in (1, 5, 10)}
    return recalls | {"rsum": metrics.rsum}


def _quantise(path: Path, prepared: Sequence[np.ndarray], name: str) -> None:
    """Puts the graph in 8 bits in the place of the one in fp32."""
    try:
        import onnx
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise missing_extra(str(error.name), "onnx") from None

    class Pictures(CalibrationDataReader):
        def __init__(self) -> None:
            batches = range(0, len(prepared), BATCH)
            self.batches = iter([np.stack(prepared[at : at + BATCH]) for at in batches])

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"pixels": batch}

    with TemporaryDirectory() as temporary:
        ready, small = Path(temporary) / "ready.onnx", Path(temporary) / "small.onnx"
        quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
        quantize_static(
            str(ready),
            str(small),
            Pictures(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        graph = onnx.load(str(small))
    _save_named(graph, path, name)


def _renamed(path: Path, name: str) -> None:
    """The same graph as a part of the model `name`."""
    import onnx

    _save_named(onnx.load(str(path)), path, name)


def _save_named(graph: Any, path: Path, name: str) -> None:
    import onnx

    onnx.helper.set_model_props(graph, {"vsekit.fingerprint": name})
    with atomic_path(path) as temporary:
        onnx.save(graph, str(temporary))
