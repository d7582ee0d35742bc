"""A model as a folder for elsewhere: `vse export MODEL --to onnx OUT`.

    image.onnx, text.onnx        the two towers, see `graphs`
    vocab.json / tokenizer.json  the tokenizer
    querybank.safetensors        and
    calibration.json             of models that have them
    README.md                    twenty lines of numpy and onnxruntime that give the same embeddings
    config.json                  the model's fingerprint, how pictures are prepared, and the SHA-256 of every file, its own too

The folder is compared with the model before it is called finished: pictures and sentences through both. Until then it holds
a file `unfinished`, so that the same command, typed again after a kill, knows the folder for its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.engines.graphs import write_graph
from vsekit.errors import UserError
from vsekit.evaluation.meeting import ENSEMBLE, members_of
from vsekit.export.ensemble import seal_ensemble
from vsekit.export.readme import readme
from vsekit.export.runtime import CONFIG, FORMAT, is_exported, open_exported
from vsekit.export.sources import Source, read_source
from vsekit.files import atomic_path, remove_left_over, write_text
from vsekit.progress import QUIET, Progress
from vsekit.seals import sums_of, write_sealed

#: In a folder while it is being written.
UNFINISHED = "unfinished"
#: The smallest cosine between a vector of the graph and one of torch.
AGREEMENT = 1 - 1e-4
SENTENCES = ("a dog", "Two men can't play football in the snow, can they?", "x", "a red ball and a blue box " * 12)


@dataclass(frozen=True)
class Written:
    """A finished export. agreement: the smallest cosine between its vectors and the model's, over a few of each."""

    folder: Path
    fingerprint: str
    dim: int
    sizes: dict[str, int]
    agreement: float

    def as_dict(self) -> dict[str, Any]:
        return {"out": str(self.folder), **{k: v for k, v in vars(self).items() if k != "folder"}}


def export_onnx(model: str | Path | Source, out: Path | str, progress: Progress = QUIET) -> Written:
    """Writes the folder `out`; an export that stands there already is replaced. Of an ensemble.json, see `ensemble`."""
    if not isinstance(model, Source) and Path(model).name == ENSEMBLE and Path(model).is_file():
        return export_ensemble(members_of(Path(model).resolve().parent), out, progress)
    source = model if isinstance(model, Source) else read_source(model)
    out = Path(out)
    make_room(out)
    metadata = {"vsekit.fingerprint": source.fingerprint}
    written: dict[str, Any] = {}
    for tower, (graph, example, about) in (("image", source.image()), ("text", source.text())):
        progress.say(f"Writing the {tower} tower …")
        write_graph(graph, example, ["embeddings"], out / f"{tower}.onnx", metadata)
        written[tower] = {"file": f"{tower}.onnx", **about}
    source.save_tokenizer(out)
    for name, path in source.beside.items():
        with atomic_path(out / name) as temporary:
            shutil.copyfile(path, temporary)
    config = {
        "vsekit_export": FORMAT,
        "fingerprint": source.fingerprint,
        "dim": source.dim,
        "similarity": source.similarity,
        **written,
        "querybank": next((name for name in source.beside if name.startswith("querybank")), None),
        "calibration": next((name for name in source.beside if name.startswith("calibration")), None),
    }
    write_text(out / "README.md", readme(config))
    seal(out, config)
    agreement = compared(source, out)
    (out / UNFINISHED).unlink()
    return Written(out, source.fingerprint, source.dim, {p.name: p.stat().st_size for p in files_of(out)}, agreement)


def export_ensemble(members: Sequence[str | Path | Source], out: Path | str, progress: Progress = QUIET) -> Written:
    """Writes several models as one into the folder `out`, each with its towers; see `ensemble`."""
    out = Path(out)
    make_room(out)
    written = []
    for number, member in enumerate(members):
        progress.say(f"Model {number + 1} of {len(members)}:")
        written.append(export_onnx(member, out / str(number), progress))
    own = seal_ensemble(out, [one.folder.name for one in written])
    (out / UNFINISHED).unlink()
    sizes = {f"{one.folder.name}/{name}": size for one in written for name, size in one.sizes.items()}
    sizes["README.md"] = (out / "README.md").stat().st_size
    return Written(out, own, sum(one.dim for one in written), sizes, min(one.agreement for one in written))


def make_room(out: Path) -> None:
    """An empty folder, or one whose earlier export is no longer valid; UserError where other things stand."""
    try:
        old = json.loads((out / CONFIG).read_text(encoding="utf-8"))
        files = list(old["files"]) if "vsekit_export" in old else None
    except (OSError, ValueError, KeyError, TypeError):
        files = None
    if files is None:
        empty_folder(out)
        _remove_members(out)
        return
    _begin(out)
    (out / CONFIG).unlink()
    _remove_members(out)
    for name in files:
        if Path(name).name == name:  # written by hand it may point anywhere
            (out / name).unlink(missing_ok=True)


def _remove_members(out: Path) -> None:
    """Of an ensemble that was exported here, or begun."""
    for path in list(out.iterdir()):
        if path.is_dir() and path.name.isdigit() and (is_exported(path) or (path / UNFINISHED).is_file()):
            shutil.rmtree(path)


def empty_folder(out: Path) -> None:
    """Makes the folder, to be written into; UserError where anything stands in it but what a killed export left."""
    if out.exists() and not (out.is_dir() and (_begun(out) or not any(out.iterdir()))):
        raise UserError("other things stand here", file=out, remedy="Name a new or empty folder.")
    _begin(out)


def _begun(out: Path) -> bool:
    return (out / UNFINISHED).is_file() or all(path.match(f".{UNFINISHED}.*.tmp") for path in out.iterdir())


def _begin(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    remove_left_over(out)
    write_text(out / UNFINISHED, "An export was begun here. The same command, typed again, writes it anew.\n")


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.name not in (CONFIG, UNFINISHED))


def seal(out: Path, config: dict[str, Any]) -> None:
    """Writes config.json, with the SHA-256 of all other files; without it the folder is no export."""
    write_sealed(out / CONFIG, config | {"files": sums_of(out, files_of(out))})


def compared(source: Source, out: Path) -> float:
    """The smallest cosine between the export's vectors and the model's; UserError where they are not the same."""
    exported = open_exported(out)
    agreement = {
        "text": cosines(source.encode_texts(SENTENCES), exported.encode_texts(SENTENCES)).min(),
        "image": cosines(source.encode_images(given := _examples(source)), exported.encode_images(given)).min(),
    }
    worst = min(agreement, key=agreement.__getitem__)
    if not agreement[worst] >= AGREEMENT:
        (out / CONFIG).unlink()
        raise UserError(
            f"the {worst} graph gives other vectors than the model: a cosine of {agreement[worst]:.6f}",
            file=out / f"{worst}.onnx",
            remedy="This is a defect of the export; use the model with vsekit.load, and report it with the config.json.",
        )
    return float(agreement[worst])


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of each row of `a` with that of `b`; 1 where both are zero."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    both = (np.abs(a).max(1) < 1e-8) & (np.abs(b).max(1) < 1e-8)
    return np.where(both, 1.0, (a * b).sum(1) / np.maximum(lengths, 1e-12))


def _examples(source: Source) -> list[Any]:
    """Three pictures of noise over a slope, wide and high; or three features."""
    rng = np.random.default_rng(0)
    if source.feature_dim is not None:
        return [rng.standard_normal((1, source.feature_dim), np.float32) for _ in range(3)]
    from PIL import Image

    pictures = []
    for height, width in ((300, 400), (500, 260), (64, 64)):
        slope = np.linspace(0, 160, width)[None, :, None] * rng.random(3)
        pictures.append(Image.fromarray((slope + rng.integers(0, 90, (height, width, 3))).astype(np.uint8)))
    return pictures
