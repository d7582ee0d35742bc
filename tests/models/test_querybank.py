from __future__ import annotations

from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tests.training.conftest import TINY, write_precomputed

from vsekit.data.readers import read
from vsekit.errors import UserError
from vsekit.evaluation.meeting import embedded, model_scorer, score_runs
from vsekit.evaluation.scorers import InnerProduct, Less
from vsekit.files import write_tensors
from vsekit.models.model import load_model
from vsekit.models.querybank import FILE, Querybank, QuerybankSettings, fitted, hubness
from vsekit.parts import merged
from vsekit.similarity.cosine import Cosine
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

EVERYTHING = slice(None)


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    return write_precomputed(tmp_path / "data")


def settings(**bank: object) -> RunSettings:
    return RunSettings.model_validate(merged(TINY, {"querybank": bank}))


def test_hubness_is_the_soft_maximum_less_the_size_of_the_bank() -> None:
    scores = torch.tensor([[0.1, 0.5, -0.2], [0.3, 0.3, 0.3]])
    by_hand = [0.2 * log(sum(exp(s / 0.2) for s in row) / 3) for row in scores.tolist()]
    assert hubness(scores, 0.2).tolist() == pytest.approx(by_hand)
    assert by_hand[1] == pytest.approx(0.3)


def test_a_hub_no_longer_comes_first() -> None:
    # Picture 0 lies between all sentences, and is nearest to that of picture 1 too.
    images, captions = torch.tensor([[0.9, 0.9], [0.2, 0.8], [0.8, 0.0]]), torch.tensor([[0.0, 1.0]])
    scores, bank = InnerProduct(images, captions), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    assert scores.block(EVERYTHING, EVERYTHING).argmax() == 0
    corrected = Less(scores, hubness(images @ bank.T, 0.1), torch.zeros(1))
    assert corrected.block(EVERYTHING, EVERYTHING).argmax() == 1
    assert corrected.block(np.array([2, 1]), slice(0, 1)).tolist() == (
        corrected.block(EVERYTHING, EVERYTHING)[[2, 1]].tolist()
    )


def test_a_trained_model_keeps_its_bank_and_scores_with_it(collection: Path, tmp_path: Path) -> None:
    pairs = read(collection)
    train(settings(temperature=0.1, weight=0.5), pairs, tmp_path / "run")
    model, test = load_model(tmp_path / "run"), pairs.split("test")
    bank = model.querybank
    assert bank is not None
    of_train = embedded(model, pairs.split("train"))
    torch.testing.assert_close(bank.images, of_train[0], atol=1e-3, rtol=0)
    torch.testing.assert_close(bank.captions, of_train[1], atol=1e-3, rtol=0)

    images, captions = embedded(model, test)
    expected = images @ captions.T
    for i, image in enumerate(images):
        expected[i] -= 0.5 * 0.1 * torch.log(torch.exp(bank.captions @ image / 0.1).mean())
    for c, caption in enumerate(captions):
        expected[:, c] -= 0.5 * 0.1 * torch.log(torch.exp(bank.images @ caption / 0.1).mean())
    corrected = score_runs([tmp_path / "run"], test).block(EVERYTHING, EVERYTHING)
    torch.testing.assert_close(corrected, expected, atol=2e-4, rtol=0)  # the bank is rounded to half precision
    plain = score_runs([tmp_path / "run"], test, plain=True).block(EVERYTHING, EVERYTHING)
    torch.testing.assert_close(plain, images @ captions.T)


def around(centres: torch.Tensor, n: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randint(len(centres), (n,), generator=generator)
    return centres[chosen] + 0.3 * torch.randn(n, centres.shape[1], generator=generator)


def test_a_fitted_bank_says_of_new_items_what_the_whole_one_says() -> None:
    # Subjects that are named often are near to many sentences, and so are pictures of them.
    centres = torch.randn(12, 16, generator=torch.Generator().manual_seed(0)).repeat_interleave(torch.arange(1, 13), 0)
    whole = Querybank(around(centres, 1000, 1), around(centres, 1200, 2), 0.1, 0.7)
    few = fitted(whole, 24, Cosine())
    assert (len(few.images), len(few.captions), few.temperature, few.weight) == (24, 24, 0.1, 0.7)
    items, cosine = around(centres, 300, 3), Cosine()
    for ours, theirs in (
        (cosine(items, few.captions), cosine(items, whole.captions)),
        (cosine(few.images, items).T, cosine(whole.images, items).T),
    ):
        of_few, of_all = hubness(ours, 0.1), hubness(theirs, 0.1)
        assert (of_few - of_all).var() < 0.3 * of_all.var()
        by_chance = hubness(theirs[:, :24], 0.1)
        assert (of_few - of_all).var() < 0.05 * (by_chance - of_all).var()


def test_a_bank_in_few_directions_says_more_with_as_many_numbers(tmp_path: Path) -> None:
    # Subjects in 4 of 32 dimensions, and a little of all others.
    generator = torch.Generator().manual_seed(0)
    span = torch.randn(4, 32, generator=generator)
    centres = (torch.randn(12, 4, generator=generator) @ span).repeat_interleave(torch.arange(1, 13), 0)
    whole = Querybank(around(centres, 1000, 1), around(centres, 1200, 2), 0.1, 0.7)
    items, cosine = around(centres, 300, 3), Cosine()
    told = hubness(cosine(items, whole.captions), 0.1)
    errors = {}
    for count, rank in ((8, None), (64, 4)):  # as many numbers: 8 · 32 and 64 · 4
        few = fitted(whole, count, cosine, rank)
        errors[rank] = float((hubness(cosine(items, few.captions), 0.1) - told).var())
    assert errors[4] < 0.5 * errors[None]
    assert few.directions is not None
    assert torch.allclose(few.directions @ few.directions.T, torch.eye(4), atol=1e-5)
    for side in (few.images, few.captions):
        assert torch.allclose(side @ few.directions.T @ few.directions, side, atol=1e-4)
    few.save(tmp_path)
    with safe_open(tmp_path / FILE, "pt") as file:
        assert file.get_tensor("captions").shape == (64, 4)  # every 19th of 1,200
    read_again = Querybank.load(tmp_path)
    assert read_again is not None
    assert torch.allclose(read_again.captions, few.captions, atol=0.05)
    assert read_again.fitted
    read_again.save(tmp_path)  # with other weights, or by an export: as small as before, and the same but for rounding
    with safe_open(tmp_path / FILE, "pt") as file:
        assert file.get_tensor("captions").shape == (64, 4)
    once_more = Querybank.load(tmp_path)
    assert once_more is not None
    assert torch.allclose(read_again.captions, once_more.captions, atol=0.05)


def test_fitted_to_further_items_a_bank_says_more_of_new_ones() -> None:
    centres = torch.randn(60, 32, generator=torch.Generator().manual_seed(0))
    whole = Querybank(around(centres, 80, 1), around(centres, 80, 2), 0.1, 0.7)
    further, items, cosine = (around(centres, 600, 3), around(centres, 600, 4)), around(centres, 300, 5), Cosine()
    told = hubness(cosine(items, whole.captions), 0.1)
    by_few, by_more = (
        float((hubness(cosine(items, fitted(whole, 40, cosine, None, more).captions), 0.1) - told).var())
        for more in (None, further)
    )
    assert by_more < 0.7 * by_few


def test_a_bank_is_fitted_to_its_own_items_and_others() -> None:
    few = QuerybankSettings(size=10)
    items = few.items(1000).tolist()
    assert items[:10] == few.sample(1000).tolist()
    assert len(set(items)) == len(items) == 30
    assert QuerybankSettings(size=10).items(7).tolist() == list(range(7))


def test_directions_are_at_most_as_many_as_there_are_dimensions() -> None:
    bank = Querybank(torch.randn(40, 6), torch.randn(40, 6), 0.1, 0.7)
    few = fitted(bank, 8, Cosine(), rank=100)
    assert few.directions is not None
    assert few.directions.shape == (6, 6)


def test_a_run_keeps_what_is_fitted_where_it_was_told_to(collection: Path, tmp_path: Path) -> None:
    train(settings(fitted=5), read(collection), tmp_path / "run")
    bank = load_model(tmp_path / "run").querybank
    assert bank is not None
    assert bank.fitted
    assert len(bank.images) == len(bank.captions) <= 5
    train(settings(fitted=10_000), read(collection), tmp_path / "whole")
    bank = load_model(tmp_path / "whole").querybank
    assert bank is not None
    assert not bank.fitted


def test_what_else_is_searched_changes_no_score(collection: Path, tmp_path: Path) -> None:
    train(settings(size=16), read(collection), tmp_path / "run")
    model = load_model(tmp_path / "run")
    assert model.querybank is not None
    assert len(model.querybank.images) == len(model.querybank.captions) == 16
    images, captions = embedded(model, read(collection).split("test"))
    whole = model_scorer(model, images, captions).block(slice(0, 3), slice(0, 5)).clone()
    torch.testing.assert_close(model_scorer(model, images[:3], captions[:5]).block(EVERYTHING, EVERYTHING), whole)


def test_other_weights_in_the_folder_end_the_bank(tmp_path: Path, collection: Path) -> None:
    train(settings(), read(collection), tmp_path / "run")
    model, folder = load_model(tmp_path / "run"), tmp_path / "run" / "model"
    model.save(tmp_path / "copy")
    copied, kept = Querybank.load(tmp_path / "copy"), model.querybank
    assert copied is not None
    assert kept is not None
    assert torch.equal(copied.images, kept.images)
    model.querybank = None
    model.save(folder)
    assert load_model(folder).querybank is None


def test_the_same_bank_is_the_same_bytes(tmp_path: Path) -> None:
    bank = Querybank(torch.ones(2, 3), torch.zeros(2, 3), 0.05, 0.7)
    for name in range(8):
        (tmp_path / str(name)).mkdir()
        bank.save(tmp_path / str(name))
    assert len({(tmp_path / str(name) / FILE).read_bytes() for name in range(8)}) == 1


def test_a_broken_bank_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no bank")
    with pytest.raises(UserError, match="not a querybank"):
        Querybank.load(tmp_path)


def test_directions_that_do_not_fit_are_told(tmp_path: Path) -> None:
    write_tensors(
        tmp_path / FILE,
        {"images": torch.ones(3, 4), "captions": torch.ones(3, 4), "directions": torch.ones(5, 8)},
        {"numbers": '{"temperature": 0.05, "weight": 0.7, "fitted": true}'},
    )
    with pytest.raises(UserError, match="not a querybank"):
        Querybank.load(tmp_path)


def test_a_rank_without_fitted_vectors_is_refused() -> None:
    with pytest.raises(ValueError, match="rank is of fitted vectors"):
        QuerybankSettings(rank=8)


def test_the_sample_is_the_same_every_time_and_has_no_more_than_there_are() -> None:
    few = QuerybankSettings(size=10)
    assert few.sample(1000).tolist() == few.sample(1000).tolist() == sorted(set(few.sample(1000).tolist()))
    assert len(few.sample(1000)) == 10
    assert few.sample(7).tolist() == list(range(7))


def test_a_bank_for_sets_is_refused() -> None:
    on_sets = {"similarity": "scan", "image": {"pooling": "none"}, "text": {"pooling": "none"}}
    with pytest.raises(ValueError, match="compares sets"):
        RunSettings.model_validate(merged(TINY, {"model": on_sets, "querybank": {}}))
    with pytest.raises(ValueError, match="compares sets"):
        RunSettings.model_validate(merged(TINY, {"stages": {"second": {"model": on_sets}}, "querybank": {}}))
