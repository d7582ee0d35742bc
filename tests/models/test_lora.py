"""Adapters: only they learn; saved merged or alone, a model computes what it computed in training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import write_precomputed

from vsekit import read
from vsekit.errors import UserError
from vsekit.models.model import load_model
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

pytest.importorskip("peft")


def settings(bert: Path, *, lora: dict[str, Any] | None, **stage: Any) -> RunSettings:
    encoder = {"kind": "transformer", "model": str(bert)} | ({"lora": lora} if lora else {})
    image = {"encoder": "precomputed", "pooling": "single", "head": "linear"}
    text = {"encoder": encoder, "pooling": "mean", "head": "linear"}
    first = {"epochs": 1, "batch_size": 24, "loss": "info_nce", "optimiser": {"kind": "adam", "lr": 0.01}} | stage
    return RunSettings.model_validate({"model": {"dim": 8, "image": image, "text": text}, "stages": {"first": first}})


@pytest.fixture
def data(tmp_path: Path) -> Any:
    return read(write_precomputed(tmp_path / "data", dim=6))


def trained(run: RunSettings, data: Any, out: Path) -> tuple[Any, dict[str, Any]]:
    """The model as the last checkpoint has it, W + α/r·B·A worked out by hand, and the saved configuration."""
    from safetensors.torch import load_file

    train(run, data, out)
    weights = load_file(next((out / "state").glob("step-*/weights.safetensors")))
    return weights, json.loads((out / "model" / "config.json").read_text())


LAYER = "text.encoder.model.encoder.layer.1.attention.self.query"


@pytest.mark.parametrize("keep", ["merged", "adapter"])
def test_the_saved_model_has_the_weights_that_were_learned(
    keep: str, tiny_bert: Path, data: Any, tmp_path: Path
) -> None:
    lora = {"rank": 2, "alpha": 6, "targets": ["query", "value"], "keep": keep}
    weights, config = trained(settings(tiny_bert, lora=lora), data, tmp_path / "run")
    model = load_model(tmp_path / "run")
    prefix = f"model.{LAYER}"
    a, b = (weights[f"{prefix}.lora_{side}.default.weight"] for side in "AB")
    assert b.abs().max() > 0  # they have learned
    base = weights[f"{prefix}.base_layer.weight"]
    torch.testing.assert_close(model.state_dict()[f"{LAYER}.weight"], base + 6 / 2 * b @ a)
    import transformers

    before = transformers.AutoModel.from_pretrained(tiny_bert).state_dict()
    assert torch.equal(base, before["encoder.layer.1.attention.self.query.weight"])  # what was there has not
    assert ("lora" in config["model"]["text"]["encoder"]) == (keep == "adapter")
    assert ("adapter_of" in config) == (keep == "adapter")
    size = (tmp_path / "run" / "model" / "model.safetensors").stat().st_size
    assert (size < sum(4 * w.numel() for w in weights.values()) / 2) == (keep == "adapter")


def test_both_ways_to_keep_it_give_the_same_embeddings(tiny_bert: Path, data: Any, tmp_path: Path) -> None:
    embeddings = []
    for keep in ("merged", "adapter"):
        train(settings(tiny_bert, lora={"rank": 2, "keep": keep}), data, tmp_path / keep)
        model = load_model(tmp_path / keep)
        tokens = model.tokenizer(["a dog runs", "two men"])
        from vsekit.data.text import Ragged

        with torch.inference_mode():
            embeddings.append(model.text(Ragged.of(tokens).batch([0, 1])))
    torch.testing.assert_close(*embeddings)


def test_an_adapter_is_refused_on_other_weights(tiny_bert: Path, data: Any, tmp_path: Path) -> None:
    train(settings(tiny_bert, lora={"rank": 2, "keep": "adapter"}), data, tmp_path / "run")
    import transformers

    torch.manual_seed(9)
    config = transformers.AutoConfig.from_pretrained(tiny_bert)
    transformers.BertModel(config).save_pretrained(tiny_bert)
    with pytest.raises(UserError, match="trained on other weights"):
        load_model(tmp_path / "run")


@pytest.mark.parametrize("keep", ["merged", "adapter"])
def test_a_second_stage_goes_on_from_the_best_snapshot(keep: str, tiny_bert: Path, data: Any, tmp_path: Path) -> None:
    """With a learning rate of nearly nothing, the second stage's model is the first's."""
    run = settings(tiny_bert, lora={"rank": 2, "keep": keep}).model_dump(mode="json")
    run["stages"]["second"] = run["stages"]["first"] | {"start": "best", "optimiser": {"kind": "sgd", "lr": 1e-12}}
    train(RunSettings.model_validate(run), data, tmp_path / "run")
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    first, second = (line["rsum"] for line in lines if line["event"] == "validation")
    assert first == second
    assert torch.isfinite(load_model(tmp_path / "run").state_dict()[f"{LAYER}.weight"]).all()


def test_a_layer_that_is_not_there_is_told_with_those_that_are(tiny_bert: Path, data: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'query'") as error:
        train(settings(tiny_bert, lora={"targets": ["querry"]}), data, tmp_path / "run")
    assert "value" in str(error.value)


def test_settings_without_adapters_are_written_as_before(tiny_bert: Path) -> None:
    """Features, models and indexes are named by them."""
    assert "lora" not in settings(tiny_bert, lora=None).model_dump(mode="json")["model"]["text"]["encoder"]


def test_checkpointed_activations_change_nothing_that_is_learned(tiny_bert: Path, data: Any, tmp_path: Path) -> None:
    weights = []
    for name, more in (("plain", {}), ("again", {"activation_checkpointing": True})):
        learned, _ = trained(settings(tiny_bert, lora=None, clip=None, **more), data, tmp_path / name)
        weights.append(learned)
    for name, value in weights[0].items():
        torch.testing.assert_close(weights[1][name], value, msg=name)


def test_checkpointing_encoders_that_cannot_is_refused(data: Any, tmp_path: Path) -> None:
    text = {"encoder": {"kind": "gru", "word_dim": 4, "dim": 8, "min_count": 1}, "pooling": "mean"}
    image = {"encoder": "precomputed", "pooling": "single"}
    stage = {"epochs": 1, "loss": "info_nce", "activation_checkpointing": True}
    run = {"model": {"dim": 8, "image": image, "text": text}, "stages": {"first": stage}}
    with pytest.raises(UserError, match="activation_checkpointing"):
        train(RunSettings.model_validate(run), data, tmp_path / "run")


def test_an_image_encoder_learns_by_adapters_too(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from vsekit.encoders.image.transformers_vision import TransformersVisionSettings
    from vsekit.encoders.lora import learn_adapters_alone, merge_lora

    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(image_size=32, patch_size=16, **sizes)
    transformers.ViTModel(config).save_pretrained(tmp_path / "vit")
    encoder = TransformersVisionSettings(model=str(tmp_path / "vit"), lora={"rank": 2}).build()  # type: ignore[arg-type]
    learn_adapters_alone(encoder)
    pixels = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        for parameter in (p for p in encoder.parameters() if p.requires_grad):
            parameter.normal_()
    learning = {name.split(".")[-3] for name, p in encoder.named_parameters() if p.requires_grad}
    assert learning == {"lora_A", "lora_B"}
    expected = encoder.eval()(pixels).vectors
    merge_lora(encoder)
    assert not any("lora" in name for name, _ in encoder.named_parameters())
    torch.testing.assert_close(encoder(pixels).vectors, expected)
