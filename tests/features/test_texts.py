from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from vsekit.data.text import Ragged
from vsekit.encoders.base import TextEncoder
from vsekit.errors import UserError
from vsekit.features.texts import extract_texts
from vsekit.parts import Sets, Tokens


class Counting(TextEncoder):
    """A state of two numbers a token: the id, and its place; counts the sentences it read."""

    dim, state_a_token = 2, True

    def __init__(self, weight: float = 1.0, stop_after: int = 1_000_000) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(weight))
        self.read, self.stop_after = 0, stop_after

    def forward(self, tokens: Tokens) -> Sets:
        if self.read >= self.stop_after:
            raise KeyboardInterrupt
        self.read += len(tokens.ids)
        places = torch.arange(tokens.ids.shape[1])
        vectors = torch.stack([tokens.ids * self.weight, places.expand(tokens.ids.shape)], 2).float()
        return Sets(vectors, places < tokens.lengths[:, None])


@pytest.fixture
def tokens() -> Ragged:
    rng = np.random.default_rng(0)
    return Ragged.of([rng.integers(1, 90, size=rng.integers(1, 12)).astype(np.int32) for _ in range(50)])


def test_a_batch_is_what_the_encoder_would_give(tokens: Ragged, tmp_path: Path) -> None:
    stored = extract_texts(Counting(), tokens, tmp_path, batch_size=8)
    for chosen in ([3, 0, 49], [7], list(range(50))):
        got, expected = stored.batch(chosen), Counting()(tokens.batch(chosen))
        torch.testing.assert_close(got.vectors, expected.vectors * expected.mask[..., None])
        assert (got.mask == expected.mask).all()
    assert (stored.lengths == tokens.lengths).all()


def test_a_second_call_reads_nothing_and_a_stopped_one_goes_on(
    tokens: Ragged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vsekit.features.writer.FLUSH_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        extract_texts(Counting(stop_after=24), tokens, tmp_path / "stopped", batch_size=8)
    rest, again = Counting(), Counting()
    stored = extract_texts(rest, tokens, tmp_path / "stopped", batch_size=8)
    assert rest.read == 50 - 24
    whole = extract_texts(Counting(), tokens, tmp_path / "whole", batch_size=8)
    assert (np.asarray(stored.states) == np.asarray(whole.states)).all()
    extract_texts(again, tokens, tmp_path / "stopped", batch_size=8)
    assert again.read == 0


def test_states_of_another_encoder_are_refused(tokens: Ragged, tmp_path: Path) -> None:
    extract_texts(Counting(), tokens, tmp_path)
    with pytest.raises(UserError, match="another encoder"):
        extract_texts(Counting(2.0), tokens, tmp_path)
