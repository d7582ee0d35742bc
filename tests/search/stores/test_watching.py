"""Folders that are watched into every store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, settings

import vsekit.search.watching as watching
from vsekit.models.model import VSE
from vsekit.search.models import VSEModel
from vsekit.search.stores import open_store
from vsekit.search.walk import source_of

STORES = ["embedded", "postgres", pytest.param("milvus", marks=pytest.mark.slow)]


@pytest.mark.parametrize("name", STORES)
def test_every_store_stays_current_and_others_may_write_in_between(
    name: str, place_of: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "STILL_SECONDS", 0.2)
    torch.manual_seed(0)
    model, place, stop = VSEModel(VSE(settings(), WORDS, VIEW), "tiny"), place_of(name), threading.Event()

    def picture(file: str, seed: int) -> None:
        noise = np.random.default_rng(seed).integers(0, 256, (24, 30, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / file)

    def held() -> dict[str, str]:
        with open_store(place) as store:
            return {item.path.removeprefix(f"{tmp_path}/"): item.id for item in store.all_items("image")}

    timer = threading.Timer(120, stop.set)
    timer.start()
    picture("1.png", 1), picture("2.png", 2)
    reports = watching.watch(model, [source_of(tmp_path)], place, stop=stop)
    try:
        assert next(reports).pictures == 2
        before = held()
        with open_store(place) as store:
            store.lock()
            store.mark([before["1.png"]], {"favourite": True})
        (tmp_path / "1.png").rename(tmp_path / "moved.png")
        (tmp_path / "2.png").unlink()
        picture("3.png", 3)
        while set(held()) != {"moved.png", "3.png"}:
            next(reports)  # StopIteration after two minutes
        assert held()["moved.png"] == before["1.png"]
        with open_store(place) as store:
            assert store.items([before["1.png"]])[0].meta["favourite"] is True
    finally:
        reports.close()  # type: ignore[attr-defined]
        timer.cancel()
