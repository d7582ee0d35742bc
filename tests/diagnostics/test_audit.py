from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.diagnostics.audit import Audit, audit
from vsekit.diagnostics.scores import ScoreMatrix
from vsekit.errors import UserError
from vsekit.report.audit import audit_page

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def planted(tmp_path: Path) -> tuple[Pairs, np.ndarray, np.ndarray]:
    """Five pictures with three captions each; four faults: see the test."""
    pictures, captions = [], []
    for i in range(5):
        path = tmp_path / f"{i}.png"
        Image.new("RGB", (8, 8), (40 * (0 if i == 4 else i), 90, 90)).save(path)  # 4 is a copy of 0
        pictures.append(Picture(f"<b>{i}.png", path, "train", str(i)))
        captions += [Caption(f"picture number {i} says {word}", i) for word in ("dog", "cat", HOSTILE)]
    captions[3] = Caption("Picture number 0 says DOG!", 1)  # as caption 0
    scores = np.zeros((5, 15), np.float32)
    scores[np.arange(5).repeat(3), np.arange(15)] = 0.6
    scores[3, 8] = 0.9  # picture 3 prefers a caption of picture 2
    scores[2, 7] = 0.1  # and this caption does not fit its own
    return Pairs(pictures, captions, tmp_path), scores, np.eye(5, dtype=np.float32)


def test_every_planted_fault_is_found_and_nothing_else(planted: tuple[Pairs, np.ndarray, np.ndarray]) -> None:
    pairs, scores, vectors = planted
    found = audit(ScoreMatrix(scores), pairs, vectors).to_dict()
    assert set(found["counts"].values()) == {1}
    false, low, caption, picture = json.loads(json.dumps(found["pairs"]))
    assert (false["reason"], false["picture"], false["caption_index"]) == ("false-negative", "<b>3.png", 8)
    assert (false["caption_picture"], false["caption"]) == ("<b>2.png", f"picture number 2 says {HOSTILE}")
    assert (false["score"], false["positive_score"]) == pytest.approx((0.9, 0.6))
    assert (low["reason"], low["picture"], low["caption_index"]) == ("low-caption", "<b>2.png", 7)
    assert (caption["reason"], caption["own_caption_index"], caption["caption_index"]) == ("same-caption", 0, 3)
    assert (picture["reason"], picture["picture"], picture["other_picture"]) == ("same-picture", "<b>0.png", "<b>4.png")


def test_the_page_shows_pictures_and_trusts_no_text(planted: tuple[Pairs, np.ndarray, np.ndarray]) -> None:
    pairs, scores, vectors = planted
    found: Audit = audit(ScoreMatrix(scores), pairs, vectors)
    html = audit_page(found)
    tags: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert all("//" not in (value or "") or value.startswith("data:") for _, value in attrs if value)

    Reader().feed(html)
    assert "script" not in tags
    assert html.count("<b>") == 4  # the figures of the four kinds; ids are escaped
    assert tags.count("img") == 7  # 2 + 1 + 2 + 2
    assert "1 more" not in html


def test_a_long_list_is_cut_and_says_so(planted: tuple[Pairs, np.ndarray, np.ndarray]) -> None:
    pairs, _, vectors = planted
    scores = np.ones((5, 15), np.float32)
    scores[np.arange(5).repeat(3), np.arange(15)] = 0.0  # every picture prefers all others
    found = audit(ScoreMatrix(scores), pairs, vectors)
    assert "… and 3 more." in audit_page(found, top=2)
    assert len([p for p in found.to_dict(2)["pairs"] if p["reason"] == "false-negative"]) == 2


def test_collections_of_features_are_audited_by_name(planted: tuple[Pairs, np.ndarray, np.ndarray]) -> None:
    pairs, scores, vectors = planted
    blind = replace(pairs, pictures=[replace(p, path=None) for p in pairs.pictures])
    found = audit(ScoreMatrix(scores), blind, vectors)
    assert found.counts["duplicate_pictures"] == 0
    assert "&lt;b&gt;3.png" in audit_page(found)


def test_a_split_without_captions_is_a_persons_mistake(planted: tuple[Pairs, np.ndarray, np.ndarray]) -> None:
    pairs, _, vectors = planted
    with pytest.raises(UserError, match="no captions"):
        audit(ScoreMatrix(np.zeros((5, 0), np.float32)), replace(pairs, captions=[]), vectors)
