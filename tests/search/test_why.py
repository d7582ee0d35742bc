from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, sets
from tests.search.memory import CountingModel, store_of

from vsekit.data.views import ViewSettings, crops, resized
from vsekit.diagnostics.attention import attention, grid_boxes
from vsekit.models.model import VSE
from vsekit.parts import Sets
from vsekit.search.items import Item
from vsekit.search.query import Query, Term
from vsekit.search.rerank import Reranker
from vsekit.search.searcher import Searcher
from vsekit.search.why import Why, Word, drawn, in_picture, regions

RED = Image.new("RGB", (4, 4), (255, 0, 0))


@pytest.fixture
def searcher() -> Searcher:
    model = CountingModel()
    pictures = {"red": RED, "mix": Image.new("RGB", (4, 4), (255, 255, 0))}
    return Searcher(store_of(model, pictures, {"red#0": ("red", "a red wall")}), model)  # type: ignore[arg-type]


def weights(why: Why) -> dict[str, float]:
    return {word.word: word.weight for word in why.words}


def test_a_words_weight_is_what_the_score_loses_without_it(searcher: Searcher) -> None:
    why = searcher.why("a red wall", "red")  # (red, a, wall)/√3 against red
    assert why.score == pytest.approx(3**-0.5)
    assert weights(why) == pytest.approx({"a": 3**-0.5 - 2**-0.5, "red": 3**-0.5, "wall": 3**-0.5 - 2**-0.5})
    assert [word.word for word in why.top] == ["red"]
    assert why.boxes == {}


def test_the_whole_query_is_the_weight_of_its_only_word(searcher: Searcher) -> None:
    assert weights(searcher.why("red", "red")) == pytest.approx({"red": 1.0})


def test_terms_of_a_sum_are_weighed_each(searcher: Searcher) -> None:
    why = searcher.why('"red" + item:mix', "red")  # mix = (1, 1)/√2
    total = np.array([1 + 2**-0.5, 2**-0.5])
    score = total[0] / np.linalg.norm(total)
    assert why.score == pytest.approx(score)
    assert weights(why) == pytest.approx({"red": score - 2**-0.5, "item:mix": score - 1})


def test_words_the_model_does_not_know_weigh_nothing(searcher: Searcher) -> None:
    assert weights(searcher.why("red zebra", "red")) == pytest.approx({"red": 1.0, "zebra": 0.0})


def test_for_a_caption_found_with_a_picture_its_own_words_are_weighed(searcher: Searcher) -> None:
    why = searcher.why(Query.of("picture", RED), "red#0")
    assert weights(why) == pytest.approx({"a": 3**-0.5 - 2**-0.5, "red": 3**-0.5, "wall": 3**-0.5 - 2**-0.5})
    assert why.score == pytest.approx(3**-0.5)


def test_all_variants_are_encoded_in_one_call(searcher: Searcher) -> None:
    model: CountingModel = searcher.model  # type: ignore[assignment]
    model.encoded.clear()
    searcher.why("a red wall", "red")
    assert model.encoded == [["a red wall", "red wall", "a wall", "a red"]]


@pytest.mark.parametrize("keep_aspect", [False, True])
@pytest.mark.parametrize("size", [(200, 100), (60, 180), (128, 128)])
def test_boxes_of_the_view_lie_where_its_pixels_came_from(size: tuple[int, int], keep_aspect: bool) -> None:
    """A picture whose colours are its coordinates: the pixel in the middle of a box shows where it was."""
    view = ViewSettings(kind="1C", resize=64, pixels=48, flip=False, keep_aspect=keep_aspect)
    width, height = size
    x, y = np.meshgrid((np.arange(width) + 0.5) / width, (np.arange(height) + 0.5) / height)
    picture = Image.fromarray((np.stack([x, y, 0 * x], axis=-1) * 255).astype(np.uint8))
    seen = crops(resized(picture, view), view)[0] / 255  # (3, 48, 48)
    boxes = grid_boxes(16)
    assert boxes is not None
    for (x0, y0, x1, y1), (a, b, c, d) in zip(in_picture(boxes, view, width, height), boxes):
        across, down = int((a + c) / 2 * 48), int((b + d) / 2 * 48)
        assert ((x0 + x1) / 2, (y0 + y1) / 2) == pytest.approx(seen[:2, down, across], abs=0.03)


@pytest.fixture
def reranker() -> Reranker:
    torch.manual_seed(0)
    return Reranker(VSE(sets("scan"), WORDS, VIEW).eval())


@pytest.fixture
def item(tmp_path: Path) -> Item:
    noise = np.random.default_rng(0).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    return Item("a", "image", str(tmp_path / "a.png"), picture="a", width=40, height=30)


def test_a_words_boxes_are_the_cells_it_attends_to_most(reranker: Reranker, item: Item) -> None:
    found = regions(reranker, item, "a red dog")
    assert set(found) == {"a", "red", "dog"}
    vectors = reranker.embedded([item])[0]
    assert vectors is not None
    n = len(vectors)
    expected = attention(
        reranker.embedder.model, Sets(torch.from_numpy(vectors)[None], torch.ones(1, n, dtype=torch.bool)), "a red dog"
    )
    side, place = round(n**0.5), expected.words.index("red")
    best = int(np.argmax(expected.weights[place]))
    left, top = best % side / side, best // side / side
    x0, y0, _, _, weight = found["red"][0]
    assert (x0, y0) == pytest.approx(((2 + 16 * left) / 20, (2 + 16 * top) / 20))  # 16 px of 20, cut from the middle
    assert weight == pytest.approx(max(expected.weights[place]))
    for boxes in found.values():
        assert [box[4] for box in boxes] == sorted((box[4] for box in boxes), reverse=True)
        assert all(box[4] >= 1 / n for box in boxes)


def test_the_searcher_gives_the_boxes_of_its_reranker(reranker: Reranker, item: Item) -> None:
    model = CountingModel()
    store = store_of(model, {"a": RED})
    store.update([item])
    searcher = Searcher(store, model, reranker)  # type: ignore[arg-type]
    assert searcher.why("a red dog", "a").boxes == regions(reranker, item, "a red dog")


def test_several_crops_at_once_have_no_one_place(item: Item) -> None:
    torch.manual_seed(0)
    ten = ViewSettings.model_validate({"kind": "10C", "resize": 20, "pixels": 16})
    assert regions(Reranker(VSE(sets("scan"), WORDS, ten).eval()), item, "a red dog") == {}


def test_regions_are_drawn_in_their_place_and_the_words_below() -> None:
    why = Why(0.5, [Word("Dog,", 0.3), Word("a", -0.1)], {"dog": [(0.5, 0.0, 1.0, 0.5, 0.8)], "a": [(0, 0, 1, 1, 1.0)]})
    grey = Image.new("RGB", (400, 400), (128, 128, 128))
    sheet = drawn(grey, why)
    assert sheet.width == 400
    assert sheet.height > 400
    assert sheet.getpixel((300, 100)) != (128, 128, 128)
    assert sheet.getpixel((100, 300)) == (128, 128, 128)  # "a" speaks against the match and is not drawn
    assert np.asarray(sheet)[400:].min() < 200


def test_a_small_picture_is_enlarged_to_be_written_on() -> None:
    assert drawn(Image.new("RGB", (40, 20)), Why(0, [], {})).width == 320


def test_a_caption_found_with_a_picture_is_shown_in_that_picture(reranker: Reranker, item: Item) -> None:
    model = CountingModel()
    store = store_of(model, {"a": RED}, {"a#0": ("a", "a red dog")})
    store.update([item])
    found = Searcher(store, model, reranker).why(Query.of("item", "a"), "a#0")  # type: ignore[arg-type]
    assert found.boxes == regions(reranker, item, "a red dog") != {}


def test_a_picture_of_a_sum_is_called_by_its_files_name(searcher: Searcher, tmp_path: Path) -> None:
    RED.save(tmp_path / "wall.png")
    picture = Term(1.0, "picture", tmp_path / "wall.png")
    assert [word.word for word in searcher.why(Query((picture,)), "red").words] == ["wall.png"]
    assert [word.word for word in searcher.why(Query((replace(picture, value=RED),)), "red").words] == ["picture"]
