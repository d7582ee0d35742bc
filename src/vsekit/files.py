"""Writing files so that a kill at any moment leaves the old file or the new one, never half of either."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vsekit import system

if TYPE_CHECKING:
    from torch import Tensor

# Asking for the mask means setting it, so it is asked once, before there are threads.
UMASK = os.umask(0)
os.umask(UMASK)


def cache_folder() -> Path:
    """Where what was computed is kept: $VSEKIT_CACHE, else ~/.cache/vsekit."""
    given = os.environ.get("VSEKIT_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "vsekit"


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """A temporary path beside `path`, to write to; it takes `path`'s place when the block ends without an error.

    >>> with atomic_path(target) as temporary:        # doctest: +SKIP
    ...     temporary.write_text("whole or not at all")
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        system.sync(temporary)
        temporary.chmod(0o666 & ~UMASK)
        system.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def remove_left_over(folder: Path) -> None:
    """Removes the temporary files and folders of a writer that was killed; for who alone writes below `folder`."""
    for path in sorted(folder.rglob(".*.tmp"), reverse=True):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def write_text(path: Path | str, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path | str, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_npy(path: Path | str, array: np.ndarray) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Tensors as safetensors; OSError where the disk fails, whatever the package calls it."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    with atomic_path(path) as temporary:
        try:
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata)
        except SafetensorError as error:
            raise OSError(f"{path}: {error}") from None


def sized(count: int) -> str:
    """A number of bytes for people.

    >>> sized(100), sized(52_400_000), sized(3_000_000_000)
    ('100 bytes', '52.4 MB', '3.0 GB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


def checksum(path: Path | str) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(*parts: Any) -> str:
    """A short, stable name for what `parts` say: JSON-like values, bytes, or arrays.

    >>> fingerprint("a", 1) == fingerprint("a", 1)
    True
    >>> fingerprint("a", 1) == fingerprint("a1")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            part = f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
        elif not isinstance(part, bytes):
            part = json.dumps(part, sort_keys=True, ensure_ascii=False, default=str).encode()
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:16]
