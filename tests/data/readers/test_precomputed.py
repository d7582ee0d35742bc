from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsekit.data.readers import read
from vsekit.data.readers.precomputed import Stacked
from vsekit.errors import UserError


def features(rows, *shape):
    return np.random.default_rng(rows).normal(size=(rows, *(shape or (4,)))).astype(np.float32)


@pytest.fixture
def split(tmp_path):
    def save(name, array, captions):
        np.save(tmp_path / f"{name}_ims.npy", array)
        lines = captions if isinstance(captions, list) else [f"{name} caption {i}" for i in range(captions)]
        (tmp_path / f"{name}_caps.txt").write_text("".join(f"{line}\n" for line in lines))
        return tmp_path

    return save


@pytest.mark.parametrize("shape", [(4,), (3, 2)])
def test_one_row_a_picture(split, shape):
    array = features(3, *shape)
    pairs = read(split("train", array, 15))
    assert [p.row for p in pairs.pictures] == [0, 1, 2]
    assert pairs.caption_pictures.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    np.testing.assert_array_equal(pairs.features[[2, 0]], array[[2, 0]])


def test_one_row_a_caption_keeps_each_picture_once(split):
    pairs = read(split("train", np.repeat(features(3), 5, axis=0), 15))
    assert [p.row for p in pairs.pictures] == [0, 5, 10]
    assert pairs.caption_pictures.tolist() == [0] * 5 + [1] * 5 + [2] * 5


def test_different_rows_for_every_caption_are_different_pictures(split):
    pairs = read(split("train", features(10), 10))
    assert [p.row for p in pairs.pictures] == list(range(10))
    assert pairs.caption_pictures.tolist() == list(range(10))


def test_rows_that_repeat_only_sometimes_are_an_error(split):
    array = np.repeat(features(3), 5, axis=0)
    array[6] += 1
    with pytest.raises(UserError, match="2 of 3 pictures looked at have 5 equal rows"):
        read(split("train", array, 15))


def test_rows_and_captions_that_do_not_fit_are_an_error(split):
    with pytest.raises(UserError, match=r"train_ims.npy: 4 rows and 15 captions"):
        read(split("train", features(4), 15))


def test_all_splits_share_one_features_array_without_copies(split, tmp_path):
    arrays = {"train": features(4), "dev": features(2), "test": features(3)}
    for name, array in arrays.items():
        split(name, array, 5 * len(array))
    pairs = read(tmp_path)
    assert pairs.splits == {"train": 4, "val": 2, "test": 3}
    for name, array in (("train", arrays["train"]), ("val", arrays["dev"]), ("test", arrays["test"])):
        rows = np.array([p.row for p in pairs.split(name).pictures])
        np.testing.assert_array_equal(pairs.features[rows], array)
    assert all(isinstance(part, np.memmap) for part in pairs.features._arrays)
    assert [c.text for c in pairs.split("val").captions][:2] == ["dev caption 0", "dev caption 1"]


def test_one_split_can_be_read_alone(split):
    split("train", features(4), 20)
    folder = split("dev", features(2), 10)
    pairs = read(folder / "dev_ims.npy")
    assert pairs.splits == {"val": 2}
    assert isinstance(pairs.features, np.memmap)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_stacked_gives_the_rows_concatenation_gives(sizes, data):
    arrays = [features(n, 2) + i for i, n in enumerate(sizes)]
    whole, stacked = np.concatenate(arrays), Stacked(arrays)
    rows = np.array(data.draw(st.lists(st.integers(-len(whole), len(whole) - 1), max_size=8)), dtype=np.int64)
    np.testing.assert_array_equal(stacked[rows], whole[rows])
    np.testing.assert_array_equal(stacked[rows.reshape(1, -1).ravel()[:1]], whole[rows[:1]])
    np.testing.assert_array_equal(stacked[1:3], whole[1:3])
    np.testing.assert_array_equal(stacked[-1], whole[-1])
    np.testing.assert_array_equal(np.asarray(stacked), whole)
    assert (stacked.shape, stacked.dtype, len(stacked)) == (whole.shape, whole.dtype, len(whole))


def test_stacked_refuses_a_row_that_is_not_there():
    with pytest.raises(IndexError):
        Stacked([features(2), features(1)])[np.array([3])]


def test_printed_bytes_are_an_error_with_their_line(split):
    folder = split("train", features(2), ["a cat", 'b"a man\'s dog"'])
    with pytest.raises(UserError, match="printed instead of decoded") as error:
        read(folder)
    assert (error.value.file, error.value.line) == (folder / "train_caps.txt", 2)
    assert "decode('utf-8')" in error.value.remedy


def test_a_blank_line_amid_captions_is_an_error_and_at_the_end_is_none(split):
    assert len(read(split("train", features(2), ["a cat", "a dog", "", " "])).captions) == 2
    with pytest.raises(UserError, match=r"train_caps.txt:2: the caption is empty"):
        read(split("train", features(3), ["a cat", "", "a dog"]))


def test_objects_are_never_unpickled(split):
    class Trap:
        def __reduce__(self):
            return pytest.fail, ("unpickled",)

    folder = split("train", features(2), 10)
    np.save(folder / "train_ims.npy", np.array([Trap(), 2], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="not a readable array of numbers"):
        read(folder)


def test_a_cut_off_array_is_an_error(split):
    folder = split("train", features(200), 1000)
    data = (folder / "train_ims.npy").read_bytes()
    (folder / "train_ims.npy").write_bytes(data[:-100])
    with pytest.raises(UserError, match="not a readable array"):
        read(folder)


def test_splits_with_different_features_are_an_error(split):
    split("train", features(2), 10)
    with pytest.raises(UserError, match=r"test_ims.npy: its rows have the shape \(5,\), those of train_ims.npy \(4,\)"):
        read(split("test", features(2, 5), 10))


def test_missing_captions_are_an_error(split):
    folder = split("train", features(2), 10)
    (folder / "train_caps.txt").unlink()
    with pytest.raises(UserError, match=r"train_caps.txt: there is no such file"):
        read(folder)
