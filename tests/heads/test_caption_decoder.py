from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from vsekit.encoders.base import Tokens
from vsekit.heads import CaptionDecoder, CaptionDecoderSettings

SIZES, LENGTHS = [4, 1, 3], [3, 5, 2]


def decoder() -> CaptionDecoder:
    torch.manual_seed(0)
    return CaptionDecoderSettings(hidden=6, word_dim=5, dropout=0.0).build(4, 11).double()


def batch(length: int = 4, steps: int = 5, padding: float = math.nan, pad_id: int = 0) -> tuple[Tensor, Tensor, Tokens]:
    generator = torch.Generator().manual_seed(1)
    regions = torch.full((3, length, 4), padding, dtype=torch.float64)
    ids = torch.full((3, steps), pad_id)
    for b in range(3):
        regions[b, : SIZES[b]] = torch.randn(SIZES[b], 4, generator=generator, dtype=torch.float64)
        ids[b, : LENGTHS[b]] = torch.randint(1, 11, (LENGTHS[b],), generator=generator)
    mask = torch.arange(length) < torch.tensor(SIZES)[:, None]
    return regions, mask, Tokens(ids, torch.tensor(LENGTHS))


def said(model: CaptionDecoder, regions: Tensor, ids: Tensor) -> Tensor:
    """−log p of one caption from one image, word by word."""
    encoded, last = model.encoder(model.project(regions)[None])
    state, loss = last[0, 0], torch.zeros((), dtype=torch.float64)
    for before, word in pairwise(ids):
        logits = [
            model.attend((model.attend_region(e) + model.attend_state(state)).tanh()).squeeze() for e in encoded[0]
        ]
        weights = torch.softmax(torch.stack(logits), 0)
        context = sum(w * e for w, e in zip(weights, encoded[0]))
        state = model.decoder(torch.cat([model.words(before), context])[None], state[None])[0]
        loss = loss - torch.log_softmax(model.out(state), 0)[word]
    return loss


def test_it_is_the_negative_log_likelihood_word_by_word_over_the_batch() -> None:
    model, (regions, mask, tokens) = decoder(), batch()
    each = [said(model, regions[b, : SIZES[b]], tokens.ids[b, : LENGTHS[b]]) for b in range(3)]
    torch.testing.assert_close(model(regions, mask, tokens), sum(each) / 3)


def test_a_trailing_pad_is_one_more_word_of_every_caption() -> None:
    model, (regions, mask, tokens) = decoder(), batch(pad_id=7)
    model.trailing_pad = True
    each = []
    for b in range(3):
        caption = torch.cat([tokens.ids[b, : LENGTHS[b]], torch.tensor([0])])
        each.append(said(model, regions[b, : SIZES[b]], caption))
    torch.testing.assert_close(model(regions, mask, tokens), sum(each) / 3)
    assert CaptionDecoderSettings(trailing_pad=True).build(4, 11).trailing_pad
    assert not CaptionDecoderSettings().build(4, 11).trailing_pad


def test_neither_padded_regions_nor_padded_words_matter_in_value_or_gradient() -> None:
    model = decoder()
    results = []
    for regions, mask, tokens in (batch(), batch(length=9, steps=8, padding=1e6, pad_id=7)):
        loss = model(regions.requires_grad_(), mask, tokens)
        results.append([loss, *torch.autograd.grad(loss, [*model.parameters()])])
        assert torch.autograd.grad(model(regions, mask, tokens), regions)[0].isfinite().all()
    for tight, padded in zip(*results):
        torch.testing.assert_close(padded, tight)


def test_gradients_by_the_regions_are_those_of_finite_differences() -> None:
    model, (regions, mask, tokens) = decoder(), batch(padding=0.5)
    assert torch.autograd.gradcheck(lambda r: model(r, mask, tokens), regions.requires_grad_())


def test_captions_of_one_token_have_nothing_to_predict() -> None:
    model, (regions, mask, tokens) = decoder(), batch()
    for ids in (tokens.ids, tokens.ids[:, :1]):
        loss = model(regions, mask, Tokens(ids, torch.ones(3, dtype=torch.int64)))
        assert loss == 0
        loss.backward()


def test_a_batch_of_one_image_with_one_region_learns_its_caption() -> None:
    model, (regions, mask, tokens) = decoder(), batch()
    one = (regions[1:2], mask[1:2], Tokens(tokens.ids[1:2], tokens.lengths[1:2]))
    optimiser = torch.optim.Adam(model.parameters(), 0.03)
    before = model(*one).item()
    for _ in range(60):
        optimiser.zero_grad()
        model(*one).backward()
        optimiser.step()
    assert model(*one).item() < 0.1 * before
