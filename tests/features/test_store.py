from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.killing import killed_at
from torch import Tensor

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.views import ViewSettings, chosen_crops, cut, normalised, resized
from vsekit.encoders.base import ImageEncoder
from vsekit.encoders.image.small_cnn import SmallCNN, SmallCNNSettings
from vsekit.engines import images
from vsekit.errors import UserError
from vsekit.features import writer as features
from vsekit.features.extraction import extract
from vsekit.features.fingerprints import identities_of
from vsekit.features.store import FeatureStore
from vsekit.parts import Sets

SPEC = {"kind": "small_cnn", "widths": [4, 8], "pixels": 16}
FILES = ("features.npy", "contents.npy", "ids.txt", "identities.npy", "store.json")


def view(name: str = "1C", **changes: Any) -> ViewSettings:
    return ViewSettings.model_validate({"kind": name, "resize": 20, "pixels": 16, **changes})


def encoder(output: str = "pooled", seed: int = 0) -> SmallCNN:
    torch.manual_seed(seed)
    return SmallCNNSettings.model_validate({**SPEC, "output": output}).build()


def make_pictures(folder: Path, count: int = 11) -> list[Picture]:
    rng = np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    made = []
    for i in range(count):
        path = folder / f"{i:02d}.png"
        Image.fromarray(rng.integers(0, 256, (25, 30, 3), dtype=np.uint8)).save(path)
        made.append(Picture(id=path.name, path=path, split="train", group=path.name))
    return made


@pytest.fixture
def pictures(tmp_path: Path) -> list[Picture]:
    return make_pictures(tmp_path / "pictures")


def by_hand(
    net: ImageEncoder, picture: Picture, settings: ViewSettings, rng: np.random.Generator | None = None
) -> Tensor:
    """(V, N, d) of one picture, one crop at a time."""
    square = resized(picture.open(), settings)
    outputs = []
    with torch.no_grad():
        for crop in chosen_crops(settings, rng):
            pixels = torch.from_numpy(cut(square, crop, settings.pixels).transpose(2, 0, 1).copy())[None]
            outputs.append(net.eval()(normalised(pixels, net.mean, net.std)).vectors[0])
    return torch.stack(outputs)


@pytest.mark.parametrize("name", ["1C", "10C"])
@pytest.mark.parametrize("output", ["pooled", "grid"])
def test_store_are_the_mean_over_the_crops(tmp_path: Path, pictures: list[Picture], name: str, output: str) -> None:
    net, settings = encoder(output), view(name)
    store = extract(net, SPEC, pictures, settings, tmp_path / "out", batch_size=4)
    assert store.axes == ["picture", "place", "feature"] if output == "grid" else ["picture", "feature"]
    assert store.features.dtype == np.float32
    for row, picture in zip(store.features, pictures):
        expected = by_hand(net, picture, settings).mean(0)
        np.testing.assert_allclose(row.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("output", ["pooled", "grid"])
def test_a_pool_of_random_crops_keeps_them_apart(tmp_path: Path, pictures: list[Picture], output: str) -> None:
    net, settings = encoder(output), view("RC")
    store = extract(net, SPEC, pictures, settings, tmp_path / "out", crops=3, seed=5, batch_size=4)
    assert store.axes == ["picture", "crop", *["place"] * (output == "grid"), "feature"]
    assert store.features.shape == (11, 3, *((16, 8) if output == "grid" else (8,)))
    rng = np.random.default_rng([5, 4])  # the second batch starts at row 4
    for row in (4, 5):
        for crop in range(3):
            expected = by_hand(net, pictures[row], settings, rng)[0]
            np.testing.assert_allclose(
                store.features[row, crop].reshape(expected.shape), expected, rtol=1e-4, atol=1e-5
            )


@pytest.mark.parametrize("output", ["pooled", "grid"])
@pytest.mark.parametrize(("name", "flip", "count"), [("10C", True, 10), ("1C", True, 2)])
def test_fixed_views_can_be_kept_apart(
    tmp_path: Path, pictures: list[Picture], output: str, name: str, flip: bool, count: int
) -> None:
    net, settings = encoder(output), view(name, flip=flip)
    store = extract(net, SPEC, pictures, settings, tmp_path / "out", keep_views=True, batch_size=4)
    assert store.axes == ["picture", "view", *["place"] * (output == "grid"), "feature"]
    for row, picture in zip(store.features, pictures):
        expected = by_hand(net, picture, settings)
        assert len(expected) == count
        np.testing.assert_allclose(row.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match="keep_views"):
        extract(net, SPEC, pictures, settings, tmp_path / "out")
    attached = store.attach(collection(pictures, tmp_path))
    assert attached.feature_views
    assert not attached.feature_crops


def test_a_single_view_has_no_axis_of_its_own(tmp_path: Path, pictures: list[Picture]) -> None:
    plain = extract(encoder(), SPEC, pictures, view(), tmp_path / "plain")
    kept = extract(encoder(), SPEC, pictures, view(), tmp_path / "kept", keep_views=True)
    assert kept.header == plain.header


def test_half_precision_stores_the_rounded_features(tmp_path: Path, pictures: list[Picture]) -> None:
    whole = extract(encoder(), SPEC, pictures, view(), tmp_path / "whole")
    half = extract(encoder(), SPEC, pictures, view(), tmp_path / "half", dtype="float16")
    assert half.features.dtype == np.float16
    assert np.array_equal(half.features, whole.features.astype(np.float16))


def test_the_encoder_is_left_in_the_mode_it_came_in_and_unchanged(tmp_path: Path, pictures: list[Picture]) -> None:
    net = encoder().train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    extract(net, SPEC, pictures, view(), tmp_path / "out")
    assert net.training
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def test_store_are_memory_mapped(tmp_path: Path, pictures: list[Picture]) -> None:
    extract(encoder(), SPEC, pictures, view(), tmp_path / "out")
    assert isinstance(FeatureStore.open(tmp_path / "out").features, np.memmap)


def test_progress_is_reported_to_the_end(tmp_path: Path, pictures: list[Picture]) -> None:
    calls: list[tuple[int, int]] = []
    extract(
        encoder(), SPEC, pictures, view(), tmp_path / "out", batch_size=4, progress=lambda *call: calls.append(call)
    )
    assert calls == [(4, 11), (8, 11), (11, 11)]


def test_a_finished_store_is_not_extracted_again(tmp_path: Path, pictures: list[Picture]) -> None:
    extract(encoder(), SPEC, pictures, view(), tmp_path / "out")
    before = {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in FILES}
    extract(encoder(), SPEC, pictures, view(), tmp_path / "out", progress=lambda *_: pytest.fail("worked again"))
    assert {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in FILES} == before


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("stop_after", [1, 4, 8, 10])
def test_whatever_the_row_it_stopped_at_it_goes_on_to_the_same_bytes(
    tmp_path: Path, pictures: list[Picture], stop_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "FLUSH_SECONDS", 0.0)
    options: dict[str, Any] = {"crops": 2, "batch_size": 2}
    extract(encoder(), SPEC, pictures, view("RC"), tmp_path / "whole", **options)

    def stop(done: int, _: int) -> None:
        if done >= stop_after:
            raise Interrupted

    with pytest.raises(Interrupted):
        extract(encoder(), SPEC, pictures, view("RC"), tmp_path / "out", progress=stop, **options)
    with pytest.raises(UserError, match=r"of 11 pictures are done\n.*again"):
        FeatureStore.open(tmp_path / "out")
    # The batches stay those of the first call, since the last bits of a row can depend on its batch.
    rows: list[int] = []
    extract(
        encoder(),
        SPEC,
        pictures,
        view("RC"),
        tmp_path / "out",
        crops=2,
        batch_size=5,
        progress=lambda r, _: rows.append(r),
    )
    assert rows == [*range(2 * -(-stop_after // 2) + 2, 11, 2), 11]
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.fixture
def always_worth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
    monkeypatch.setattr(images, "WORTH", 0)
    monkeypatch.setattr(images, "FEW", 0)
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("always_worth")
@pytest.mark.parametrize(("name", "output", "options"), [("10C", "grid", {}), ("RC", "pooled", {"crops": 3})])
def test_onnxruntime_gives_the_features_of_torch(
    tmp_path: Path, pictures: list[Picture], name: str, output: str, options: dict[str, int]
) -> None:
    net = encoder(output).train()
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    store = extract(net, SPEC, pictures, view(name), tmp_path / "out", batch_size=1, **options)
    assert store.header["engine"] == "onnxruntime"
    assert net.training
    assert (tmp_path / "cache" / "engines").is_dir()
    assert all(torch.equal(before[key], tensor) for key, tensor in net.state_dict().items())
    draws = options.get("crops", 1)
    for row, picture in enumerate(pictures):
        rng = np.random.default_rng([0, row])  # each picture is a batch
        drawn = torch.cat([by_hand(net, picture, view(name), rng) for _ in range(draws)])
        expected = drawn.squeeze(1) if options else drawn.mean(0)
        np.testing.assert_allclose(store.features[row], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("always_worth")
@pytest.mark.parametrize("at_once", [1, 3])
def test_what_one_engine_began_it_goes_on_with_to_the_same_bytes(
    tmp_path: Path, pictures: list[Picture], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr("vsekit.threads.choose", lambda most: at_once)

    def stop(done: int, _: int) -> None:
        if done >= 4:
            raise Interrupted

    for name, worth in (("onnxruntime", 0.0), ("torch", 1e30)):
        monkeypatch.setattr(images, "WORTH", worth)
        whole, out = tmp_path / f"whole-{name}", tmp_path / f"out-{name}"
        assert extract(encoder(), SPEC, pictures, view(), whole, batch_size=2).header["engine"] == name
        with pytest.raises(Interrupted):
            extract(encoder(), SPEC, pictures, view(), out, batch_size=2, progress=stop)
        monkeypatch.setattr(images, "WORTH", 1e30 - worth)  # another choice now, were it not kept
        extract(encoder(), SPEC, pictures, view(), out)
        for file in FILES:
            assert (out / file).read_bytes() == (whole / file).read_bytes(), file


@pytest.mark.usefixtures("always_worth")
def test_features_that_torch_made_stay_valid(tmp_path: Path, pictures: list[Picture]) -> None:
    """A store of before engines were noted, and sealed: finished, and begun."""
    whole = extract(encoder(), SPEC, pictures, view(), tmp_path / "whole", batch_size=2)
    marker = tmp_path / "whole" / "store.json"
    header = json.loads(marker.read_text())
    del header["engine"], header["sha256"]
    marker.write_text(json.dumps(header))
    extract(encoder(), SPEC, pictures, view(), tmp_path / "whole", progress=lambda *_: pytest.fail("worked again"))
    marker.write_text(json.dumps(header | {"rows": 4, "done": False}))
    again = extract(encoder(), SPEC, pictures, view(), tmp_path / "whole")
    assert again.header["engine"] == "torch"
    np.testing.assert_allclose(again.features, whole.features, rtol=1e-5, atol=1e-5)


KILLED = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
import test_store as t
t.features.FLUSH_SECONDS = 0.0
folder = Path(sys.argv[2])
pictures = t.make_pictures(folder / "pictures")
t.extract(t.encoder(), t.SPEC, pictures, t.view("10C"), folder / "out", batch_size=1)
"""


@pytest.mark.parametrize("operation", [1, 12, 25, 40])
def test_a_kill_in_the_middle_costs_nothing_but_the_last_rows(operation: int, tmp_path: Path) -> None:
    assert killed_at(operation, tmp_path / "out", KILLED, str(Path(__file__).parent), str(tmp_path))
    store = tmp_path / "out" / "store.json"
    done = json.loads(store.read_text())["rows"] if store.exists() else 0
    assert done < 11
    assert done > 0 or operation < 40

    pictures, rows = make_pictures(tmp_path / "pictures"), []
    extract(
        encoder(), SPEC, pictures, view("10C"), tmp_path / "out", batch_size=1, progress=lambda r, _: rows.append(r)
    )
    assert rows == list(range(done + 1, 12))
    extract(encoder(), SPEC, pictures, view("10C"), tmp_path / "whole", batch_size=1)
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_kill_before_the_first_marker_starts_over(tmp_path: Path, pictures: list[Picture]) -> None:
    whole = extract(encoder(), SPEC, pictures, view(), tmp_path / "whole")
    out = tmp_path / "out"
    out.mkdir()
    (out / "features.npy").write_bytes(b"half a header")
    (out / "ids.txt").write_text("something older\n")
    assert np.array_equal(extract(encoder(), SPEC, pictures, view(), out).features, whole.features)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"spec": {**SPEC, "widths": [4, 9]}}, r"other encoder: .*\[4, 8\].*\[4, 9\]"),
        ({"encoder": encoder(seed=1)}, "other weights"),
        ({"view": view("10C")}, "other view: .*1C.*10C"),
    ],
)
def test_a_store_of_another_encoder_or_view_is_refused(
    tmp_path: Path, pictures: list[Picture], change: dict[str, Any], word: str
) -> None:
    store = extract(encoder(), SPEC, pictures, view(), tmp_path / "out")
    same: dict[str, Any] = {"encoder": encoder(), "spec": SPEC, "view": view(), "pictures": pictures}
    store.check(**same)
    with pytest.raises(UserError, match=word) as raised:
        store.check(**same | change)
    assert "vse features" in str(raised.value)
    arguments: dict[str, Any] = same | change | {"out": tmp_path / "out"}
    with pytest.raises(UserError, match=word):
        extract(**arguments)


def test_changed_and_unknown_pictures_are_refused_by_name(tmp_path: Path, pictures: list[Picture]) -> None:
    store = extract(encoder(), SPEC, pictures, view(), tmp_path / "out")
    store.check(pictures=pictures[3:5])  # a split is a part of the collection
    Image.new("RGB", (8, 8)).save(tmp_path / "pictures" / "04.png")
    store.check(pictures=pictures[:4])
    with pytest.raises(UserError, match=r"picture '04\.png' changed"):
        store.check(pictures=pictures)
    with pytest.raises(UserError, match="other pictures"):
        extract(encoder(), SPEC, pictures, view(), tmp_path / "out")
    with pytest.raises(UserError, match=r"'new' not in these features"):
        store.check(pictures=[Picture(id="new", path=None, split="train", group="new")])


def test_a_copied_collection_still_matches(tmp_path: Path, pictures: list[Picture]) -> None:
    """Identity is what is in the file, not when or where it was written."""
    store = extract(encoder(), SPEC, pictures, view(), tmp_path / "out")
    store.check(pictures=make_pictures(tmp_path / "elsewhere"))


def test_pictures_inside_an_archive_have_their_own_identity(tmp_path: Path, pictures: list[Picture]) -> None:
    contents = [picture.read() for picture in pictures]
    archive = tmp_path / "shard.tar"
    archive.write_bytes(b"".join(contents))
    offsets = np.cumsum([0, *map(len, contents)])
    inside = [
        Picture(p.id, archive, "train", p.id, offset=int(offset), size=len(content))
        for p, offset, content in zip(pictures, offsets, contents)
    ]
    extract(encoder(), SPEC, pictures, view(), tmp_path / "out").check(pictures=inside)


def collection(pictures: list[Picture], root: Path) -> Pairs:
    return Pairs(pictures, [Caption(f"caption of {p.id}", i) for i, p in enumerate(pictures)], root)


def test_attached_pairs_point_at_their_rows(tmp_path: Path, pictures: list[Picture]) -> None:
    store = extract(encoder(), SPEC, pictures, view(), tmp_path / "out")
    pairs = store.attach(collection(pictures[::-1][:4], tmp_path))
    assert [p.row for p in pairs.pictures] == [10, 9, 8, 7]
    assert pairs.features is not None
    assert np.array_equal(pairs.features, store.features)
    assert pairs.captions[0].text == "caption of 10.png"
    with pytest.raises(UserError, match="'other' not in these features"):
        store.attach(collection([Picture("other", None, "train", "other")], tmp_path))


def test_ids_may_hold_any_character_but_a_line_break(tmp_path: Path, pictures: list[Picture]) -> None:
    odd = [replace(picture, id=f"{i}\u2028\r é") for i, picture in enumerate(pictures)]
    store = extract(encoder(), SPEC, odd, view(), tmp_path / "out")
    assert [p.row for p in store.attach(collection(odd, tmp_path)).pictures] == list(range(11))


def test_a_collection_without_pictures_has_nothing_to_extract(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="features only"):
        extract(encoder(), SPEC, [Picture("a", None, "train", "a")], view(), tmp_path / "out")


def test_all_broken_pictures_are_listed_and_can_be_skipped(tmp_path: Path, pictures: list[Picture]) -> None:
    for i in (2, 7):
        (tmp_path / "pictures" / f"{i:02d}.png").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"2 of 11 pictures.*\n.*02\.png: .*\n.*07\.png: .*\n.*--skip-broken"):
        extract(encoder(), SPEC, pictures, view(), tmp_path / "out")
    with pytest.raises(UserError, match="2 pictures could not be read"):
        FeatureStore.open(tmp_path / "out")
    # Everything else is done already.
    store = extract(
        encoder(), SPEC, pictures, view(), tmp_path / "out", skip_broken=True, progress=lambda *_: pytest.fail("again")
    )
    assert set(store.broken) == {"02.png", "07.png"}
    assert not store.features[[2, 7]].any()
    pairs = collection(pictures, tmp_path)
    with pytest.raises(UserError, match=r"2 pictures \('02\.png', '07\.png'\) could not be read"):
        store.attach(pairs)
    attached = store.attach(pairs, skip_broken=True)
    assert [p.row for p in attached.pictures] == [0, 1, 3, 4, 5, 6, 8, 9, 10]
    assert len(attached.captions) == 9


class Regions(ImageEncoder):
    """Two places a picture, of which a dark picture has one only."""

    dim, pixels, mean, std = 3, 16, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, pixels: Tensor) -> Sets:
        return self.regions(pixels)[0]

    def regions(self, pixels: Tensor) -> tuple[Sets, Tensor]:
        vectors = pixels.mean((2, 3))[:, None].repeat(1, 2, 1)
        mask = torch.stack([torch.ones(len(pixels)), vectors[:, 0, 0]], 1) > 0
        return Sets(vectors + 9 * ~mask[:, :, None], mask), torch.full((len(pixels), 2, 4), 0.25)


def test_region_encoders_keep_boxes_and_lengths(tmp_path: Path, pictures: list[Picture]) -> None:
    Image.new("RGB", (30, 30)).save(tmp_path / "pictures" / "03.png")
    store = extract(Regions(), {}, pictures, view(), tmp_path / "out", batch_size=4)
    assert store.array("lengths").tolist() == [2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 2]
    assert store.array("boxes").shape == (11, 2, 4)
    assert store.features.shape == (11, 2, 3)
    assert not store.features[3].any()  # dark, and zero where there is no region
    with pytest.raises(UserError, match="1C"):
        extract(Regions(), {}, pictures, view("10C"), tmp_path / "ten")


def test_view_and_encoder_must_agree_on_the_size(tmp_path: Path, pictures: list[Picture]) -> None:
    with pytest.raises(UserError, match="20 px, the encoder reads 16 px"):
        extract(encoder(), SPEC, pictures, view(pixels=20), tmp_path / "out")


def test_what_cannot_be_stored_is_refused_before_the_work(
    tmp_path: Path, pictures: list[Picture], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="no pictures"):
        extract(encoder(), SPEC, [], view(), tmp_path / "none")
    with pytest.raises(UserError, match="unique"):
        extract(encoder(), SPEC, [pictures[0], pictures[0]], view(), tmp_path / "twice")
    monkeypatch.setattr(features.shutil, "disk_usage", lambda _: type("", (), {"free": 100}))
    with pytest.raises(UserError, match="100 bytes are free"):
        extract(encoder(), SPEC, pictures, view(), tmp_path / "full")


def test_an_empty_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no features here"):
        FeatureStore.open(tmp_path)


def test_only_pictures_that_are_read_otherwise_than_before_count_as_changed(tmp_path: Path) -> None:
    """Features made before pictures were read through one door stay valid wherever they still are what they were."""
    for name, mode in (("a.jpg", "RGB"), ("b.png", "RGB"), ("c.png", "RGBA")):
        Image.new(mode, (9, 9)).save(tmp_path / name)
    pictures = [Picture(name, tmp_path / name, "", "") for name in ("a.jpg", "b.png", "c.png")]
    data = [(tmp_path / picture.id).read_bytes() for picture in pictures]
    before = [[len(each), zlib.crc32(each)] for each in data]
    same = (identities_of(pictures) == np.array(before)).all(1)
    assert same.tolist() == [True, True, False]
