"""Every part of every union, through a graph, beside torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytest
import torch
from tests.encoders.image.test_timm_vision import Vgg
from tests.export.conftest import CNN, VIEW, build, cosines, shaken
from torch import Tensor

from vsekit.data.text import Ragged
from vsekit.data.views import ViewSettings
from vsekit.encoders.image import ImageEncoderSettings
from vsekit.encoders.image.timm_vision import TimmVision
from vsekit.encoders.text import TextEncoderSettings
from vsekit.encoders.text.transformer import TransformerSettings as TextTransformerSettings
from vsekit.engines.graphs import write_graph
from vsekit.engines.session import start_session
from vsekit.errors import UserError
from vsekit.export.graphs import FeatureGraph, ImageGraph, TextGraph
from vsekit.heads import HeadSettings
from vsekit.models.embedder import Embedder
from vsekit.models.model import VSE
from vsekit.parts import Sets
from vsekit.pooling import PoolingSettings

#: Batches and lengths, those of one among them.
SHAPES = [(1, 1), (2, 9), (5, 3), (1, 6)]

POOLINGS: list[dict[str, Any]] = [
    {"kind": "single"},
    {"kind": "first"},
    {"kind": "last"},
    {"kind": "mean"},
    {"kind": "max"},
    {"kind": "k_max", "k": 4},
    {"kind": "ad_pool"},
    {"kind": "ad_pool", "token_weights": "per_dimension", "balance": 0.25},
    {"kind": "gpo"},
    {"kind": "soft_pool"},
    {"kind": "ada_pool"},
    {"kind": "lip"},
    {"kind": "seq2seq", "cell": "gru"},
    {"kind": "seq2seq", "cell": "lstm", "bidirectional": True},
    {"kind": "self_attention"},
    {"kind": "transformer", "heads": 2, "feedforward": 16},
    {"kind": "gcn", "layers": 2},
    {"kind": "vsrn", "layers": 2},
]
HEADS: list[dict[str, Any]] = [
    {"kind": "linear"},
    {"kind": "mlp", "hidden": 6},
    {"kind": "fc_bn_relu_fc", "hidden": 6},
    {"kind": "residual_mlp"},
    {"kind": "identity"},
]
TEXTS: list[dict[str, Any]] = [
    {"kind": "gru", "word_dim": 6, "dim": 12},
    {"kind": "gru", "word_dim": 6, "dim": 12, "bidirectional": True},
    {"kind": "bag_of_words", "word_dim": 6},
    {"kind": "bag_of_words", "word_dim": 6, "reduce": "sum"},
    {"kind": "text_cnn", "word_dim": 6, "dim": 32, "slots": 16},
    {"kind": "text_cnn", "word_dim": 6, "dim": 32, "slots": 16, "depth": 14, "output": "slots"},
    {"kind": "text_cnn", "word_dim": 6, "dim": 32, "slots": 16, "depth": 14, "average_positions": True},
    {"kind": "transformer", "model": "", "max_length": 12},
]
SENTENCES = ["a", "a red wall .", "zzz qqq", "A DOG cannot see the blue, red wall ." * 4, "two men run", "dog dog"]


def kinds(union: Any) -> set[str]:
    return set(get_args(union)[1].parts)


def run(path: Path, **inputs: Tensor) -> np.ndarray:
    return start_session(path, 1, "").run(None, {name: value.numpy() for name, value in inputs.items()})[0]


def name(part: dict[str, Any]) -> str:
    return "-".join(str(value) for value in part.values())


def test_every_kind_is_tried() -> None:
    assert {part["kind"] for part in POOLINGS} == kinds(PoolingSettings) - {"none"}
    assert {part["kind"] for part in HEADS} == kinds(HeadSettings)
    assert {part["kind"] for part in TEXTS} == kinds(TextEncoderSettings)
    assert set(IMAGES) | {"precomputed", "timm_vision"} == kinds(ImageEncoderSettings)


@pytest.mark.parametrize("number", range(len(POOLINGS)), ids=lambda n: name(POOLINGS[n]))
@torch.inference_mode()
def test_poolings_and_heads_give_the_same_vectors_at_any_size_and_padding(tmp_path: Path, number: int) -> None:
    pooling, head = POOLINGS[number], HEADS[number % len(HEADS)]
    dim = {"dim": 8} if head["kind"] == "identity" else {}
    tower = {"encoder": {"kind": "precomputed", "dim": 8}, "pooling": pooling, "head": head}
    model = build(image=tower, **dim)
    example = {"features": torch.zeros(3, 4, 8), "lengths": torch.tensor([1, 1, 1])}
    write_graph(FeatureGraph(model), example, ["embeddings"], tmp_path / "image.onnx", {})
    generator = torch.Generator().manual_seed(number)
    for batch, size in SHAPES:
        features = torch.randn(batch, size, 8, generator=generator)
        lengths = torch.randint(1, size + 1, (batch,), generator=generator)
        if pooling["kind"] == "single":
            lengths[:] = 1
        mask = torch.arange(size) < lengths[:, None]
        wanted = model.embed_images(Sets(features, mask))
        found = run(tmp_path / "image.onnx", features=features, lengths=lengths)
        np.testing.assert_allclose(found, wanted.numpy(), atol=2e-5)  # type: ignore[union-attr]
        features[~mask] = 1e6 * torch.randn(features[~mask].shape, generator=generator)
        np.testing.assert_array_equal(run(tmp_path / "image.onnx", features=features, lengths=lengths), found)


@pytest.mark.parametrize("encoder", TEXTS, ids=name)
@torch.inference_mode()
def test_text_encoders_give_the_same_vectors_at_any_size_and_padding(
    tmp_path: Path, tiny_bert: Path, encoder: dict[str, Any]
) -> None:
    options: dict[str, Any] = {}
    if encoder["kind"] == "transformer":
        encoder = encoder | {"model": str(tiny_bert)}
        options["tokenizer"] = TextTransformerSettings.model_validate(encoder).make_tokenizer([])
    same_sentences(build(text={"encoder": encoder, "pooling": "mean"}, **options), tmp_path)


@torch.inference_mode()
def test_words_beside_the_pooled_vector_give_the_same_vectors_at_any_size_and_padding(tmp_path: Path) -> None:
    model = build(text={"encoder": TEXTS[0], "pooling": "mean", "words": {"size": 3, "dim": 4}})
    assert model.text.words is not None
    model.text.words.choose(np.concatenate(model.tokenizer(SENTENCES)), model.tokenizer.special_ids)
    same_sentences(model, tmp_path)


def same_sentences(model: VSE, tmp_path: Path) -> None:
    example = {"ids": torch.full((3, 5), 7), "lengths": torch.tensor([5, 3, 2])}
    write_graph(TextGraph(model), example, ["embeddings"], tmp_path / "text.onnx", {})
    tokens = Ragged.of(model.tokenizer(SENTENCES))
    for chosen in ([0], [3], [1, 2], [5, 3, 0, 4, 1, 2]):
        ids, lengths = tokens.batch(chosen)
        wanted = model.text(tokens.batch(chosen)).numpy()  # type: ignore[union-attr]
        found = run(tmp_path / "text.onnx", ids=ids, lengths=lengths)
        np.testing.assert_allclose(found, wanted, atol=2e-5)
        ids[torch.arange(ids.shape[1]) >= lengths[:, None]] = 6
        np.testing.assert_array_equal(run(tmp_path / "text.onnx", ids=ids, lengths=lengths), found)


def vision(folder: Path) -> dict[str, Any]:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    transformers.ViTModel(transformers.ViTConfig(**sizes, image_size=32, patch_size=8)).save_pretrained(folder)
    return {"kind": "transformers_vision", "model": str(folder), "output": "grid", "pixels": 32}


def detector(folder: Path) -> dict[str, Any]:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = transformers.YolosConfig(**sizes, image_size=[32, 32], patch_size=8, num_detection_tokens=6, num_labels=3)
    shaken(transformers.YolosForObjectDetection(config)).save_pretrained(folder)
    return {"kind": "detector_regions", "detector": str(folder), "backbone": CNN, "regions": 4, "threshold": 0.4}


IMAGES: dict[str, Any] = {
    "small_cnn": lambda folder: CNN | {"output": "grid"},
    "efficientnet_lite": lambda folder: {"kind": "efficientnet_lite", "pixels": 32, "pretrained": False},
    "several": lambda folder: {
        "kind": "several",
        "members": [CNN | {"pixels": 16, "output": "pooled"}, vision(folder) | {"output": "pooled"}],
    },
    "transformers_vision": vision,
    "detector_regions": detector,
}


@pytest.mark.parametrize("kind", IMAGES)
def test_image_encoders_give_the_vectors_of_vsekit_load(tmp_path: Path, pictures: list[Path], kind: str) -> None:
    if kind == "efficientnet_lite":
        pytest.importorskip("efficientnet_lite_pytorch")
    view = VIEW if kind == "detector_regions" else ViewSettings.model_validate({**VIEW.model_dump(), "flip": True})
    model = build(view, image={"encoder": IMAGES[kind](tmp_path / "hub"), "pooling": "mean"})
    example = {"pixels": torch.zeros(2, view.count, 32, 32, 3, dtype=torch.uint8)}
    write_graph(ImageGraph(model), example, ["embeddings"], tmp_path / "image.onnx", {})
    from vsekit.export.preparation import View

    crops = torch.from_numpy(np.stack([View(view).read(path) for path in pictures]))
    wanted = Embedder(model).encode_images(pictures)
    for some in (slice(0, 1), slice(0, 5), slice(2, 4)):
        assert cosines(run(tmp_path / "image.onnx", pixels=crops[some]), wanted[some]).min() > 1 - 1e-4


@pytest.mark.parametrize("output", ["pooled", "grid"])
def test_models_that_speak_timms_protocol_give_the_vectors_of_torch(
    tmp_path: Path, pictures: list[Path], output: Literal["pooled", "grid"]
) -> None:
    """timm itself is an extra; `Vgg` has what `TimmVision` asks of its models."""
    torch.manual_seed(0)
    encoder = TimmVision(Vgg(), 32, output, {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)})
    tower = {"encoder": CNN | {"widths": [encoder.dim], "output": "grid"}, "pooling": "mean"}
    model = build(image=tower)
    model.image.encoder = encoder
    example = {"pixels": torch.zeros(2, 1, 32, 32, 3, dtype=torch.uint8)}
    write_graph(ImageGraph(model), example, ["embeddings"], tmp_path / "image.onnx", {})
    from vsekit.export.preparation import View

    crops = torch.from_numpy(np.stack([View(VIEW).read(path) for path in pictures]))
    wanted = Embedder(model).encode_images(pictures)
    assert cosines(run(tmp_path / "image.onnx", pixels=crops), wanted).min() > 1 - 1e-4
    assert cosines(wanted[:1], wanted[1:2]).max() < 1 - 1e-4  # pictures are told apart


TEN_CROPS = ViewSettings.model_validate({"kind": "10C", "resize": 40, "pixels": 32})


@pytest.mark.parametrize("view", [pytest.param(VIEW, marks=pytest.mark.slow), TEN_CROPS], ids=["1C", "10C"])
def test_the_tail_of_a_cut_encoder_is_in_the_graph(tmp_path: Path, pictures: list[Path], view: ViewSettings) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    lite = {"kind": "efficientnet_lite", "pixels": 32, "pretrained": False}
    members = [lite | {"cut": 9}, lite | {"version": 2, "cut": 11}]  # with blocks that have a stride
    model = build(view, image={"encoder": {"kind": "several", "members": members}, "pooling": "single"})
    example = {"pixels": torch.zeros(2, view.count, 32, 32, 3, dtype=torch.uint8)}
    write_graph(ImageGraph(model), example, ["embeddings"], tmp_path / "image.onnx", {})
    from vsekit.export.preparation import View

    crops = torch.from_numpy(np.stack([View(view).read(path) for path in pictures]))
    wanted = Embedder(model).encode_images(pictures)
    for some in (slice(0, 1), slice(0, 5)):
        np.testing.assert_allclose(run(tmp_path / "image.onnx", pixels=crops[some]), wanted[some], atol=1e-5)


def test_views_averaged_after_the_head_are_so_in_the_graph(tmp_path: Path, pictures: list[Path]) -> None:
    view = ViewSettings.model_validate({"kind": "10C", "resize": 40, "pixels": 32})
    head = {"kind": "mlp", "hidden": 8}
    model = build(view, image={"pooling": "single", "head": head, "average_views": "after_head"})
    example = {"pixels": torch.zeros(2, view.count, 32, 32, 3, dtype=torch.uint8)}
    write_graph(ImageGraph(model), example, ["embeddings"], tmp_path / "image.onnx", {})
    from vsekit.export.preparation import View

    crops = torch.from_numpy(np.stack([View(view).read(path) for path in pictures]))
    wanted = Embedder(model).encode_images(pictures)
    np.testing.assert_allclose(run(tmp_path / "image.onnx", pixels=crops), wanted, atol=1e-5)


def test_a_part_that_has_no_graph_is_refused_with_the_reason(tmp_path: Path) -> None:
    class Asks(torch.nn.Module):
        def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
            return ids * 2 if int(ids.sum()) > 3 else ids

    example = {"ids": torch.full((3, 5), 7), "lengths": torch.tensor([5, 3, 2])}
    with pytest.raises(UserError, match="can't be written as an ONNX graph"):
        write_graph(Asks(), example, ["embeddings"], tmp_path / "text.onnx", {})
    assert not list(tmp_path.iterdir())
