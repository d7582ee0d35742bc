from __future__ import annotations

from pathlib import Path

import numpy as np
from studies.curve import first_encoder, rest_without_captions, some, taught

from vsekit import recipes
from vsekit.data.pairs import Caption, Pairs, Picture


def test_smaller_parts_lie_within_larger_ones_and_validation_stays_whole() -> None:
    pictures = [Picture(id=str(i), path=None, split="val" if i % 4 == 0 else "train", group=str(i)) for i in range(40)]
    pairs = Pairs(pictures, [Caption(f"{i}", i, {}) for i in range(40)], Path("x"))
    parts = [some(pairs, count) for count in (5, 12)]
    small, large = ({p.id for p in part.pictures if p.split == "train"} for part in parts)
    assert (len(small), len(large)) == (5, 12)
    assert small < large
    for part in parts:
        assert [p.id for p in part.pictures if p.split == "val"] == [str(i) for i in range(0, 40, 4)]
        assert all(part.pictures[caption.picture].id == caption.text for caption in part.captions)


def test_alone_the_first_encoder_keeps_its_own_numbers_and_no_others() -> None:
    features = np.arange(12.0, dtype=np.float32).reshape(2, 6)
    pictures = [Picture(id=str(i), path=None, split="train", group=str(i), row=i) for i in range(2)]
    alone = first_encoder(Pairs(pictures, [Caption("a", 0, {})], Path("x"), features), size=4)
    assert np.array_equal(alone.features, [[0, 1, 2, 3], [6, 7, 8, 9]])


def test_the_other_pictures_stay_without_their_captions() -> None:
    pictures = [Picture(id=str(i), path=None, split="val" if i % 4 == 0 else "train", group=str(i)) for i in range(40)]
    pairs = Pairs(pictures, [Caption(f"{i}", i, {}) for i in range(40)], Path("x"))
    found = rest_without_captions(pairs, 12)
    assert [p.id for p in found.pictures] == [p.id for p in pairs.pictures]
    captioned = {found.pictures[c.picture].id for c in found.captions}
    assert captioned == {p.id for p in some(pairs, 12).pictures}
    assert all(found.pictures[c.picture].id == c.text for c in found.captions)


def test_a_taught_row_differs_in_its_loss_and_teachers_alone() -> None:
    row = recipes.load_settings("coco:bow")
    student = taught(row, [Path("a"), Path("b")], 256)
    stage = student.stages["heads"]
    assert stage.teacher == (Path("a"), Path("b"))
    assert stage.unlabelled == 256
    own, following = stage.loss.terms
    assert own.loss == row.stages["heads"].loss
    assert following.loss.kind == "distillation"
    same = {"loss": row.stages["heads"].loss, "teacher": None, "unlabelled": None}
    assert stage.model_copy(update=same) == row.stages["heads"]
