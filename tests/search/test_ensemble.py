"""Several models in one index: found in the order in which evaluation ranks their average."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.conftest import VIEW, WORDS, settings

import vsekit
from vsekit.data.readers import read
from vsekit.evaluation.meeting import score_runs
from vsekit.models.model import VSE
from vsekit.models.querybank import Querybank
from vsekit.search.models import is_model, load_search_model
from vsekit.search.searcher import Searcher
from vsekit.search.stores import open_store

TEXTS = ["a man", "a dog runs", "the man runs", "a dog", "the dog"]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three members with views of their own; one has a querybank, another one of other size, the third none."""
    for seed, bank in enumerate((9, 5, 0)):
        torch.manual_seed(seed)
        view = VIEW.model_copy(update={"kind": "10C"}) if seed == 1 else VIEW
        model = VSE(settings(), WORDS, view)
        if bank:
            model.querybank = Querybank(torch.randn(bank, 12), torch.randn(bank, 12), 0.1, 0.7)
        model.save(tmp_path / "run" / "members" / str(seed))
    members = {"members": [f"members/{seed}" for seed in range(3)]}
    (tmp_path / "run" / "ensemble.json").write_text(json.dumps(members))
    return tmp_path / "run"


@pytest.fixture
def collection(picture: Callable[..., Path], tmp_path: Path) -> Path:
    rows = [f"{picture(f'{i}.png', seed=i)},{text}" for i, text in enumerate(TEXTS)]
    (tmp_path / "collection.csv").write_text("\n".join(["image,caption", *rows]) + "\n")
    return tmp_path / "collection.csv"


@pytest.mark.slow
def test_an_index_of_an_ensemble_scores_as_evaluation_averages(run: Path, collection: Path, tmp_path: Path) -> None:
    """But for what the query itself owes, which is the same for all pictures."""
    place = tmp_path / "index"
    assert is_model(run / "ensemble.json")
    vsekit.index(collection, model=run / "ensemble.json", out=place)
    pairs = read(collection)
    truth = score_runs([run], pairs).block(slice(None), slice(None)).numpy()
    names = [Path(picture.path).stem if picture.path else "" for picture in pairs.pictures]
    with open_store(str(place)) as store:
        searcher = Searcher(store, load_search_model(run / "ensemble.json"))
        for column, text in enumerate(TEXTS):
            asked = np.stack([searcher.model.encode_texts([text])[0]])
            items = {Path(item.path).stem: item.id for item in store.all_items("image")}
            kept = store.vectors([items[name] for name in names])
            dim = searcher.model.dim
            scores = kept[:, :dim] @ asked[0] + kept[:, dim]
            difference = scores - truth[:, column]
            assert np.ptp(difference) < 1e-5
            assert np.argsort(-scores).tolist() == np.argsort(-truth[:, column]).tolist()
            query = np.zeros((1, store.dim), np.float32)
            query[0, :dim], query[0, dim] = asked[0], 1.0
            (found,) = store.search(query, 5, kind="image")
            assert found.ids == [items[names[i]] for i in np.argsort(-truth[:, column])]


def test_pictures_and_sentences_have_unit_length(run: Path, picture: Callable[..., Path]) -> None:
    model = load_search_model(run / "ensemble.json")
    vectors = np.concatenate([model.encode_images([picture("a.png")]), model.encode_texts(["a dog"])])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-6)
    assert model.dim == 36


def test_what_items_owe_is_the_mean_of_what_they_owe_to_each_bank(run: Path) -> None:
    """The members' vectors stand side by side, each shortened so that the whole has unit length."""
    model = load_search_model(run / "ensemble.json")
    members = [load_search_model(run / "members" / str(seed)) for seed in range(3)]
    vectors = np.random.default_rng(0).normal(size=(4, 36)).astype(np.float32)
    assert model.bank is not None
    owed = model.bank.owed(vectors, "image")
    parts = [vectors[:, 12 * i : 12 * (i + 1)] * np.sqrt(3) for i in range(3)]
    banks = [member.bank for member in members]
    assert banks[2] is None
    expected = sum(bank.owed(part, "image") for bank, part in zip(banks, parts) if bank is not None) / 3
    assert owed == pytest.approx(expected, abs=1e-5)
    assert owed.dtype == np.float32
