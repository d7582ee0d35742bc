"""Which pictures and captions of a collection train and select."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.training.conftest import TINY

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.parts import merged
from vsekit.progress import QUIET
from vsekit.training.collection import Collection
from vsekit.training.settings import RunSettings


def opened(pairs: Pairs, **data: Any) -> Collection:
    return Collection(RunSettings.model_validate(merged(TINY, {"data": data})), pairs, QUIET)


def six_captions() -> Pairs:
    """Four training and three validation pictures; the second of each has six captions, the others five."""
    splits = ("train",) * 4 + ("val",) * 3
    pictures = [Picture(str(i), None, split, str(i)) for i, split in enumerate(splits)]
    counts = [6 if i in (1, 5) else 5 for i in range(7)]
    captions = [Caption(f"picture {i} caption {j}", i) for i, count in enumerate(counts) for j in range(count)]
    return Pairs(pictures, captions, Path("here"))


def test_five_captions_of_each_picture_train_and_select() -> None:
    pairs = six_captions()
    everything = opened(pairs)
    assert (len(everything.train.captions), len(everything.val.captions)) == (21, 16)
    five = opened(pairs, captions_per_picture=5)
    assert (len(five.train.captions), len(five.val.captions)) == (20, 15)
    assert not [c.text for c in (*five.train.captions, *five.val.captions) if c.text.endswith("caption 5")]
    assert len(five.train_tokens) == 20


def test_the_first_pictures_of_validation_select() -> None:
    two = opened(six_captions(), val_pictures=2)
    assert [picture.id for picture in two.val.pictures] == ["4", "5"]
    assert len(two.val_tokens) == len(two.val.captions) == 11
    assert len(two.train.pictures) == 4
    assert [picture.id for picture in opened(six_captions(), val_pictures=1000).val.pictures] == ["4", "5", "6"]
