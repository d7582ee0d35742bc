"""An index made by workers is that of one process, in every store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.bulk.conftest import Machines
from tests.bulk.test_commands import SLOWLY, Elsewhere, Killing, Told
from tests.features.test_store import make_pictures
from tests.models.conftest import VIEW, WORDS, settings
from tests.search.stores.conftest import milvus_server, place_of, postgres_server  # noqa: F401

from vsekit.bulk.ray import Ray
from vsekit.models.model import VSE
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel
from vsekit.search.stores import open_store


class SlowModel(VSEModel):
    def embed(self, prepared: Sequence[np.ndarray]) -> np.ndarray:
        time.sleep(SLOWLY)
        return super().embed(prepared)


def model() -> VSEModel:
    torch.manual_seed(0)
    return SlowModel(VSE(settings(), WORDS, VIEW), "tiny")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """322 different pictures, two of them in a second file, and a broken one."""
    folder = tmp_path / "photos"
    pictures = make_pictures(folder, 322)
    for number, copy in ((3, "003-copy.png"), (200, "999-copy.png")):
        assert pictures[number].path is not None
        (folder / copy).write_bytes(pictures[number].path.read_bytes())
    (folder / "100-broken.png").write_bytes(b"no picture")
    return folder


def contents(place: Path | str) -> dict[str, Any]:
    """All items by id, with their vectors to the last bit."""
    with open_store(place) as store:
        items = sorted(store.all_items("image"), key=lambda item: item.id)
        vectors = store.vectors([item.id for item in items])
        return {item.id: (item, vector.tobytes()) for item, vector in zip(items, vectors)}


def counts(report: Any) -> dict[str, Any]:
    return {name: value for name, value in report.as_dict().items() if name != "seconds"}


def test_pictures_looked_at_elsewhere_give_the_index_of_one_process(photos: Path, tmp_path: Path) -> None:
    here = index(model(), photos, tmp_path / "here")
    sent = index(model(), photos, tmp_path / "sent", engine=Elsewhere())
    assert counts(sent) == counts(here)
    assert (here.added, here.encoded, len(here.broken)) == (324, 322, 1)
    assert contents(tmp_path / "sent") == contents(tmp_path / "here")


def test_what_moves_and_changes_is_found_elsewhere_as_it_is_here(photos: Path, tmp_path: Path) -> None:
    for name in ("here", "sent"):
        index(model(), photos, tmp_path / name)
    (photos / "05.png").rename(photos / "moved.png")
    (photos / "06.png").write_bytes((photos / "07.png").read_bytes())
    (photos / "08.png").unlink()
    here = index(model(), photos, tmp_path / "here")
    sent = index(model(), photos, tmp_path / "sent", engine=Elsewhere())
    assert counts(sent) == counts(here)
    assert (here.renamed, here.changed, here.removed) == (1, 1, 1)
    assert contents(tmp_path / "sent") == contents(tmp_path / "here")


def test_what_was_stopped_goes_on_without_looking_again(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(done: int, total: int) -> None:
        if done > total / 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index(model(), photos, tmp_path / "index", engine=Elsewhere(), progress=Told(stop))
    report = index(model(), photos, tmp_path / "index", engine=Elsewhere())
    assert report.unchanged > 100
    index(model(), photos, tmp_path / "here")
    assert contents(tmp_path / "index") == contents(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize("store", ["embedded", "postgres", "milvus"])
def test_an_index_made_on_a_cluster_is_that_of_one_process(
    store: str,
    photos: Path,
    tmp_path: Path,
    two_nodes: Machines,
    place_of: Callable[[str], str],  # noqa: F811
) -> None:
    """In the embedded store also while a worker and a node are killed."""
    place, killing = place_of(store), Killing(two_nodes)
    progress = Told(killing if store == "embedded" else lambda done, total: None)
    made = index(model(), photos, place, engine=Ray(two_nodes.address), progress=progress)
    assert killing.both() == (store == "embedded")
    here = place_of(store)
    assert counts(made) == counts(index(model(), photos, here))
    assert contents(place) == contents(here)
