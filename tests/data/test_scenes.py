"""The generated collection: truth of the captions, twins, held-out combinations, pictures, files."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from vsekit.data.scenes import HELD_OUT, combinations, draw, holds, scenes, write_scenes
from vsekit.errors import UserError

COUNTS = {"train": 300, "val": 60, "test": 60}

#: What each word of a caption claims about a thing, written down apart from the generator's own tables.
CLAIMS = {
    "a": "count 1", "an": "count 1", "one": "count 1", "two": "count 2", "pair": "count 2",
    "three": "count 3", "four": "count 4",
    "big": "size big", "large": "size big", "small": "size small", "little": "size small", "tiny": "size small",
    "matte": "texture matte", "dull": "texture matte", "shiny": "texture shiny", "glossy": "texture shiny",
    "rough": "texture rough", "grainy": "texture rough",
    "plain": "pattern plain", "striped": "pattern striped", "stripes": "pattern striped",
    "dotted": "pattern dotted", "spotted": "pattern dotted", "dots": "pattern dotted",
    "checked": "pattern checked", "checkered": "pattern checked", "checks": "pattern checked",
    **{c: f"colour {c}" for c in ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black")},
    "violet": "colour purple",
    **{s: f"shape {s}" for s in ("circle", "square", "triangle", "star", "heart", "cross", "ring", "moon")},
    "disc": "shape circle", "hoop": "shape ring", "crescent": "shape moon",
    "cloudy": "background sky", "clouds": "background sky", "grass": "background grass", "lawn": "background grass",
    "sand": "background sand", "beach": "background sand", "night": "background night", "dark": "background night",
    "water": "background water", "sea": "background water", "snow": "background snow",
    "bricks": "background bricks", "brick": "background bricks", "wood": "background wood", "wooden": "background wood",
}  # fmt: skip


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = write_scenes(tmp_path_factory.mktemp("scenes"), **COUNTS, seed=3, pixels=32)
    return json.loads(path.read_text())


def of_split(collection: dict[str, Any], split: str) -> list[dict[str, Any]]:
    return [image for image in collection["images"] if image["split"] == split]


def twins(collection: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Both orders of every pair of twins."""
    out = []
    for split in COUNTS:
        images = of_split(collection, split)
        out += [(images[i], images[i ^ 1]) for i in range(len(images)) if images[i]["scene"]["changed"]]
    return out


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Truth


def thing(at: list[float], **attributes: Any) -> dict[str, Any]:
    usual = {"count": 1, "size": "big", "texture": "matte", "pattern": "plain", "colour": "red", "shape": "star"}
    return usual | attributes | {"at": at}


TWO_STARS_LEFT_OF_A_RING = {
    "background": "sand",
    "things": [thing([0.25, 0.5], count=2), thing([0.75, 0.5], shape="ring", colour="blue", size="small")],
}


@pytest.mark.parametrize(
    ("facts", "true"),
    [
        ([], True),
        ([["background", "sand"]], True),
        ([["background", "snow"]], False),
        ([["shape", 0, "ring"], ["colour", 0, "blue"]], True),
        ([["shape", 0, "ring"], ["colour", 0, "red"]], False),  # red is there, and a ring, but no red ring
        ([["shape", 0, "ring"], ["colour", 1, "red"]], True),
        ([["shape", 0, "ring"], ["colour", 1, "blue"]], False),  # two things are meant, and only one is blue
        ([["shape", 2, "ring"], ["shape", 1, "star"], ["right of", 2, 1]], True),
        ([["shape", 2, "ring"], ["shape", 1, "star"], ["left of", 2, 1]], False),
        ([["shape", 0, "star"], ["shape", 1, "ring"], ["above", 0, 1]], False),
        ([["beside", 0, 1]], True),
        ([["shape", 0, "star"], ["more than", 0, 1], ["bigger than", 0, 1]], True),
        ([["shape", 0, "ring"], ["more than", 0, 1]], False),
        ([["shape", 0, "ring"], ["bigger than", 0, 1]], False),
        ([["many", 0], ["shape", 0, "star"]], True),
        ([["many", 0], ["shape", 0, "ring"]], False),
        ([["count", 0, 2], ["place", 0, "left"]], True),
        ([["count", 0, 2], ["place", 0, "top"]], False),  # it stands half way up
        ([["count", 0, 1], ["count", 1, 2], ["count", 2, 2]], False),  # three things are meant
    ],
)
def test_facts_hold_as_a_person_would_say(facts: list[Any], true: bool) -> None:
    assert holds(facts, TWO_STARS_LEFT_OF_A_RING) is true


def test_an_unknown_fact_is_an_error_and_not_false() -> None:
    with pytest.raises(ValueError, match="not a fact"):
        holds([["weight", 0, "heavy"]], TWO_STARS_LEFT_OF_A_RING)


def test_every_caption_is_true_of_its_own_picture(collection: dict[str, Any]) -> None:
    assert all(holds(s["facts"], image["scene"]) for image in collection["images"] for s in image["sentences"])


def test_most_captions_are_false_of_most_other_pictures(collection: dict[str, Any]) -> None:
    images = of_split(collection, "test")
    pairs = [(s, other) for image in images for s in image["sentences"] for other in images if other is not image]
    assert np.mean([holds(s["facts"], other["scene"]) for s, other in pairs]) < 0.02


def singular(word: str) -> str:
    return word if word in CLAIMS else word.removesuffix("es" if word == "crosses" else "s")


def test_the_words_of_a_caption_claim_its_facts_and_nothing_else(collection: dict[str, Any]) -> None:
    seen: set[str] = set()
    for image in collection["images"]:
        for sentence in image["sentences"]:
            # A determiner of the background, "to the right of" and "a pair" are no counts.
            text = sentence["raw"].rstrip(".").replace(",", "").lower().replace("a pair", "pair")
            for phrase in ("in a cloudy sky", "on a lawn", "on a brick wall", "on a wooden table"):
                text = text.replace(phrase, phrase.replace(" a ", " "))
            said = {CLAIMS[word] for word in map(singular, text.split()) if word in CLAIMS}
            facts = {f"{fact[0]} {fact[-1]}" for fact in sentence["facts"]}
            assert said == facts & set(CLAIMS.values()), sentence
            seen |= said
    assert seen == set(CLAIMS.values())


def test_the_order_of_the_words_says_which_thing_is_where(collection: dict[str, Any]) -> None:
    signs = {"left": (-1, 0), "right": (1, 0), "above": (0, -1), "over": (0, -1)}
    signs |= dict.fromkeys(("below", "under", "beneath"), (0, 1))
    seen = set()
    for image in collection["images"]:
        at = {f"shape {t['shape']}": np.array(t["at"]) for t in image["scene"]["things"]}
        for sentence in image["sentences"]:
            words = [CLAIMS.get(singular(word), word) for word in sentence["tokens"]]
            nouns = [word for word in words if word in at]
            relation = [word for word in words if word in signs]
            if (
                len(nouns) == 2
                and len(relation) == 1
                and words.index(nouns[0]) < words.index(relation[0]) < words.index(nouns[1])
            ):
                assert np.sign(at[nouns[0]] - at[nouns[1]]).tolist() == list(signs[relation[0]]), sentence
                seen |= set(relation)
    assert seen == set(signs)


def test_five_captions_name_different_facts_in_5_to_18_words(collection: dict[str, Any]) -> None:
    for image in collection["images"]:
        sentences = image["sentences"]
        assert len(sentences) == 5
        assert len({s["raw"] for s in sentences}) == 5
        assert len({frozenset(map(str, s["facts"])) for s in sentences}) == 5
        for sentence in sentences:
            assert 5 <= len(sentence["tokens"]) <= 18
            assert sentence["raw"].lower().replace(",", "").rstrip(".").split() == sentence["tokens"]
    vocabulary = {word for image in collection["images"] for s in image["sentences"] for word in s["tokens"]}
    assert 80 <= len(vocabulary) <= 120


def test_the_first_caption_identifies_nearly_every_picture(collection: dict[str, Any]) -> None:
    images = of_split(collection, "train")[:150]
    true = [sum(holds(image["sentences"][0]["facts"], other["scene"]) for other in images) for image in images]
    assert np.mean(np.array(true) == 1) > 0.99


# Twins


def test_twins_differ_in_the_one_fact_they_are_marked_with(collection: dict[str, Any]) -> None:
    kinds = set()
    for image, other in twins(collection):
        a, b = image["scene"], other["scene"]
        assert a["changed"] == b["changed"]
        assert a["look"] == b["look"]
        differing = [["background"]] * (a["background"] != b["background"])
        for i, (one, two) in enumerate(zip(a["things"], b["things"], strict=True)):
            differing += [[key, i] for key in one if one[key] != two[key]]
        if a["changed"] == ["at"]:
            assert differing == [["at", 0], ["at", 1]]
            assert [t["at"] for t in a["things"]] == [t["at"] for t in reversed(b["things"])]
        else:
            assert differing == [a["changed"]]
        kinds.add(a["changed"][0])
    assert kinds == {"count", "size", "texture", "pattern", "colour", "shape", "background", "at"}


def test_captions_that_name_what_changed_are_false_of_the_twin_and_the_others_true(collection: dict[str, Any]) -> None:
    false = 0
    for image, other in twins(collection):
        what, *of = image["scene"]["changed"]
        for number, sentence in enumerate(image["sentences"]):
            named = {tuple(fact[:2]) for fact in sentence["facts"]}
            relations = {fact[0] for fact in sentence["facts"]}
            if what == "background":
                names_it = "background" in relations
            elif what == "at":
                names_it = bool(relations & {"left of", "right of", "above", "below", "place"})
            else:
                names_it = (what, *of) in named
                # These hint at a count or a size without naming it, and may be true of both.
                if relations & {"many", "more than", "bigger than"} and not names_it:
                    continue
            assert holds(sentence["facts"], other["scene"]) is not names_it
            assert names_it or number >= 2, "the first two captions of a twin name what changed"
            false += names_it
    assert false > 2 * len(twins(collection))


def test_the_first_two_captions_of_twins_differ_in_that_fact_alone(collection: dict[str, Any]) -> None:
    for image, other in twins(collection):
        for one, two in zip(image["sentences"][:2], other["sentences"][:2]):
            differing = [(a, b) for a, b in zip(one["facts"], two["facts"], strict=True) if a != b]
            assert differing
            if image["scene"]["changed"] != ["at"]:
                assert len(differing) == 1
            if image["scene"]["changed"][0] in ("texture", "size", "colour"):
                words = zip(one["tokens"], two["tokens"], strict=True)
                assert sum(a != b for a, b in words if {a, b} != {"a", "an"}) == 1


@pytest.mark.parametrize("share", [0.0, 0.25, 0.3, 1.0])
def test_hard_share_is_the_share_of_scenes_with_a_twin(share: float) -> None:
    flat = [scene for pair in islice(scenes("train", 0, share), 200) for scene in pair]
    assert np.mean([scene["changed"] is not None for scene in flat]) == pytest.approx(share, abs=0.005)


# Splits


def test_held_out_combinations_stay_in_their_split_and_are_in_each_of_its_scenes(collection: dict[str, Any]) -> None:
    assert not HELD_OUT["val"] & HELD_OUT["test"]
    for split in ("val", "test"):
        for other in COUNTS:
            for image in of_split(collection, other):
                assert bool(combinations(image["scene"]) & HELD_OUT[split]) == (split == other)
        kinds = {
            "colour" if value in CLAIMS and CLAIMS[value].startswith("colour") else "pattern"
            for _, value in HELD_OUT[split]
        }
        assert kinds == {"colour", "pattern"}


def test_train_shows_every_single_value_and_all_other_combinations(collection: dict[str, Any]) -> None:
    train = [image["scene"] for image in of_split(collection, "train")]
    values = {key: {t[key] for scene in train for t in scene["things"]} for key in train[0]["things"][0] if key != "at"}
    assert {key: len(found) for key, found in values.items()} == {
        "count": 4, "size": 2, "texture": 3, "pattern": 4, "colour": 8, "shape": 8,
    }  # fmt: skip
    assert len({scene["background"] for scene in train}) == 8
    pairs = {(s, v) for s in values["shape"] for v in values["colour"] | values["pattern"]}
    assert set().union(*map(combinations, train)) == pairs - HELD_OUT["val"] - HELD_OUT["test"]


# Pictures


def stickers(scene: dict[str, Any], pixels: int = 192) -> tuple[np.ndarray, np.ndarray, int]:
    """The picture, and the areas its white rims enclose, numbered."""
    rgb = np.asarray(draw({**scene, "background": "grass"}, pixels)).astype(int)
    areas, n = ndimage.label(ndimage.binary_fill_holes(rgb.min(2) > 170))
    sizes = ndimage.sum_labels(np.ones_like(areas), areas, range(1, n + 1))
    large = [i + 1 for i, size in enumerate(sizes) if size > 150]
    return rgb, np.where(np.isin(areas, large), areas, 0), len(large)


def some_scenes(n: int) -> list[dict[str, Any]]:
    return [scene for pair in islice(scenes("train", 8, 0.0), n // 2) for scene in pair]


def test_a_picture_shows_as_many_objects_as_its_scene_has_each_in_its_place() -> None:
    for scene in some_scenes(60):
        _, areas, n = stickers(scene)
        assert n == sum(t["count"] for t in scene["things"])
        centres = np.array(ndimage.center_of_mass(areas > 0, areas, np.unique(areas)[1:]))[:, ::-1] / 192
        for t in scene["things"]:
            room = [0.25 if at != 0.5 else 0.5 for at in t["at"]]
            assert np.all(np.abs(centres - t["at"]) < room, axis=1).sum() == t["count"]


def test_plain_objects_have_the_colour_they_are_said_to_have() -> None:
    css = {
        "red": (255, 0, 0), "orange": (255, 140, 0), "yellow": (255, 255, 0), "green": (0, 128, 0),
        "blue": (0, 0, 255), "purple": (128, 0, 128), "pink": (255, 105, 180), "black": (0, 0, 0),
    }  # fmt: skip
    for colour in css:
        squares = [thing([x, 0.5], shape="square", colour=colour) for x in (0.25, 0.75)]
        rgb, areas, _ = stickers({"things": squares, "look": 5})
        middle = np.median(rgb[areas > 0], axis=0)
        assert min(css, key=lambda name: np.abs(middle - css[name]).sum()) == colour


def test_big_objects_are_at_least_twice_as_large_as_small_ones_of_their_shape() -> None:
    for shape in ("circle", "square", "triangle", "star", "heart", "cross", "ring", "moon"):
        pair = [thing([0.25, 0.5], shape=shape), thing([0.75, 0.5], shape=shape, size="small")]
        _, areas, _ = stickers({"things": pair, "look": 1})
        assert (areas[:, :96] > 0).sum() > 2 * (areas[:, 96:] > 0).sum()


def test_twins_look_alike_outside_the_place_of_what_changed() -> None:
    checked = 0
    for a, b in islice(scenes("train", 1, 1.0), 60):
        if a["changed"][0] not in ("background", "at"):
            differs = np.any(np.asarray(draw(a)) != np.asarray(draw(b)), axis=2)
            place = a["things"][a["changed"][1]]["at"]
            # Its half or quarter, and two pixels for the shadow.
            room = [(0, 96) if at == 0.5 else (max(0, int(at * 96) - 26), int(at * 96) + 26) for at in place]
            columns, rows = (slice(*ends) for ends in room)
            assert differs[rows, columns].any()
            differs[rows, columns] = False
            assert not differs.any()
            checked += 1
    assert checked > 20


# Files


def test_the_file_has_the_fields_of_karpathys_json(collection: dict[str, Any], tmp_path: Path) -> None:
    images = collection["images"]
    assert collection["dataset"] == "scenes"
    assert Counter(image["split"] for image in images) == COUNTS
    assert [image["imgid"] for image in images] == list(range(len(images)))
    sentences = [s for image in images for s in image["sentences"]]
    assert [s["sentid"] for s in sentences] == list(range(5 * len(images)))
    for image in images:
        assert set(image) == {"filename", "filepath", "imgid", "sentids", "split", "sentences", "scene"}
        assert image["sentids"] == [s["sentid"] for s in image["sentences"]]
        assert all(s["imgid"] == image["imgid"] for s in image["sentences"])


def test_equal_settings_give_equal_bytes_also_over_an_old_run_and_another_seed_others(tmp_path: Path) -> None:
    size = {"train": 6, "val": 4, "test": 2}
    a = files(write_scenes(tmp_path / "a", **size, seed=1).parent)
    assert files(write_scenes(tmp_path / "b", **size, seed=1).parent) == a
    assert files(write_scenes(tmp_path / "a", **size, seed=1).parent) == a
    c = files(write_scenes(tmp_path / "c", **size, seed=2).parent)
    assert c.keys() == a.keys()
    assert all(c[name] != a[name] for name in a)


def test_a_larger_split_begins_with_the_smaller_one_and_leaves_the_others_alone(tmp_path: Path) -> None:
    small, large = (write_scenes(tmp_path / str(n), train=n, val=3, test=0, pixels=32) for n in (5, 12))
    a, b = files(small.parent), files(large.parent)
    assert all(b[name] == data for name, data in a.items() if name.endswith(".jpg"))

    def said(path: Path) -> dict[str, Any]:
        images = json.loads(path.read_text())["images"]
        return {i["filename"]: (i["scene"], [(s["raw"], s["facts"]) for s in i["sentences"]]) for i in images}

    assert said(small).items() <= said(large).items()


def test_a_killed_run_leaves_no_json_and_can_be_done_again(tmp_path: Path) -> None:
    size = {"train": 6, "val": 2, "test": 2, "pixels": 32}

    def killed(done: int, total: int) -> None:
        assert total == 10
        if done == 4:
            raise KeyboardInterrupt

    for _ in ("a first run", "a run over a whole one"):
        with pytest.raises(KeyboardInterrupt):
            write_scenes(tmp_path / "a", **size, progress=killed)
        assert not (tmp_path / "a" / "dataset_scenes.json").exists()
        write_scenes(tmp_path / "a", **size)
    assert files(tmp_path / "a") == files(write_scenes(tmp_path / "b", **size).parent)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"train": -1}, "train"),
        ({"test": -2}, "test"),
        ({"train": 0}, r"train \+ val \+ test"),
        ({"hard_share": 1.01}, "hard_share"),
        ({"hard_share": float("nan")}, "hard_share"),
        ({"pixels": 8}, "pixels"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(tmp_path: Path, settings: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError, match=f"^{field}: "):
        write_scenes(tmp_path / "a", **{"train": 2, "val": 0, "test": 0} | settings)
    assert not (tmp_path / "a").exists()


def test_a_folder_with_anything_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match=r"thesis\.txt"):
        write_scenes(tmp_path, train=2, val=0, test=0)
    with pytest.raises(UserError, match="not a folder"):
        write_scenes(tmp_path / "thesis.txt", train=2, val=0, test=0)
    assert files(tmp_path) == {"thesis.txt": b"mine"}
    for train, seed in ((4, 0), (6, 0), (5, 1)):
        whole = files(write_scenes(tmp_path / "a", train=5, val=0, test=0, pixels=32).parent)
        with pytest.raises(UserError):
            write_scenes(tmp_path / "a", train=train, val=0, test=0, seed=seed, pixels=32)
        assert files(tmp_path / "a") == whole
    (tmp_path / "a" / "dataset_scenes.json").write_text("[]")
    with pytest.raises(UserError, match="other settings"):
        write_scenes(tmp_path / "a", train=5, val=0, test=0, pixels=32)
