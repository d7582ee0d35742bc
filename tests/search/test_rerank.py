from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.models.conftest import VIEW, WORDS, sets, settings

from vsekit.data.readers import read
from vsekit.data.scenes import write_scenes
from vsekit.data.text import Ragged
from vsekit.errors import UserError
from vsekit.models.embed import embed_captions
from vsekit.models.model import VSE
from vsekit.search.items import Item
from vsekit.search.query import Query, parse
from vsekit.search.rerank import Reranker

FIRST = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[Item]:
    folder = write_scenes(tmp_path_factory.mktemp("scenes"), train=6, val=1, test=1, seed=0)
    pictures = read(folder).split("train").pictures
    return [Item(p.id, "image", str(p.path), picture=p.id, content=f"content {p.id}") for p in pictures[:6]]


def model(similarity: str = "scan") -> VSE:
    torch.manual_seed(0)
    return VSE(settings() if similarity == "cosine" else sets(similarity), WORDS, VIEW).eval()


def by_hand(vse: VSE, items: list[Item], text: str) -> np.ndarray:
    """One picture at a time: the middle of the resized picture, normalised, embedded, compared."""
    scores = []
    for item in items:
        with Image.open(item.path) as image:
            image.draft("RGB", (40, 40))
            small = np.asarray(image.convert("RGB").resize((20, 20), Image.Resampling.BILINEAR))[2:18, 2:18]
        encoder = vse.image.encoder
        pixels = (small / 255 - np.array(encoder.mean)) / np.array(encoder.std)
        with torch.inference_mode():
            image_sets = vse.embed_images(torch.from_numpy(pixels).float().permute(2, 0, 1)[None])
            captions = embed_captions(vse, Ragged.of(vse.tokenizer([text])))
            scores.append(float(vse.similarity(image_sets, captions)))
    return np.array(scores)


@pytest.mark.parametrize("similarity", ["scan", "bfan", "cosine"])
def test_scores_and_order_are_those_worked_out_by_hand(similarity: str, items: list[Item]) -> None:
    vse = model(similarity)
    expected = by_hand(vse, items, "a red wall")
    reranker = Reranker(vse, batch_size=4)
    np.testing.assert_allclose(reranker.scores(parse("a red wall"), items), expected, atol=1e-5)
    fused = 0.75 * (expected - expected.mean()) / expected.std() + 0.25 * (FIRST - FIRST.mean()) / FIRST.std()
    assert reranker.order(parse("a red wall"), items, FIRST) == np.argsort(-fused).tolist()


def test_a_sum_is_scored_term_by_term(items: list[Item]) -> None:
    vse = model()
    expected = by_hand(vse, items, "red") - 0.5 * by_hand(vse, items, "dog")
    np.testing.assert_allclose(Reranker(vse).scores(parse('"red" - 0.5*"dog"'), items), expected, atol=1e-5)


def test_captions_are_scored_with_the_picture_that_asks(items: list[Item]) -> None:
    vse = model()
    captions = [Item(f"c{i}", "caption", text=text) for i, text in enumerate(("a dog", "red wall", "blue"))]
    expected = [by_hand(vse, items[:1], caption.text)[0] for caption in captions]
    for query, named in (
        (Query.of("picture", Path(items[0].path)), {}),
        (Query.of("item", items[0].id), {items[0].id: items[0]}),
    ):
        np.testing.assert_allclose(Reranker(vse).scores(query, captions, named), expected, atol=1e-5)


def test_pictures_are_not_re_ranked_by_pictures(items: list[Item]) -> None:
    with pytest.raises(UserError, match="pictures are re-ranked by words alone"):
        Reranker(model()).scores(Query.of("picture", Path(items[0].path)), items)


def test_pictures_that_cannot_be_read_come_last_in_their_old_order(items: list[Item], tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no picture")
    mixed = [Item("gone", "image", "/nowhere.jpg"), items[0], Item("broken", "image", str(broken)), items[1]]
    order = Reranker(model()).order(parse("red"), mixed, np.array([0.9, 0.8, 0.7, 0.6]))
    assert order[2:] == [0, 2]
    assert Reranker(model()).order(parse("red"), mixed[:1], np.array([0.9])) == [0]


def counting(reranker: Reranker) -> list[int]:
    """How many pictures each later call encodes."""
    calls: list[int] = []
    encode = reranker.embedder.encode_images

    def count(images, **options):  # type: ignore[no-untyped-def]
        calls.append(len(images))
        return encode(images, **options)

    reranker.embedder.encode_images = count  # type: ignore[method-assign]
    return calls


def test_a_picture_is_encoded_once_and_in_batches(items: list[Item]) -> None:
    reranker = Reranker(model(), batch_size=4)
    calls = counting(reranker)
    first = reranker.scores(parse("red"), items)
    np.testing.assert_array_equal(reranker.scores(parse("red"), items), first)
    assert calls == [4, 2]


def test_memory_is_bounded(items: list[Item]) -> None:
    reranker = Reranker(model())
    one = reranker.embedded(items[:1])[0]
    assert one is not None
    small = Reranker(model(), cache_bytes=2 * one.nbytes)
    calls = counting(small)
    small.embedded(items)
    small.embedded(items[-2:])
    small.embedded(items[:1])
    assert calls == [6, 1]
    assert small._bytes <= 2 * one.nbytes


def test_a_folder_keeps_embeddings_and_a_changed_picture_is_read_again(items: list[Item], tmp_path: Path) -> None:
    first = Reranker(model(), folder=tmp_path).scores(parse("red"), items)
    later = Reranker(model(), folder=tmp_path)
    calls = counting(later)
    np.testing.assert_array_equal(later.scores(parse("red"), items), first)
    assert calls == []
    later.embedded([Item(items[0].id, "image", items[0].path, content="other")])
    assert calls == [1]
    another = Reranker(model("bfan"), folder=tmp_path)
    calls = counting(another)
    another.embedded(items)
    assert calls == [6]


def test_a_kept_embedding_that_was_cut_off_is_made_again(items: list[Item], tmp_path: Path) -> None:
    first = Reranker(model(), folder=tmp_path).embedded(items[:1])[0]
    (file,) = tmp_path.rglob("*.npy")
    file.write_bytes(file.read_bytes()[:50])
    again = Reranker(model(), folder=tmp_path).embedded(items[:1])[0]
    np.testing.assert_array_equal(again, first)


def test_nothing_found_is_nothing_to_re_rank() -> None:
    assert Reranker(model()).order(parse("red"), [], np.zeros(0)) == []


def test_unreadable_pictures_are_last_whatever_the_weights(items: list[Item]) -> None:
    scores = Reranker(model()).scores(parse('"red" - 2*"dog"'), [Item("gone", "image", "/nowhere.jpg"), items[0]])
    assert scores[0] == -np.inf
    assert np.isfinite(scores[1])


def test_an_item_that_asks_must_be_readable() -> None:
    gone = Item("gone", "image", "/nowhere.jpg")
    with pytest.raises(UserError, match="item gone can't be read"):
        Reranker(model()).scores(Query.of("item", "gone"), [Item("c", "caption", text="red")], {"gone": gone})
