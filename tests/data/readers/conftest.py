"""Tiny real files for the readers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image


@pytest.fixture
def photo(tmp_path: Path) -> Callable[..., Path]:
    """photo("images/a.jpg") writes a small picture below tmp_path."""

    def save(name: str, colour: str = "teal") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), colour).save(path)
        return path

    return save


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """write("a.txt", "text") or write("a.json", value) writes a file below tmp_path."""

    def save(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return save
