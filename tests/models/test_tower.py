"""Where the views of an item meet: as features before the head, or as what the head made of each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from tests.models.conftest import CNN, VIEW, WORDS, settings
from torch import Tensor

from vsekit.encoders.base import Tokens
from vsekit.models.model import VSE
from vsekit.models.tower import mean_of_views
from vsekit.parts import Sets

TOKENS = Tokens(torch.tensor([[1, 4, 5, 2, 0], [1, 4, 6, 7, 2]]), torch.tensor([4, 5]))
HEAD = {"kind": "fc_bn_relu_fc", "hidden": 10, "dropout": 0.0}
TEXT_CNN = {"kind": "text_cnn", "word_dim": 6, "dim": 32, "slots": 16, "average_positions": True}


def dual_path(average_views: str, **change: Any) -> VSE:
    """A small dual-path model; its batch norms have statistics other than those at the start."""
    towers = {"head": HEAD, "pooling": "single", "average_views": average_views, "normalise": False} | change
    torch.manual_seed(0)
    model = VSE(settings(image={"encoder": CNN} | towers, text={"encoder": TEXT_CNN} | towers), WORDS, VIEW)
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.uniform_(-0.3, 0.3)
            module.running_var.uniform_(0.5, 2)
    return model.eval()


def views() -> Tensor:
    torch.manual_seed(1)
    pixels = torch.randn(3, 3, 16, 16)
    return torch.stack([pixels, pixels.flip(-1)], 1)


def test_after_the_head_the_mean_is_over_the_final_features_of_picture_and_mirror_image() -> None:
    model = dual_path("after_head")
    slow = []
    for picture in views():
        each = [model.image.head(model.image.encoder(view[None]).vectors[:, 0])[0] for view in picture]
        slow.append((each[0] + each[1]) / 2)
    torch.testing.assert_close(model.embed_images(views()), torch.stack(slow))


def test_before_the_head_the_mean_is_over_the_cnn_features() -> None:
    model = dual_path("before_head")
    slow = []
    for picture in views():
        each = [model.image.encoder(view[None]).vectors[0, 0] for view in picture]
        slow.append(model.image.head(((each[0] + each[1]) / 2)[None])[0])
    torch.testing.assert_close(model.embed_images(views()), torch.stack(slow))
    after = dual_path("after_head").embed_images(views())
    assert (after - torch.stack(slow)).norm() > 0.01 * after.norm()  # the head is not linear


@pytest.mark.parametrize("average_views", ["before_head", "after_head"])
def test_positions_of_a_sentence_are_averaged_before_or_after_the_head(average_views: str) -> None:
    model = dual_path(average_views)
    slow = []
    for words in ([4, 5], [4, 6, 7]):
        features = []
        for start in range(16 - len(words) + 1):
            placed = torch.zeros(1, 16, dtype=torch.long)
            placed[0, start : start + len(words)] = torch.tensor(words)
            embedded = model.text.encoder.words(placed) * (placed > 0)[..., None]
            features.append(model.text.encoder.layers(embedded.transpose(1, 2)).mean(2)[0])
        if average_views == "before_head":
            slow.append(model.text.head(torch.stack(features).mean(0)[None])[0])
        else:
            slow.append(torch.stack([model.text.head(one[None])[0] for one in features]).mean(0))
    torch.testing.assert_close(model.text(TOKENS), torch.stack(slow), atol=1e-6, rtol=1e-5)


def test_the_mean_after_the_head_is_normalised_once() -> None:
    model, plain = dual_path("after_head", normalise=True), dual_path("after_head")
    mean = plain.embed_images(views())
    torch.testing.assert_close(model.embed_images(views()), mean / mean.norm(dim=1, keepdim=True))


def test_for_a_linear_head_it_does_not_matter_where() -> None:
    one, other = (dual_path(where, head="linear") for where in ("before_head", "after_head"))
    torch.testing.assert_close(one.embed_images(views()), other.embed_images(views()))
    torch.testing.assert_close(one.text(TOKENS), other.text(TOKENS), atol=1e-6, rtol=1e-5)


def test_a_view_an_item_lacks_does_not_matter() -> None:
    vectors = torch.randn(2, 3, 1, 128)
    mask = torch.ones(2, 3, 1, dtype=torch.bool)
    mask[0, 2] = False
    vectors[0, 2] = torch.nan
    averaged = mean_of_views(Sets(vectors, mask))
    torch.testing.assert_close(averaged.vectors[0], (vectors[0, 0] + vectors[0, 1]) / 2)
    torch.testing.assert_close(averaged.vectors[1], vectors[1].mean(0))
    assert averaged.mask.all()
    model = dual_path("after_head")
    together = model.image.embed(Sets(vectors, mask))
    alone = model.image.embed(Sets(vectors[:1, :2], mask[:1, :2]))
    torch.testing.assert_close(together[:1], alone)


def test_features_are_brought_to_unit_length_when_asked_for() -> None:
    model = VSE(settings(image={"normalise_features": True}), WORDS, VIEW).eval()
    features = torch.randn(3, 1, 128) * 50
    expected = torch.stack([model.image.head(f[0] / f[0].square().sum().sqrt()) for f in features])
    expected = expected / expected.norm(dim=1, keepdim=True)
    sets = Sets(features, torch.ones(3, 1, dtype=torch.bool))
    torch.testing.assert_close(model.embed_images(sets), expected)
    zeros = Sets(torch.zeros(1, 1, 128), torch.ones(1, 1, dtype=torch.bool))
    assert model.embed_images(zeros).isfinite().all()


def test_batch_norm_of_the_projection_does_not_see_padding() -> None:
    grid = {"encoder": CNN | {"output": "grid"}, "pooling": "mean", "head": "identity"}
    norm = {"kind": "residual_mlp", "batch_norm": True}
    model = VSE(settings(image=grid | {"projection": norm}), WORDS, VIEW).train()
    vectors = torch.randn(2, 3, 8)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    garbage = vectors.masked_fill(~mask[..., None], 1e6)
    torch.testing.assert_close(model.image.embed(Sets(vectors, mask)), model.image.embed(Sets(garbage, mask)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image": {"average_views": "after_head", "pooling": "none"}}, "pooling is 'none'"),
        (
            {
                "image": {"average_views": "after_head", "pooling": "vsrn", "projection": "linear"},
                "caption_branch": {"hidden": 4},
            },
            "one view",
        ),
    ],
)
def test_views_that_can_not_be_kept_apart_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**change)
