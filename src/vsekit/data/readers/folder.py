"""A folder of images, each with a text file of the same name that holds a caption a line.

    train/beach/1.jpg   train/beach/1.txt   val/2.png   val/2.txt

Subfolders named train, val (or dev, validation) and test are the splits; otherwise a hash of the picture's path is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from vsekit.data.pairs import Pairs
from vsekit.data.readers.base import IMAGE_SUFFIXES, Options, Reader, read_lines, split_name
from vsekit.data.readers.build import Builder
from vsekit.data.readers.problems import Place, Problems


def _images(path: Path) -> Iterator[tuple[Path, bool]]:
    """Every image below `path` in alphabetical order, and whether it has a text file."""
    for folder, subfolders, names in os.walk(path):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        texts = {name for name in names if name.endswith(".txt")}
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            if suffix.lower() in IMAGE_SUFFIXES and not name.startswith("."):
                yield Path(folder, name), f"{stem}.txt" in texts


def find(path: Path, options: Options) -> list[Path]:
    return [path] if path.is_dir() and any(has_text for _, has_text in _images(path)) else []


def read(path: Path, files: list[Path], options: Options, problems: Problems) -> Pairs:
    builder = Builder(path, options, problems)
    for image, has_text in _images(path):
        relative = image.relative_to(path)
        top = split_name(relative.parts[0]) if len(relative.parts) > 1 else ""
        split = top if top in ("train", "val", "test") else None
        picture = builder.picture(relative.as_posix(), image, Place(image), split=split)
        text = image.with_suffix(".txt")
        for line, caption in enumerate(read_lines(text, problems) if has_text else [], start=1):
            builder.caption(caption, picture, Place(text, line))
    return builder.pairs()


READER = Reader("folder", "images with a .txt of the same name beside them, at any depth", find, read)
