from __future__ import annotations

from pathlib import Path

from studies.catalogue import catalogue

from vsekit.data.pairs import Caption, Pairs, Picture


def test_it_is_made_of_validation_pictures_alone_and_has_splits_of_its_own() -> None:
    splits = ["train", "val", "val", "test"] * 100
    pictures = [Picture(f"{n}.jpg", None, split, f"{n}.jpg") for n, split in enumerate(splits)]
    made = catalogue(Pairs(pictures, [Caption(f"{n}", n) for n in range(400)], Path("x")), 150)
    assert len(made.pictures) == 150
    assert all(splits[int(picture.id.removesuffix(".jpg"))] == "val" for picture in made.pictures)
    assert all(f"{caption.text}.jpg" == made.pictures[caption.picture].id for caption in made.captions)
    assert set(made.splits) == {"train", "val", "test"}
    assert 100 <= made.splits["train"] <= 135  # four in five
