from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tests.models.conftest import GRU, VIEW, WORDS, settings

from vsekit.data.text import Ragged
from vsekit.features.texts import TextStates
from vsekit.models.model import VSE, load_model
from vsekit.models.settings import TextTowerSettings
from vsekit.models.token_bag import TokenBag


def bag(**changes: float) -> TokenBag:
    torch.manual_seed(0)
    return TokenBag(**{"vocabulary": 12, "size": 3, "dim": 4, "dropout": 0.0, "spread": 0.5} | changes)  # type: ignore[arg-type]


def test_the_most_frequent_words_get_a_vector_and_specials_none() -> None:
    made = bag()
    made.choose(np.array([0, 0, 0, 0, 1, 1, 1, 5, 5, 5, 7, 7, 9, 4, 4]), specials=frozenset({0, 1}))
    # Three words: 5 was seen three times, 4 and 7 twice, 9 once.
    assert made.rows.nonzero().flatten().tolist() == [4, 5, 7]
    assert sorted(made.rows[[4, 5, 7]].tolist()) == [1, 2, 3]


def test_fewer_words_than_vectors_leave_the_rest_without_one() -> None:
    made = bag()
    made.choose(np.array([6, 6, 2]), frozenset())
    assert made.rows.nonzero().flatten().tolist() == [2, 6]


def test_a_sentence_is_the_mean_of_its_known_words_whatever_pads_it() -> None:
    made = bag().eval()
    made.choose(np.array([5, 5, 7, 4]), frozenset())
    with torch.no_grad():
        found = made(torch.tensor([[5, 9, 7, 5], [4, 5, 5, 5], [9, 5, 5, 5]]), torch.tensor([3, 1, 1]))
        e = {word: made.vectors.weight[int(made.rows[word])] for word in (5, 7, 4)}
    torch.testing.assert_close(found, torch.stack([(e[5] + e[7]) / 2, e[4], torch.zeros(4)]))


def test_words_are_left_out_in_training_alone() -> None:
    made = bag(dropout=0.5)
    made.choose(np.array([5]), frozenset())
    ids, lengths = torch.full((4000, 1), 5), torch.ones(4000, dtype=torch.int64)
    kept = made(ids, lengths).abs().sum(1) > 0
    assert abs(float(kept.float().mean()) - 0.5) < 0.05  # six standard deviations
    assert bool((made.eval()(ids, lengths).abs().sum(1) > 0).all())


@pytest.fixture
def model() -> VSE:
    torch.manual_seed(0)
    made = VSE(settings(text={"words": {"size": 4, "dim": 3, "dropout": 0.0}}), WORDS, VIEW)
    assert made.text.words is not None
    made.text.words.choose(np.array([4, 4, 5, 6]), WORDS.special_ids)
    return made.eval()


def test_a_saved_model_has_the_same_words_when_loaded(model: VSE, tmp_path: Path) -> None:
    tokens = Ragged.of([np.array([1, 4, 6, 2], np.int32), np.array([1, 7, 2], np.int32)]).batch([0, 1])
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    assert torch.equal(loaded.text(tokens), model.text(tokens))
    assert loaded.fingerprint() == model.fingerprint()


def test_the_words_are_read_where_the_states_were_made_before(model: VSE) -> None:
    tokens = Ragged.of([np.array(ids, np.int32) for ids in ([1, 4, 6, 2], [1, 5, 2])])
    sets = model.text.encoder(tokens.batch([0, 1]))
    states = torch.cat([vectors[real] for vectors, real in zip(*sets)]).detach().numpy()
    stored = TextStates(states, tokens.offsets, tokens)
    torch.testing.assert_close(model.text(stored.batch([1, 0])), model.text(tokens.batch([1, 0])))
    other = TextStates(states, tokens.offsets, Ragged(tokens.flat[::-1].copy(), tokens.offsets))
    assert not torch.allclose(model.text(other.batch([0, 1])), model.text(tokens.batch([0, 1])))


def test_words_need_one_pooled_vector_to_stand_beside() -> None:
    for change in ({"pooling": "none"}, {"average_views": "after_head"}):
        with pytest.raises(ValidationError, match="words stand beside one pooled vector"):
            TextTowerSettings.model_validate({"encoder": GRU, "pooling": "last", "words": {}} | change)


def test_a_model_without_words_is_written_as_it_was_before_there_were_any() -> None:
    written = settings().model_dump(mode="json")
    assert "words" not in written["text"]
    assert settings(text={"words": {"size": 7}}).model_dump(mode="json")["text"]["words"]["size"] == 7
