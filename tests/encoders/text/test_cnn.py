from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from vsekit.data.text import Vocabulary
from vsekit.encoders.base import Tokens
from vsekit.encoders.text.cnn import Bottleneck, TextCNN, TextCNNSettings, to_slots

VOCABULARY = Vocabulary(list("abcdef"))
BATCH = Tokens(torch.tensor([[1, 4, 3, 5, 6, 2], [1, 7, 2, 4, 4, 9]]), torch.tensor([6, 3]))


def build(**settings: object) -> TextCNN:
    torch.manual_seed(0)
    options = {"word_dim": 6, "dim": 32, "slots": 16, **settings}
    encoder = TextCNNSettings.model_validate(options).build(VOCABULARY)
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm1d):  # statistics other than those at the start
            module.running_mean.uniform_(-0.1, 0.1)
            module.running_var.uniform_(0.5, 2)
    return encoder.eval()


def test_known_words_stand_side_by_side_from_the_start_and_the_rest_is_cut() -> None:
    ids = torch.tensor([[1, 4, 3, 5, 6, 2], [1, 7, 2, 4, 4, 9]])
    known = torch.tensor([[0, 1, 0, 1, 1, 0], [0, 1, 0, 0, 0, 0]]).bool()
    assert to_slots(ids, known, torch.tensor([1, 3]), 4).tolist() == [[0, 4, 5, 6], [0, 0, 0, 7]]
    assert to_slots(ids, known, torch.tensor([0, 0]), 2).tolist() == [[4, 5], [7, 0]]


def test_a_block_sees_its_place_and_the_one_to_the_left() -> None:
    block = Bottleneck(4, 8, stride=1).eval()
    for weight in block.parameters():
        weight.data.abs_()  # and positive input, so that no ReLU hides a change
    x = torch.rand(1, 4, 6)
    changed = x.clone()
    changed[:, :, 2] += 1
    differs = (block(x) != block(changed)).any(1)[0]
    assert differs.tolist() == [False, False, True, True, False, False]
    assert Bottleneck(4, 8, stride=2)(torch.randn(2, 4, 7)).shape == (2, 8, 4)


@pytest.mark.parametrize(("depth", "layers"), [(14, 13), (50, 49), (152, 151)])
def test_the_depth_is_that_of_the_resnet(depth: int, layers: int) -> None:
    encoder = build(depth=depth)
    convolutions = [m for m in encoder.modules() if isinstance(m, nn.Conv1d)]
    shortcuts = 4  # not counted in a ResNet's name; the lookup table stands for its first layer, the classifier is gone
    assert len(convolutions) - shortcuts + 1 == layers


def test_the_channels_are_the_papers() -> None:
    with torch.device("meta"):
        encoder = TextCNNSettings().build(Vocabulary([]))
    widths = [b.residual[-1].num_features for b in encoder.layers if isinstance(b, Bottleneck)]
    assert widths == [256] * 3 + [512] * 4 + [1024] * 6 + [2048] * 3


@pytest.mark.parametrize("settings", [{}, {"output": "slots"}])
def test_padding_and_company_do_not_matter(settings: dict[str, object]) -> None:
    encoder = build(**settings)
    vectors, mask = encoder(BATCH)
    assert mask.all()
    for i, length in enumerate((6, 3)):
        alone = encoder(Tokens(BATCH.ids[i : i + 1, :length], BATCH.lengths[i : i + 1])).vectors
        torch.testing.assert_close(vectors[i], alone[0], atol=1e-6, rtol=1e-5)


def test_pooled_is_the_mean_of_the_slots() -> None:
    grid = build(output="slots")(BATCH).vectors
    assert grid.shape == (2, 2, 32)
    torch.testing.assert_close(build()(BATCH).vectors, grid.mean(1, keepdim=True))


def test_every_position_is_a_view_and_longer_sentences_have_fewer() -> None:
    encoder = build(average_positions=True)
    vectors, mask = encoder(BATCH)
    assert mask.tolist() == [[[start <= 13] for start in range(16)], [[True]] * 16]  # three words, and one, in 16 slots
    for row, words in enumerate(([4, 5, 6], [7])):
        for start in range(16 - len(words) + 1):
            placed = torch.zeros(1, 16, dtype=torch.long)
            placed[0, start : start + len(words)] = torch.tensor(words)
            embedded = encoder.words(placed) * (placed > 0)[..., None]
            alone = encoder.layers(embedded.transpose(1, 2)).mean(2)
            torch.testing.assert_close(vectors[row, start], alone, atol=1e-6, rtol=1e-5)


def test_training_shifts_every_sentence_over_all_its_positions_and_repeats_with_the_seed() -> None:
    encoder = build(slots=16)
    encoder.train()
    seen: list[torch.Tensor] = []
    encoder._grid = lambda ids, known, starts: (seen.append(starts), torch.zeros(2, 2, 32))[1]  # type: ignore
    for _ in range(300):
        encoder(BATCH)
    starts = torch.stack(seen)
    assert sorted(set(starts[:, 0].tolist())) == list(range(14))  # three words in 16 slots
    assert sorted(set(starts[:, 1].tolist())) == list(range(16))  # one word
    torch.manual_seed(5)
    encoder(BATCH)
    torch.manual_seed(5)
    encoder(BATCH)
    assert torch.equal(seen[-1], seen[-2])


def test_left_alignment_and_evaluation_start_at_the_first_slot() -> None:
    torch.testing.assert_close(build(position="left")(BATCH).vectors, build(position="shift")(BATCH).vectors)
    left = build(position="left").train()
    torch.testing.assert_close(left(BATCH).vectors, left(BATCH).vectors)


def test_sentences_longer_than_the_slots_and_without_known_words_have_a_vector() -> None:
    encoder = build(average_positions=True)
    long = Tokens(torch.randint(4, 10, (1, 40)), torch.tensor([40]))
    torch.testing.assert_close(encoder(long).vectors, encoder(Tokens(long.ids[:, :16], torch.tensor([16]))).vectors)
    assert encoder(Tokens(torch.tensor([[1, 3, 2]]), torch.tensor([3]))).vectors.isfinite().all()


def test_a_batch_of_one_trains() -> None:
    encoder = build().train()
    encoder(Tokens(BATCH.ids[:1], BATCH.lengths[:1])).vectors.sum().backward()
    assert encoder.words.weight.grad is not None
    assert encoder.words.weight.grad[[4, 5, 6]].abs().sum() > 0
    assert encoder.words.weight.grad[:4].abs().sum() == 0


def test_averaging_of_slots_is_refused() -> None:
    with pytest.raises(ValidationError, match="average_positions needs output: pooled"):
        TextCNNSettings(average_positions=True, output="slots")


def test_a_shortcut_of_means_passes_on_the_mean_of_two_neighbours_and_the_last_one_alone() -> None:
    block = Bottleneck(4, 8, stride=2, mean=True).eval()
    nn.init.zeros_(block.residual[-1].weight)
    x = torch.randn(3, 4, 7)
    means = torch.stack([x[:, :, 0:2].mean(2), x[:, :, 2:4].mean(2), x[:, :, 4:6].mean(2), x[:, :, 6]], 2)
    norm, weight = block.shortcut[2], block.shortcut[1].weight[:, :, 0]
    expected = torch.relu(torch.einsum("oc,bcl->bol", weight, means) / (norm.running_var[:, None] + norm.eps).sqrt())
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize(("shortcuts", "seen"), [("strided", [0, 8]), ("mean", list(range(16)))])
def test_blocks_that_add_nothing_see_what_the_shortcuts_pass_on(shortcuts: str, seen: list[int]) -> None:
    encoder = build(shortcuts=shortcuts, blocks="identity")
    for name, weight in encoder.layers.named_parameters():
        if "shortcut" in name:
            weight.data.abs_()  # so that no ReLU hides a change
    x = torch.rand(1, 6, 16)
    told = []
    for place in range(16):
        changed = x.clone()
        changed[:, :, place] += 1
        told += [place] * bool((encoder.layers(x) != encoder.layers(changed)).any())
    assert told == seen
