from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from studies.curve import first_encoder, pictures_in, rest_without_captions, some, taught, without_doubles

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


def test_alone_a_row_has_the_first_of_its_encoders_at_its_own_size_and_is_else_the_same() -> None:
    row = recipes.load_settings("coco:bow")
    alone = first_encoder(row)
    assert alone.model.image.encoder == row.model.image.encoder.members[0]
    assert alone.data.view == alone.data.eval_view
    assert (alone.data.view.kind, alone.data.view.resize, alone.data.view.pixels) == ("1C", 224, 224)
    image = alone.model.image.model_copy(update={"encoder": row.model.image.encoder})
    model = alone.model.model_copy(update={"image": image})
    assert alone.model_copy(update={"model": model, "data": row.data}) == row


def test_further_pictures_are_for_training_and_those_like_a_validation_picture_are_left_out(tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg", "notes.txt"):
        (tmp_path / name).touch()
    more = pictures_in(tmp_path)
    assert [(p.id, p.split) for p in more.pictures] == [("a.jpg", "train"), ("b.jpg", "train")]
    assert not more.captions
    captioned = [Picture(id=split, path=None, split=split, group=split) for split in ("train", "val")]
    pictures = [replace(p, row=row) for row, p in enumerate([*captioned, *more.pictures])]
    # The mean is (0, 0): b looks like the validation picture, and so does the training picture that has a caption.
    features = np.array([[2.0, 0.1], [2.0, 0.0], [-6.0, 0.0], [2.0, -0.1]], np.float32)
    found = without_doubles(Pairs(pictures, [Caption("x", 0), Caption("y", 1)], Path("x"), features))
    assert [p.id for p in found.pictures] == ["train", "val", "a.jpg"]
    assert [c.text for c in some(found, 1).captions] == ["x", "y"]


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
