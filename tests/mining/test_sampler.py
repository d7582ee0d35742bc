from __future__ import annotations

import numpy as np
import pytest

from vsekit.errors import UserError
from vsekit.mining.sampler import OfflineSampler

PICTURES, PER_PICTURE, H = 60, 5, 50
CAPTION_PICTURES = np.repeat(np.arange(PICTURES), PER_PICTURE)
#: every third picture shares its group with the one before
GROUPS = np.arange(PICTURES) - (np.arange(PICTURES) % 3 == 1)
CAPTION_GROUPS = GROUPS[CAPTION_PICTURES]


def lists(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random rankings of other groups' captions and pictures."""
    rng = np.random.default_rng(seed)
    captions = [rng.permutation(np.flatnonzero(g != CAPTION_GROUPS))[:H] for g in GROUPS]
    images = [rng.permutation(np.flatnonzero(g != GROUPS))[:H] for g in CAPTION_GROUPS]
    return np.array(captions, dtype=np.int32), np.array(images, dtype=np.int32)


def sampler(captions: np.ndarray, images: np.ndarray, **options: object) -> OfflineSampler:
    return OfflineSampler(captions, images, CAPTION_PICTURES, GROUPS, **options)


def batch(size: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    captions = np.random.default_rng(seed).integers(0, len(CAPTION_PICTURES), size)
    return CAPTION_PICTURES[captions], captions


def ranks(table: np.ndarray, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.argmax(table[rows] == values[:, None], axis=1)


@pytest.mark.parametrize("distribution", ["uniform", "normal"])
@pytest.mark.parametrize("tied", ["independent", "tied"])
def test_all_four_pairs_are_negatives_from_the_top_of_the_lists(distribution, tied):
    texts, images = lists()
    pictures, captions = batch(400)
    draws = sampler(texts, images, h=20, distribution=distribution, ranks=tied)
    drawn = draws.sample(pictures, captions, np.random.default_rng(2))
    assert (texts[pictures, :20] == drawn.caption[:, None]).any(axis=1).all()
    assert (images[captions, :4] == drawn.image[:, None]).any(axis=1).all()
    assert (CAPTION_GROUPS[drawn.caption] != GROUPS[drawn.image]).all()
    assert (drawn.partner_image == CAPTION_PICTURES[drawn.caption]).all()
    assert (CAPTION_PICTURES[drawn.partner_caption] == drawn.image).all()
    assert (GROUPS[drawn.partner_image] != CAPTION_GROUPS[drawn.partner_caption]).all()


def test_uniform_ranks_are_uniform_and_independent_and_every_caption_of_the_image_has_its_turn():
    texts, images = lists()
    pictures, captions = np.zeros(6000, dtype=int), np.zeros(6000, dtype=int)
    drawn = sampler(texts, images, h=20, h_images=10).sample(pictures, captions, np.random.default_rng(3))
    text_ranks, image_ranks = ranks(texts, pictures, drawn.caption), ranks(images, captions, drawn.image)
    assert (np.bincount(text_ranks, minlength=20) > 200).all()
    assert (np.bincount(text_ranks, minlength=20) < 400).all()
    assert (np.bincount(image_ranks, minlength=10) > 450).all()
    assert abs(np.corrcoef(text_ranks, image_ranks)[0, 1]) < 0.1
    assert (np.bincount(drawn.partner_caption % PER_PICTURE) > 1000).all()


def test_normal_ranks_spare_both_ends_of_the_list():
    texts, images = lists()
    pictures, captions = np.zeros(6000, dtype=int), np.zeros(6000, dtype=int)
    drawn = sampler(texts, images, h=20, distribution="normal").sample(pictures, captions, np.random.default_rng(3))
    counts = np.bincount(ranks(texts, pictures, drawn.caption), minlength=20)
    assert counts[:2].sum() + counts[-2:].sum() < 0.05 * 6000
    assert counts[7:13].sum() > 0.5 * 6000


def test_tied_ranks_take_caption_n_and_image_n_over_5():
    texts, images = lists()
    pictures, captions = batch(500)
    drawn = sampler(texts, images, h=50, ranks="tied").sample(pictures, captions, np.random.default_rng(4))
    assert (ranks(images, captions, drawn.image) == ranks(texts, pictures, drawn.caption) // 5).all()


def test_two_that_belong_together_are_drawn_again_and_searched_for_beyond_h_when_there_are_no_others():
    texts, images = lists()
    # The top two captions of picture 0 and the top image of caption 0 are of one group, so h = 2 has nothing to offer.
    texts[0, :4] = [250, 251, 100, 20]
    images[0, :3] = [50, 40, 30]
    drawn = sampler(texts, images, h=2, h_images=1).sample(np.array([0]), np.array([0]), np.random.default_rng(0))
    # The smallest sum of ranks that will do: caption 250 with the second image.
    assert (drawn.caption[0], drawn.image[0]) == (250, 40)


def test_flagged_pairs_never_come_up():
    texts, images = lists()
    rng = np.random.default_rng(5)
    skip = np.column_stack([rng.integers(0, PICTURES, 4000), rng.integers(0, 300, 4000)])
    flagged = {tuple(pair) for pair in skip.tolist()}
    pictures, captions = batch(300)
    drawn = sampler(texts, images, skip=skip).sample(pictures, captions, rng)
    for p, c, t, i, partner_i, partner_t in zip(pictures, captions, *drawn):
        assert not {(p, t), (i, c), (i, t), (partner_i, partner_t)} & flagged
    without = sampler(texts, images).sample(pictures, captions, rng)
    assert any((p, t) in flagged for p, t in zip(pictures, without.caption))


def test_flagged_pairs_leave_their_places_to_any_other_negatives():
    texts, images = lists()
    skip = np.column_stack([np.zeros(40, int), texts[0, :40]])  # of picture 0, all but the last ten captions
    pictures, captions = np.zeros(5000, dtype=int), np.zeros(5000, dtype=int)
    drawn = sampler(texts, images, skip=skip).sample(pictures, captions, np.random.default_rng(5))
    others = set(np.flatnonzero(GROUPS[0] != CAPTION_GROUPS).tolist())
    assert set(drawn.caption.tolist()) <= others - set(texts[0, :40].tolist())
    kept = np.bincount(drawn.caption, minlength=300)[texts[0, 40:]]
    assert kept.min() > 5000 / 50 * 0.7  # each as often as before; a place that may not be drawn gives to all others
    assert 0 < len(set(drawn.caption.tolist()) - set(texts[0].tolist())) <= 40


def test_where_a_whole_list_is_flagged_any_other_negatives_are_drawn():
    texts, images = lists()
    skip = np.column_stack([np.zeros(H, int), texts[0]])
    drawn = sampler(texts, images, skip=skip).sample(np.zeros(2000, int), np.zeros(2000, int), np.random.default_rng(6))
    assert not set(drawn.caption.tolist()) & set(texts[0].tolist())
    assert (CAPTION_GROUPS[drawn.caption] != GROUPS[0]).all()
    assert len(set(drawn.caption.tolist())) > 10


def test_short_lists_padded_with_minus_one_are_drawn_from_evenly():
    texts, images = lists()
    texts[:, 7:], images[:, 6:] = -1, -1
    pictures, captions = np.zeros(3000, dtype=int), np.zeros(3000, dtype=int)
    drawn = sampler(texts, images, h=300).sample(pictures, captions, np.random.default_rng(6))
    for values, kept in ((drawn.caption, texts[0, :7]), (drawn.image, images[0, :6])):
        counts = np.array([(values == value).sum() for value in kept])
        assert counts.sum() == 3000
        assert (abs(counts - 3000 / len(kept)) < 150).all()


def test_a_picture_without_captions_is_no_offline_negative():
    caption_pictures, groups = np.array([0, 1, 2]), np.arange(4)
    texts = np.array([[1, 2], [0, 2], [0, 1], [0, 1]], dtype=np.int32)
    images = np.array([[3, 2, 1], [3, 2, 0], [3, 1, 0]], dtype=np.int32)
    draws = OfflineSampler(texts, images, caption_pictures, groups, h=2, h_images=3)
    drawn = draws.sample(np.zeros(50, dtype=int), np.zeros(50, dtype=int), np.random.default_rng(0))
    assert set(drawn.image) == {1, 2}


def test_two_groups_have_no_offline_quintuplet_and_it_says_so():
    draws = OfflineSampler(np.array([[1], [0]]), np.array([[1], [0]]), np.arange(2), np.arange(2))
    with pytest.raises(UserError, match="more than two groups"):
        draws.sample(np.array([0]), np.array([0]), np.random.default_rng(0))


def test_the_seed_fixes_the_draw_and_lists_may_be_memory_mapped(tmp_path):
    pictures, captions = batch(50)
    for name, table in zip("ti", lists()):
        np.save(tmp_path / f"{name}.npy", table)
    mapped = sampler(*(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "ti"))
    first, again = (mapped.sample(pictures, captions, np.random.default_rng(7)) for _ in range(2))
    whole = sampler(*lists()).sample(pictures, captions, np.random.default_rng(7))
    for a, b, c in zip(first, again, whole):
        assert (a == b).all()
        assert (a == c).all()
