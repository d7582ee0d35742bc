"""An ensemble without torch: exported member by member, it gives the vectors that torch gives, and is never another's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.conftest import VIEW, settings
from tests.search.test_exported import COLOURS, THINGS, Place, asked_without_torch, write_collection

import vsekit
from vsekit.data.text import Vocabulary
from vsekit.errors import UserError
from vsekit.export.ensemble import is_ensemble, open_ensemble
from vsekit.export.folder import export_onnx
from vsekit.export.runtime import open_exported
from vsekit.export.sources import read_source
from vsekit.models.model import VSE
from vsekit.models.querybank import Querybank
from vsekit.search.models import is_model, load_search_model
from vsekit.search.searcher import Searcher
from vsekit.search.stores import check_index, open_store

pytest.importorskip("onnxscript", reason="needs the extra 'onnx'")
TEXTS = ["a red dog", "the wall is grey", "a ball", "an unknown word", "blue " * 30]


def write_run(run: Path, count: int = 2, seed: int = 0) -> Path:
    """Members of other views and weights; the first has a querybank. Gives the ensemble.json."""
    for number in range(count):
        torch.manual_seed(seed + number)
        view = VIEW.model_copy(update={"kind": "10C"}) if number == 1 else VIEW
        model = VSE(settings(), Vocabulary(["a", "the", "is", *COLOURS, *THINGS]), view)
        if not number:
            model.querybank = Querybank(torch.randn(7, 12), torch.randn(7, 12), 0.1, 0.7)
        model.save(run / "members" / str(number))
    members = [f"members/{number}" for number in range(count)]
    (run / "ensemble.json").write_text(json.dumps({"members": members}))
    return run / "ensemble.json"


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def made(ensemble: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "out"
    export_onnx(ensemble, out)
    return out


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "copy"))


def test_pictures_and_sentences_get_torchs_vectors(ensemble: Path, made: Path, picture: Callable[..., Path]) -> None:
    assert is_model(made)
    theirs, ours = load_search_model(ensemble), load_search_model(made)
    assert ours.fingerprint == theirs.fingerprint
    assert ours.dim == theirs.dim == 24
    pictures = [picture(f"{seed}.png", seed=seed) for seed in range(3)]
    for a, b in (
        (theirs.encode_texts(TEXTS), ours.encode_texts(TEXTS)),
        (theirs.encode_images(pictures), ours.encode_images(pictures)),
    ):
        assert (a * b).sum(1) == pytest.approx(1.0, abs=1e-4)
        assert np.abs(a - b).max() < 1e-4
    owed = [model.bank.owed(model.encode_images(pictures), "image") for model in (theirs, ours) if model.bank]
    assert owed[0] == pytest.approx(owed[1], abs=1e-4)
    assert ours.words("a red dog") == theirs.words("a red dog")


def test_the_joined_vectors_are_those_of_the_folders_side_by_side(made: Path) -> None:
    parts = [open_exported(made / name).encode_texts(TEXTS) for name in ("0", "1")]
    parts = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts]
    found = load_search_model(made).encode_texts(TEXTS)
    assert found == pytest.approx(np.concatenate(parts, axis=1) / 2**0.5, abs=1e-6)
    scores = found @ found.T
    assert scores == pytest.approx((parts[0] @ parts[0].T + parts[1] @ parts[1].T) / 2, abs=1e-6)


def test_an_index_of_an_ensemble_is_searched_without_torch(
    ensemble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    monkeypatch.setenv("VSEKIT_CACHE", str(place.cache))
    vsekit.index(write_collection(tmp_path, 8), model=ensemble, out=place.index)
    picture = tmp_path / "photos" / "05.png"
    for asked in (("a red dog",), ("--image", str(picture))):
        found = asked_without_torch(place, "search", str(place.index), *asked, "--json", "--top", "8", "--no-pictures")
        with open_store(place.index) as store:
            searcher = Searcher(store, load_search_model(ensemble))
            truth = (
                searcher.search(asked[0], top=8)
                if len(asked) == 1
                else searcher.by_picture(picture.read_bytes(), top=8)
            )
        assert [hit["id"] for hit in found["hits"]] == [hit.item.id for hit in truth.hits]
        assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit.score for hit in truth.hits], abs=1e-4)
    assert check_index(place.index).damage == []


@pytest.mark.slow
def test_an_exported_ensemble_makes_the_index_that_torch_makes(
    ensemble: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    collection = write_collection(tmp_path, 5)
    vectors = []
    for number, model in enumerate((ensemble, made)):
        place = tmp_path / f"index{number}"
        vsekit.index(collection, model=model, out=place)
        with open_store(str(place)) as store:
            vectors.append(store.vectors(sorted(item.id for item in store.all_items("image"))))
            assert is_ensemble(next((place / "exported").glob("[!.]*")))
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-4)


@pytest.mark.slow
def test_another_member_in_its_place_is_refused(copied: Path, tmp_path: Path) -> None:
    export_onnx(write_run(tmp_path / "other", seed=50), tmp_path / "other-onnx")
    shutil.rmtree(copied / "1")
    shutil.copytree(tmp_path / "other-onnx" / "1", copied / "1")
    with pytest.raises(UserError, match="belongs to another model"):
        open_ensemble(copied)


def test_members_that_changed_places_are_refused(copied: Path) -> None:
    for old, new in (("0", "x"), ("1", "0"), ("x", "1")):
        (copied / old).rename(copied / new)
    with pytest.raises(UserError, match="belongs to another model"):
        load_search_model(copied)


def test_what_is_missing_or_damaged_is_named(copied: Path) -> None:
    graph = copied / "1" / "image.onnx"
    graph.write_bytes(graph.read_bytes()[:-1] + b"\0")
    with pytest.raises(UserError, match=r"image\.onnx"):
        open_ensemble(copied).check()
    shutil.rmtree(copied / "1")
    with pytest.raises(UserError, match=r"1/config\.json.*missing|missing"):
        open_ensemble(copied)
    (copied / "config.json").write_text((copied / "config.json").read_text().replace('"dim": 24', '"dim": 25'))
    with pytest.raises(UserError, match="damaged"):
        open_ensemble(copied)


@pytest.mark.parametrize("members", [[], ["../0"], ["0", "0"], ["7"]])
def test_a_config_written_by_hand_is_refused(copied: Path, members: list[str]) -> None:
    config = json.loads((copied / "config.json").read_text())
    config.pop("sha256")
    (copied / "config.json").write_text(json.dumps(config | {"members": members}))
    with pytest.raises(UserError, match="not an exported ensemble"):
        open_ensemble(copied)


@pytest.mark.slow
def test_an_export_is_replaced_by_one_of_fewer_members_or_of_one(copied: Path, tmp_path: Path) -> None:
    export_onnx(write_run(tmp_path / "one", count=1), copied)
    assert sorted(path.name for path in copied.iterdir()) == ["0", "README.md", "config.json"]
    assert len(open_ensemble(copied).members) == 1
    export_onnx(tmp_path / "one" / "members" / "0", copied)
    assert not (copied / "0").exists()
    open_exported(copied).check()


def test_other_things_in_the_folder_stay_and_stop_the_export(ensemble: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="other things"):
        export_onnx(ensemble, tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_what_works_on_one_model_says_so_of_several(ensemble: Path, made: Path) -> None:
    with pytest.raises(UserError, match="several exported models") as told:
        open_exported(made)
    assert "open_ensemble" in str(told.value.remedy)
    with pytest.raises(UserError, match="32 bits"):
        read_source(ensemble)
