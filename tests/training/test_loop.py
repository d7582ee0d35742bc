from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.training.conftest import TINY, write_precomputed

import vsekit
from vsekit.data.readers import read
from vsekit.data.text import Vocabulary
from vsekit.errors import UserError
from vsekit.features.store import FeatureStore
from vsekit.models.inputs import image_inputs
from vsekit.models.model import VSE, load_model, take_weights
from vsekit.parts import merged
from vsekit.progress import Progress
from vsekit.recipes import load_settings
from vsekit.training.loop import train
from vsekit.training.run import RunFolder, read_metrics
from vsekit.training.settings import RunSettings


def settings(**change: Any) -> RunSettings:
    return RunSettings.model_validate(merged(TINY, change))


ONE_STAGE = {"second": None}


def test_training_beats_chance_by_far_and_keeps_the_best_snapshot(collection: Path, tmp_path: Path) -> None:
    end = train(settings(stages={"first": {"epochs": 12}} | ONE_STAGE), read(collection), tmp_path / "run")
    # Six of eighteen pictures would be found by chance at R@10 … 1 of 18 at R@1.
    assert end["best"]["t2i"]["r1"] > 40
    validations = [line for line in read_metrics(tmp_path / "run") if line["event"] == "validation"]
    assert end["best"]["rsum"] == max(line["rsum"] for line in validations)


def test_validations_can_be_rarer_and_the_last_epoch_has_one(collection: Path, tmp_path: Path) -> None:
    rare = settings(stages={"first": {"epochs": 5, "validate_every": 2}} | ONE_STAGE)
    train(rare, read(collection), tmp_path / "run")
    epochs = [line["epoch"] for line in read_metrics(tmp_path / "run") if line["event"] == "validation"]
    assert epochs == [2, 4, 5]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(collection: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(settings(seed=seed), read(collection), tmp_path / name)
    a, b, c = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in "abc")
    assert a == b
    assert a != c


def test_frozen_parts_keep_their_bits_and_others_move(collection: Path, tmp_path: Path) -> None:
    one = settings(stages={"first": {"epochs": 1, "freeze": ["text.encoder"]}} | ONE_STAGE)
    train(one, read(collection), tmp_path / "run")
    trained = load_model(tmp_path / "run")
    torch.manual_seed(0)
    fresh = type(trained)(trained.settings, trained.tokenizer, trained.view, image_dim=16)
    moved = {k: not torch.equal(v, fresh.state_dict()[k]) for k, v in trained.state_dict().items()}
    assert not any(changed for name, changed in moved.items() if name.startswith("text.encoder."))
    assert moved["image.head.weight"]
    assert moved["text.head.weight"]


def test_a_part_with_rate_zero_stays(collection: Path, tmp_path: Path) -> None:
    one = settings(stages={"first": {"epochs": 1, "rates": {"text.encoder": 0.0}}} | ONE_STAGE)
    train(one, read(collection), tmp_path / "run")
    trained = load_model(tmp_path / "run")
    torch.manual_seed(0)
    fresh = type(trained)(trained.settings, trained.tokenizer, trained.view, image_dim=16)
    assert torch.equal(trained.text.encoder.words.weight, fresh.text.encoder.words.weight)
    assert not torch.equal(trained.text.head.weight, fresh.text.head.weight)


def test_early_stop_waits_for_the_epoch_it_counts_from(collection: Path, tmp_path: Path) -> None:
    still = {"epochs": 9, "early_stop": 2, "early_stop_from": 6, "optimiser": {"lr": 1e-12}}
    train(settings(stages={"first": still} | ONE_STAGE), read(collection), tmp_path / "run")
    assert [line["epoch"] for line in read_metrics(tmp_path / "run") if line["event"] == "validation"] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_early_stop_ends_a_stage_that_gets_no_better(collection: Path, tmp_path: Path) -> None:
    one = settings(stages={"first": {"epochs": 50, "early_stop": 2, "optimiser": {"lr": 1e-12}}} | ONE_STAGE)
    train(one, read(collection), tmp_path / "run")
    validations = [line for line in read_metrics(tmp_path / "run") if line["event"] == "validation"]
    assert len(validations) == 3


def test_a_stage_may_change_the_model_and_carries_equal_weights_over(collection: Path, tmp_path: Path) -> None:
    change = {"second": {"model": {"image": {"head": "mlp", "projection": "linear"}}, "freeze": []}}
    train(settings(stages=change), read(collection), tmp_path / "run")
    assert load_model(tmp_path / "run").settings.image.head.kind == "mlp"


def test_a_batch_larger_than_the_collection_and_a_last_batch_of_one_pair_train(
    collection: Path, tmp_path: Path
) -> None:
    for name, size in (("large", 1000), ("one", 71)):  # 72 pairs: a batch of 71 leaves one over
        train(
            settings(stages={"first": {"epochs": 1, "batch_size": size}} | ONE_STAGE), read(collection), tmp_path / name
        )


def test_features_with_nan_end_the_run_with_a_remedy(tmp_path: Path) -> None:
    data = write_precomputed(tmp_path / "data")
    features = np.load(data / "train_ims.npy")
    features[:] = np.nan
    np.save(data / "train_ims.npy", features)
    with pytest.raises(UserError, match="nan"):
        train(settings(), read(data), tmp_path / "run")


def test_a_missing_split_is_named_with_those_there_are(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no split 'dev'[\s\S]*train \(36"):
        train(settings(data={"val": "dev"}), read(collection), tmp_path / "run")


PIXELS = {
    "model": {"image": {"encoder": {"kind": "small_cnn", "widths": [8, 8], "pixels": 16}, "head": "linear"}},
    "data": {
        "view": {"kind": "RC", "resize": 20, "pixels": 16},
        "eval_view": {"kind": "1C", "resize": 20, "pixels": 16},
    },
    "stages": {"first": {"epochs": 2}} | ONE_STAGE,
}


def colour_folder(folder: Path) -> Path:
    """Pictures of one colour each, with a caption that names it, in train/ and val/."""
    for split, count in (("train", 24), ("val", 6)):
        (folder / split).mkdir(parents=True)
        for i in range(count):
            colour = [(220, 30, 30), (30, 200, 30), (30, 30, 220), (240, 240, 240), (10, 10, 10), (240, 220, 30)][i % 6]
            name = ["red", "green", "blue", "white", "black", "yellow"][i % 6]
            Image.new("RGB", (30, 24), colour).save(folder / split / f"{i}.jpg")
            (folder / split / f"{i}.txt").write_text(f"a {name} wall\n")
    return folder


def test_pictures_train_end_to_end_and_the_model_reads_files_pil_and_arrays(tmp_path: Path) -> None:
    data = colour_folder(tmp_path / "walls")
    train(settings(**copy.deepcopy(PIXELS)), read(data), tmp_path / "run")
    model = vsekit.load(tmp_path / "run")
    path = data / "val" / "0.jpg"
    image = Image.open(path)
    embedded = model.encode_images([path, image, np.asarray(image)])
    assert embedded.shape == (3, 24)
    np.testing.assert_allclose(embedded[1:], embedded[:1].repeat(2, 0), atol=1e-6)
    scores = model.similarity(embedded, model.encode_texts(["a red wall", "a blue wall"]))
    assert scores.shape == (3, 2)


def test_broken_pictures_are_replaced_in_training_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = colour_folder(tmp_path / "walls")
    whole = (data / "train" / "3.jpg").read_bytes()
    (data / "train" / "3.jpg").write_bytes(whole[: len(whole) // 2])
    train(settings(**copy.deepcopy(PIXELS)), read(data), tmp_path / "run", progress=Progress())
    assert "1 broken pictures were replaced" in capsys.readouterr().err


def test_broken_pictures_in_validation_are_an_error(tmp_path: Path) -> None:
    data = colour_folder(tmp_path / "walls")
    (data / "val" / "3.jpg").write_bytes(b"no picture")
    with pytest.raises(UserError, match=r"3\.jpg"):
        train(settings(**copy.deepcopy(PIXELS)), read(data), tmp_path / "run")


def test_a_runs_config_replays_it(collection: Path, tmp_path: Path) -> None:
    train(settings(), read(collection), tmp_path / "a", source={"data": "here"})
    again = load_settings(str(tmp_path / "a" / "config.yaml"))
    train(again, read(collection), tmp_path / "b")
    assert (tmp_path / "a" / "metrics.jsonl").read_bytes() == (tmp_path / "b" / "metrics.jsonl").read_bytes()


def test_half_precision_arithmetic_trains_too(collection: Path, tmp_path: Path) -> None:
    one = settings(stages={"first": {"epochs": 12}} | ONE_STAGE)
    end = train(one, read(collection), tmp_path / "run", precision="bf16-mixed", device="cpu")
    assert end["best"]["t2i"]["r1"] > 40


def test_a_device_that_is_not_there_is_named(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gpux"):
        train(settings(), read(collection), tmp_path / "run", device="gpux")


def test_restval_trains_only_when_it_is_folded_in(collection: Path, tmp_path: Path) -> None:
    pairs = read(collection)
    pictures = [
        replace(p, split="restval") if p.split == "train" and i % 2 else p for i, p in enumerate(pairs.pictures)
    ]
    pairs = replace(pairs, pictures=pictures)
    steps = {}
    for restval in (False, True):
        one = settings(data={"restval": restval}, stages={"first": {"epochs": 1}} | ONE_STAGE)
        steps[restval] = train(one, pairs, tmp_path / str(restval))["steps"]
    assert (steps[False], steps[True]) == (5, 9)  # 18 and 36 pictures, two captions each, in batches of 8


def test_word_embeddings_go_by_word_when_a_stage_starts_from_another_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    one = settings().model
    view = settings().data.eval_view
    old = VSE(one, Vocabulary(["cat", "dog", "boat"]), view, image_dim=16)
    new = VSE(one, Vocabulary(["boat", "moon", "cat"]), view, image_dim=16)
    moon = new.text.encoder.words.weight[5].clone()
    take_weights(new, old)
    table, before = new.text.encoder.words.weight, old.text.encoder.words.weight
    assert torch.equal(table[4], before[6])
    assert torch.equal(table[6], before[4])
    assert torch.equal(table[5], moon)
    assert torch.equal(new.text.head.weight, old.text.head.weight)


def test_a_view_of_another_size_than_the_encoder_reads_is_refused(tmp_path: Path) -> None:
    data = colour_folder(tmp_path / "walls")
    change = copy.deepcopy(PIXELS)
    change["data"]["view"]["pixels"] = 18
    with pytest.raises(UserError, match=r"18 px[\s\S]*16 px"):
        train(settings(**change), read(data), tmp_path / "run")


def test_a_pool_of_crops_stands_for_random_crops_of_a_frozen_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "noise"
    for split in ("train", "val"):
        (data / split).mkdir(parents=True)
        for i in range(6):
            noise = np.random.default_rng(i).integers(0, 256, (30, 30, 3), dtype=np.uint8)
            Image.fromarray(noise).save(data / split / f"{i}.png")
            (data / split / f"{i}.txt").write_text(f"picture {i}\n")
    change = copy.deepcopy(PIXELS)
    change["data"]["crops"] = 3
    change["stages"]["first"]["freeze"] = ["image.encoder"]
    one = settings(**change)
    train(one, read(data), tmp_path / "run")
    (pool,) = [
        store
        for folder in (tmp_path / "cache" / "features").iterdir()
        if (store := FeatureStore.open(folder)).axes == ["picture", "crop", "feature"]
    ]
    assert pool.features.shape[:2] == (6, 3)
    model = vsekit.load(tmp_path / "run").model
    pairs = read(data).split("train")
    inputs = image_inputs(model, pairs, one.data.view, training=True, crops=3)
    reads = [inputs.load(np.arange(6), np.random.default_rng(i))[0].vectors[:, 0].numpy() for i in range(20)]
    seen = [{row.tobytes() for row in np.stack(reads)[:, picture]} for picture in range(6)]
    assert seen == [{row.tobytes() for row in pool.features[picture]} for picture in range(6)]
    with pytest.raises(ValueError, match="choose RC"):
        settings(data={"crops": 3})


FROZEN = {"stages": {"first": {"epochs": 1, "freeze": ["image.encoder"]}} | ONE_STAGE}


@pytest.fixture
def frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSettings:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    change = copy.deepcopy(PIXELS) | FROZEN
    change["data"]["view"]["kind"] = "1C"
    return settings(**change)


def test_a_frozen_encoders_features_are_kept_and_made_anew_when_a_picture_changes(
    frozen: RunSettings, tmp_path: Path
) -> None:
    data = colour_folder(tmp_path / "walls")
    stores = tmp_path / "cache" / "features"
    train(frozen, read(data), tmp_path / "a")
    train(frozen, read(data), tmp_path / "b")
    assert len(list(stores.iterdir())) == 1  # of train; val is read as pixels
    Image.new("RGB", (30, 24), (1, 2, 3)).save(data / "train" / "3.jpg")
    train(frozen, read(data), tmp_path / "c")
    assert len(list(stores.iterdir())) == 2


def test_broken_pictures_under_a_frozen_encoder_are_replaced_too(
    frozen: RunSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = colour_folder(tmp_path / "walls")
    (data / "train" / "3.jpg").write_bytes(b"no picture")
    train(frozen, read(data), tmp_path / "run", progress=Progress())
    assert "1 broken pictures were replaced" in capsys.readouterr().err


def test_a_run_is_not_resumed_on_another_collection(collection: Path, tmp_path: Path) -> None:
    train(settings(), read(collection), tmp_path / "run")
    other = write_precomputed(tmp_path / "other", n=30)
    with pytest.raises(UserError, match="collection"):
        train(settings(), read(other), tmp_path / "run", resume=True)


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    first, second = (RunFolder(tmp_path / "run", settings(), {}, "same", resume=True) for _ in range(2))
    first.create()
    with pytest.raises(UserError, match="another process"):
        second.create()


@pytest.mark.parametrize("name", ["weights.safetensors", "optimiser.safetensors", "state.json"])
def test_a_damaged_checkpoint_is_named(name: str, collection: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(settings(), read(collection), run)
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:-1]))  # as if killed before the closing line
    damaged = next((run / "state").glob("step-*")) / name
    whole = damaged.read_bytes()
    modes = {path.stat().st_mode for path in damaged.parent.iterdir()}
    assert len(modes) == 1  # safetensors writes 0600
    for data in (whole[:20], whole[:-4] + bytes([whole[-4] ^ 1]) + whole[-3:]):
        damaged.write_bytes(data)
        with pytest.raises(UserError, match=r"damaged[\s\S]*another folder"):
            train(settings(), read(collection), run, resume=True)
