from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.conftest import VIEW, WORDS, settings

import vsekit
from vsekit.data.readers import read
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.models.model import VSE
from vsekit.models.querybank import Querybank
from vsekit.search.hubs import EXTRA, Bank, plain
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel, load_search_model
from vsekit.search.searcher import Searcher
from vsekit.search.stores import open_store

TEXTS = ["a man", "a dog runs", "the man runs", "a dog", "the dog"]


def banked(weight: float = 0.7) -> VSE:
    torch.manual_seed(0)
    vse = VSE(settings(), WORDS, VIEW)
    vse.querybank = Querybank(torch.randn(9, 12), torch.randn(7, 12), 0.05, weight)
    return vse.eval()


@pytest.fixture
def collection(picture: Callable[..., Path], tmp_path: Path) -> Path:
    lines = ["image,caption"]
    for i, text in enumerate(TEXTS):
        picture(f"{i}.png", seed=i)
        lines.append(f"photos/{i}.png,{text}")
    (tmp_path / "collection.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "collection.csv"


def found(searcher: Searcher, query: Any, kind: Any = "image") -> dict[str, float]:
    """Scores by the file's name."""
    answer = searcher.search(query, top=10, kind=kind) if isinstance(query, str) else query(top=10, kind=kind)
    return {Path(hit.item.path).stem: hit.score for hit in answer.hits}


def test_what_an_item_owes_is_the_soft_maximum_of_its_scores_with_the_bank() -> None:
    rng = np.random.default_rng(0)
    items, images, captions = (rng.normal(size=(n, 4)).astype(np.float32) for n in (3, 5, 6))
    bank = Bank(images, captions, temperature=0.5, weight=0.7)
    for kind, known in (("image", captions), ("caption", images)):
        for item, owed in zip(items, bank.owed(items, kind), strict=True):  # type: ignore[arg-type]
            scores = [sum(float(a) * float(b) for a, b in zip(item, one)) for one in known]
            by_hand = 0.5 * math.log(sum(math.exp(score / 0.5) for score in scores) / len(scores))
            assert owed == pytest.approx(0.7 * by_hand, rel=1e-5)


def test_an_index_scores_as_vse_evaluate_does_with_the_bank_but_for_the_querys_own_part(
    collection: Path, tmp_path: Path
) -> None:
    vse = banked()
    pairs = read(collection)
    sides = embedded(vse, pairs)
    whole = slice(None)
    corrected = model_scorer(vse, *sides).block(whole, whole).numpy()
    model = VSEModel(vse, "tiny")
    with open_store(tmp_path / "index", create=12 + EXTRA) as store:
        index(model, collection, store)
        searcher = Searcher(store, model)
        assert store.dim == 12 + EXTRA
        names = [Path(str(picture.id)).stem for picture in pairs.pictures]
        for c, text in enumerate(TEXTS):
            scores = found(searcher, text)
            ours, theirs = np.array([scores[name] for name in names]), corrected[:, c]
            np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-5)
            assert np.ptp(theirs - ours) < 1e-5  # h of the caption, the same for all pictures
        for i in range(len(names)):
            shown = collection.parent / "photos" / f"{i}.png"
            scores = found(searcher, lambda shown=shown, **asked: searcher.by_picture(shown, **asked), "caption")
            ours, theirs = np.array([scores[name] for name in names]), corrected[i]
            np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-5)


def test_pictures_asked_with_pictures_and_words_with_captions_know_no_hubs(collection: Path, tmp_path: Path) -> None:
    answers = []
    for vse in (banked(), banked(weight=0.0)):
        model = VSEModel(vse, "tiny")
        place = tmp_path / f"index{len(answers)}"
        index(model, collection, place)
        with open_store(place) as store:
            searcher = Searcher(store, model)
            first = next(store.all_items("image")).id
            answers.append(
                (
                    found(searcher, lambda searcher=searcher, first=first, **asked: searcher.like(first, **asked)),
                    found(searcher, "a dog", "caption"),
                )
            )
    for ours, without in zip(*answers):
        assert ours == pytest.approx(without, abs=1e-6)


def test_a_sum_of_words_and_a_picture_is_the_sum_of_their_scores(collection: Path, tmp_path: Path) -> None:
    model = VSEModel(banked(), "tiny")
    index(model, collection, tmp_path / "index")
    with open_store(tmp_path / "index") as store:
        searcher = Searcher(store, model)
        first = next(store.all_items("image"))
        together = found(searcher, f'2*"a man" - 0.5*item:{first.id}')
        words = found(searcher, "a man")
        alike = found(searcher, lambda **asked: searcher.like(first.id, **asked))
        a, b = model.encode_texts(["a man"])[0], plain(store, store.vectors([first.id]))[0]
        length = np.linalg.norm(2 * a - 0.5 * b)
        assert len(together) == len(TEXTS) - 1
        for name, score in together.items():
            assert score == pytest.approx((2 * words[name] - 0.5 * alike[name]) / length, abs=1e-5)


def test_an_index_made_without_the_bank_stays_as_it_is_until_it_is_made_anew(collection: Path, tmp_path: Path) -> None:
    vse, place = banked(), tmp_path / "index"
    before = VSEModel(_without(vse), "tiny")
    index(before, collection, place)
    with open_store(place) as store:
        plainly = found(Searcher(store, before), "a dog")
    model = VSEModel(banked(), "tiny")
    assert model.fingerprint == before.fingerprint
    index(model, collection, place)
    with open_store(place) as store:
        assert store.dim == 12
        assert found(Searcher(store, model), "a dog") == plainly
    index(model, collection, place, rebuild=True)
    with open_store(place) as store:
        assert store.dim == 12 + EXTRA
        assert found(Searcher(store, model), "a dog") != plainly


def _without(vse: VSE) -> VSE:
    vse.querybank = None
    return vse


def test_the_exported_model_makes_the_same_index(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    banked().save(tmp_path / "run" / "model")
    vsekit.index(collection, model=tmp_path / "run", out=tmp_path / "torch")
    (exported,) = (tmp_path / "torch" / "exported").glob("[!.]*")
    index(load_search_model(exported), collection, tmp_path / "onnx")
    with open_store(tmp_path / "torch") as one, open_store(tmp_path / "onnx") as other:
        ids = [item.id for item in one.all_items()]
        assert one.dim == other.dim == 12 + EXTRA
        np.testing.assert_allclose(one.vectors(ids), other.vectors(ids), atol=1e-4)
        assert np.abs(one.vectors(ids)[:, 12]).min() > 1e-3
        assert not one.vectors(ids)[:, 13:].any()


def test_a_score_is_judged_beside_scores_of_its_kind(collection: Path, tmp_path: Path) -> None:
    """A bank that owes all items the same moves all scores alike, and no standing."""
    standings = []
    for weight in (0.0, 0.7):
        vse = banked(weight)
        assert vse.querybank is not None
        vse.querybank = replace(vse.querybank, captions=torch.zeros(3, 12), images=torch.zeros(3, 12))
        model = VSEModel(vse, "tiny")
        index(model, collection, tmp_path / str(weight))
        with open_store(tmp_path / str(weight)) as store:
            answer = Searcher(store, model).search("a man runs")
            standings.append([(hit.item.id, hit.standing, hit.match) for hit in answer.hits])
    assert standings[0] == standings[1]
