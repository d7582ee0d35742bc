from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from tests.export.conftest import build, cosines

import vsekit
from vsekit.errors import UserError
from vsekit.export.sentence_transformers import export_sentence_transformers

package = pytest.importorskip("sentence_transformers")

#: The package asks for this word of every module that is not its own; vsekit is installed, so nothing is fetched.
TRUSTED = {"device": "cpu", "trust_remote_code": True}
TEXTS = ["a dog", "a red wall .", "a blue dog cannot"]


def test_the_real_package_encodes_texts_and_pictures_as_vsekit_does(tmp_path: Path, pictures: list[Path]) -> None:
    build().save(tmp_path / "model")
    export_sentence_transformers(tmp_path / "model", tmp_path / "out")
    model, own = package.SentenceTransformer(str(tmp_path / "out"), **TRUSTED), vsekit.load(tmp_path / "model")
    assert cosines(model.encode(TEXTS, batch_size=2), own.encode_texts(TEXTS)).min() > 1 - 1e-6
    shown = [Image.open(path) for path in pictures[:3]]
    assert cosines(model.encode(shown, batch_size=2), own.encode_images(shown)).min() > 1 - 1e-6
    assert model.get_embedding_dimension() == 10
    scores = model.similarity(model.encode(TEXTS), model.encode(shown)).numpy()
    assert abs(scores - own.similarity(own.encode_images(shown), own.encode_texts(TEXTS)).T).max() < 1e-5
    model.save(str(tmp_path / "again"))
    again = package.SentenceTransformer(str(tmp_path / "again"), **TRUSTED)
    assert cosines(again.encode(TEXTS), own.encode_texts(TEXTS)).min() > 1 - 1e-6


def test_what_it_has_no_similarity_or_pictures_for_is_refused(tmp_path: Path) -> None:
    build(similarity="order").save(tmp_path / "order")
    with pytest.raises(UserError, match="no similarity 'order'"):
        export_sentence_transformers(tmp_path / "order", tmp_path / "out")
    build(image={"encoder": {"kind": "precomputed", "dim": 8}}).save(tmp_path / "features")
    with pytest.raises(UserError, match="can't read pictures"):
        export_sentence_transformers(tmp_path / "features", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    build().save(tmp_path / "model")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "modules.json").write_text(json.dumps([]))
    with pytest.raises(UserError, match="other things stand here"):
        export_sentence_transformers(tmp_path / "model", tmp_path / "out")
