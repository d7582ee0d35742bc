"""Hostile pictures sent to a running server, and in a folder that is indexed: each is read or refused, and the next one is
read as if nothing had been."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
from tests.attack import hostile
from tests.attack.conftest import Attack
from tests.data.files import every_kind
from tests.models.conftest import VIEW, WORDS, settings
from tests.search.memory import MemoryStore
from tests.serve.test_run import start

from vsekit.models.model import VSE
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel

pytestmark = pytest.mark.slow
SENT = "/api/search/picture"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    process, url = start("--limits", json.dumps({"rate": 0}))
    with httpx.Client(base_url=url, timeout=120) as client:
        yield client
    assert process.poll() is None
    process.kill()
    assert process.communicate()[1] == ""


@pytest.fixture(scope="module")
def pictures() -> dict[str, bytes]:
    return hostile.pictures()


def plain(client: httpx.Client) -> list[str]:
    answer = client.post(SENT, files={"file": every_kind()["rgb.jpg"]}, data={"top": "5"})
    assert answer.status_code == 200, answer.text
    return [hit["id"] for hit in answer.json()["hits"]]


def test_hostile_pictures(client: httpx.Client, pictures: dict[str, bytes], attack: Attack) -> None:
    before = plain(client)
    for name, data in pictures.items():
        answer = client.post(SENT, files={"file": data})
        attack.tried["read" if answer.status_code == 200 else "refused"] += 1
        allowed = (413, 415) if name in hostile.REFUSED else (200, 413, 415)
        if answer.status_code not in allowed or (answer.status_code != 200 and not answer.json()["remedy"]):
            attack.failed(f"{name}: {answer.status_code} {answer.text[:300]}")
        if plain(client) != before:
            attack.failed(f"{name}: another answer to the next picture")
    attack.close()


def test_damaged_pictures(client: httpx.Client, attack: Attack) -> None:
    """Cut off, or with some bytes changed, wherever that may be."""
    before, kinds = plain(client), every_kind()
    names = sorted(kinds)
    for _ in range(attack.some(150)):
        name = names[attack.rng.integers(len(names))]
        data = bytearray(kinds[name])
        if attack.rng.random() < 0.4:
            data = data[: attack.rng.integers(1, len(data))]
        for at in attack.rng.integers(len(data), size=attack.rng.integers(4)):
            data[at] ^= 1 << int(attack.rng.integers(8))
        answer = client.post(SENT, files={"file": bytes(data)})
        attack.tried["read" if answer.status_code == 200 else "refused"] += 1
        if answer.status_code not in (200, 413, 415):
            attack.failed(f"{name}: {answer.status_code} {answer.text[:300]}")
    assert plain(client) == before
    attack.close()


def test_hostile_folder(pictures: dict[str, bytes], attack: Attack, tmp_path: Path) -> None:
    kept = every_kind()["rgb.jpg"]
    (tmp_path / "good.jpg").write_bytes(kept)
    for name, data in pictures.items():
        suffix = {"jpeg": "jpg", "heic": "heic", "tiff": "tif"}.get(name.split()[0], name.split()[0])
        (tmp_path / f"{name}.{suffix}").write_bytes(data)
    torch.manual_seed(0)
    model = VSEModel(VSE(settings(), WORDS, VIEW), "tiny")
    store = MemoryStore(model.dim, {})
    done = index(model, tmp_path, store)
    found = {Path(item.path).name for item in store.all_items("image")}
    attack.tried["read"], attack.tried["refused"] = len(found), len(done.broken)
    assert "good.jpg" in found
    assert not {name for name in hostile.REFUSED for path in found if path.startswith(f"{name}.")}
    assert found.isdisjoint(Path(path).name for path in done.broken)
    attack.close()
