from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.export.conftest import build, cosines

import vsekit
from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.errors import UserError
from vsekit.evaluation.external import evaluate_embeddings
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.evaluation.protocols import evaluate
from vsekit.export import embeddings
from vsekit.export.embeddings import embed, open_model, pictures_below
from vsekit.export.folder import export_onnx
from vsekit.export.sources import VSESource


@pytest.fixture
def pairs(pictures: list[Path], tmp_path: Path) -> Pairs:
    captions = [
        Caption(text, number % 5) for number, text in enumerate(["a dog", "a red wall", "blue", "a", "dog"] * 2)
    ]
    return Pairs([Picture(path.name, path, "test", path.stem) for path in pictures], captions, tmp_path)


def test_files_hold_the_models_vectors_and_evaluate_reads_them(tmp_path: Path, pairs: Pairs) -> None:
    model = build()
    written = embed(VSESource(model, "model"), pairs, tmp_path / "out", parquet=True)
    own = vsekit.models.embedder.Embedder(model)  # type: ignore[attr-defined]
    images, captions = (np.load(tmp_path / "out" / f"{side}.npy") for side in ("images", "captions"))
    assert cosines(images, own.encode_images([picture.path for picture in pairs.pictures])).min() > 1 - 1e-6
    assert cosines(captions, own.encode_texts([caption.text for caption in pairs.captions])).min() > 1 - 1e-6
    assert (tmp_path / "out" / "image_ids.txt").read_text().split() == [picture.id for picture in pairs.pictures]
    assert (tmp_path / "out" / "caption_ids.txt").read_text().split()[4:7] == ["4.jpg#0", "0.png#1", "1.png#1"]
    assert written["images"] == {"count": 5, "done": 5}
    groups = {f"{side}_groups": tmp_path / "out" / f"{side}_groups.npy" for side in ("image", "caption")}
    files = (tmp_path / "out" / "images.npy", tmp_path / "out" / "captions.npy")
    found = evaluate_embeddings(*files, **groups)  # type: ignore[arg-type]
    wanted = evaluate(model_scorer(model, *embedded(model, pairs)), pairs.picture_groups, pairs.caption_groups)
    assert found.rsum == pytest.approx(wanted.rsum)
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "out" / "captions.parquet").to_pydict()
    assert parquet["text"] == [caption.text for caption in pairs.captions]
    assert parquet["picture"][5] == "0.png"
    np.testing.assert_array_equal(np.array(parquet["embedding"], np.float32), captions)


def test_a_stopped_embedding_goes_on_to_the_same_bytes(
    tmp_path: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "PICTURES", 2)
    monkeypatch.setattr("vsekit.features.writer.FLUSH_SECONDS", 0)
    source = VSESource(build(), "model")
    embed(source, pairs, tmp_path / "whole")
    read: list[int] = []
    encode = source.encode_images

    def stopping(images: Any) -> np.ndarray:
        if len(read) == 2:
            raise KeyboardInterrupt
        read.append(len(images))
        return encode(images)

    monkeypatch.setattr(source, "encode_images", stopping)
    with pytest.raises(KeyboardInterrupt):
        embed(source, pairs, tmp_path / "stopped")
    assert json.loads((tmp_path / "stopped" / "embed.json").read_text())["images"] == {"count": 5, "done": 4}
    read.clear()
    embed(source, pairs, tmp_path / "stopped")
    assert read == [1]
    for name in ("images.npy", "captions.npy", "embed.json", "image_ids.txt"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with pytest.raises(UserError, match="of another model"):
        embed(VSESource(build(dim=6), "other"), pairs, tmp_path / "whole")


def test_a_folder_of_pictures_through_an_exported_model_with_a_broken_one(tmp_path: Path, pictures: list[Path]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    build().save(tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "onnx")
    found = pictures_below(tmp_path)
    assert [picture.id for picture in found.pictures] == [*(path.name for path in pictures), "deep/broken.jpg"]
    there = open_model(tmp_path / "onnx")
    with pytest.raises(UserError, match=r"broken\.jpg: can't read this picture"):
        embed(there, found, tmp_path / "out")
    written = embed(there, found, tmp_path / "out", skip_broken=True)
    assert list(written["broken"]) == ["deep/broken.jpg"]
    rows = np.load(tmp_path / "out" / "images.npy")
    assert cosines(rows[:5], vsekit.load(tmp_path / "model").encode_images(pictures)).min() > 1 - 1e-4
    assert not rows[5].any()
    assert np.load(tmp_path / "out" / "captions.npy").shape == (0, 10)
    with pytest.raises(UserError, match="no pictures here"):
        pictures_below(tmp_path / "model")


@pytest.mark.parametrize("skip_broken", [False, True])
def test_a_damaged_graph_is_no_broken_picture_and_nothing_is_written(
    tmp_path: Path, pictures: list[Path], skip_broken: bool
) -> None:
    export_onnx(VSESource(build(), "model"), tmp_path / "onnx")
    graph = tmp_path / "onnx" / "image.onnx"
    graph.write_bytes(graph.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"image\.onnx: this is not the file that was exported"):
        embed(open_model(tmp_path / "onnx"), pictures_below(tmp_path), tmp_path / "out", skip_broken=skip_broken)
    assert not (tmp_path / "out").exists()


def test_features_that_are_not_given_are_no_broken_pictures(tmp_path: Path, pictures: list[Path]) -> None:
    model = VSESource(build(image={"encoder": {"kind": "precomputed", "dim": 8}, "pooling": "mean"}), "model")
    with pytest.raises(UserError, match="this model reads features, and the collection has none"):
        embed(model, pictures_below(tmp_path), tmp_path / "out", skip_broken=True)
    assert not (tmp_path / "out").exists()
