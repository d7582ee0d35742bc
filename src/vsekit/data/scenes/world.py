"""What can be in a scene, what is true of it, and which scenes each split draws.

A scene is two or three *things* on a background; a thing is one to four equal objects. No two things of a scene share
their shape or their colour, so that "two stars" or "three red things" never leaves a doubt which are meant. A scene is
plain JSON and says all that the picture shows, so the truth of any caption can be decided for any picture (`holds`).

*Twins* are neighbouring scenes of a split that differ in one fact: the hard negatives. *Held-out combinations* are the
(shape, colour) and (shape, pattern) pairs of `HELD_OUT`: each belongs to val or to test, occurs in no other split, and
every scene of val and test shows at least one of its split's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import permutations
from random import Random
from typing import Any

SHAPES = ("circle", "square", "triangle", "star", "heart", "cross", "ring", "moon")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black")
PATTERNS = ("plain", "striped", "dotted", "checked")
TEXTURES = ("matte", "shiny", "rough")
SIZES = ("small", "big")
BACKGROUNDS = ("sky", "grass", "sand", "night", "water", "snow", "bricks", "wood")
ATTRIBUTES: dict[str, tuple[Any, ...]] = {
    "count": (1, 2, 3, 4),
    "size": SIZES,
    "texture": TEXTURES,
    "pattern": PATTERNS,
    "colour": COLOURS,
    "shape": SHAPES,
}

#: By the number of things: the places they take (two halves of the picture, or three of its quarters) …
PLANS = {
    2: (((0.25, 0.5), (0.75, 0.5)), ((0.5, 0.25), (0.5, 0.75))),
    3: (((0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)),),
}
#: … and how many objects of a size have room in one.
ROOM = {2: {"small": 4, "big": 3}, 3: {"small": 4, "big": 1}}

#: One value of each attribute, and `at`, the centre of its place: [0, 0] is the top left, [1, 1] the bottom right.
Thing = dict[str, Any]

#: `background` and `things`; `look`, which seeds what no caption speaks of (exact places, angles, clouds) and is the
#: same for twins; and `changed`, None or what tells the scene from its twin: [attribute, thing], ["background"], or
#: ["at"] when two things have changed places.
Scene = dict[str, Any]

#: A fact is a list: [attribute, thing, value], ["many", thing], ["place", thing, where], [relation, thing, thing] or
#: ["background", value], where a thing is its index in the scene the caption was written for.
Fact = list[Any]

PLACES: dict[str, Callable[[Thing], bool]] = {
    "top": lambda a: a["at"][1] < 0.5,
    "bottom": lambda a: a["at"][1] > 0.5,
    "left": lambda a: a["at"][0] < 0.5,
    "right": lambda a: a["at"][0] > 0.5,
}
# Things that stand diagonally are in no direction of each other: nobody would quarrel over the others.
DIRECTIONS: dict[str, Callable[[Thing, Thing], bool]] = {
    "left of": lambda a, b: a["at"][1] == b["at"][1] and a["at"][0] < b["at"][0],
    "right of": lambda a, b: a["at"][1] == b["at"][1] and a["at"][0] > b["at"][0],
    "above": lambda a, b: a["at"][0] == b["at"][0] and a["at"][1] < b["at"][1],
    "below": lambda a, b: a["at"][0] == b["at"][0] and a["at"][1] > b["at"][1],
}
RELATIONS: dict[str, Callable[[Thing, Thing], bool]] = DIRECTIONS | {
    "beside": lambda a, b: a["at"][1] == b["at"][1],
    "more than": lambda a, b: a["count"] > b["count"],
    "bigger than": lambda a, b: a["size"] == "big" and b["size"] == "small",
}


def holds(facts: list[Fact], scene: Scene) -> bool:
    """Whether all `facts` of a caption, of any scene, are true of `scene`.

    True when the things the facts speak of can be matched with different things of `scene` such that every fact holds.

    >>> star = {"count": 2, "size": "big", "texture": "matte", "pattern": "plain", "colour": "red", "shape": "star"}
    >>> ring = star | {"count": 1, "shape": "ring", "colour": "blue"}
    >>> scene = {"background": "sand", "things": [star | {"at": [0.25, 0.5]}, ring | {"at": [0.75, 0.5]}]}
    >>> holds([["shape", 0, "ring"], ["colour", 1, "red"], ["right of", 0, 1]], scene)
    True
    >>> holds([["shape", 0, "ring"], ["colour", 0, "red"]], scene)
    False
    """
    named = sorted({thing for fact in facts for thing in _things(fact)})
    return any(
        all(_true(fact, scene, dict(zip(named, chosen))) for fact in facts)
        for chosen in permutations(scene["things"], len(named))
    )


def _things(fact: Fact) -> list[int]:
    if fact[0] == "background":
        return []
    return fact[1:] if fact[0] in RELATIONS else fact[1:2]


def _true(fact: Fact, scene: Scene, things: dict[int, Thing]) -> bool:
    match fact:
        case ["background", value]:
            return bool(scene["background"] == value)
        case ["many", thing]:
            return things[thing]["count"] > 1
        case ["place", thing, where]:
            return PLACES[where](things[thing])
        case [relation, one, other] if relation in RELATIONS:
            return RELATIONS[relation](things[one], things[other])
        case [attribute, thing, value] if attribute in ATTRIBUTES:
            return bool(things[thing][attribute] == value)
    raise ValueError(f"not a fact: {fact}")


def _held_out() -> dict[str, set[tuple[str, str]]]:
    """One colour of every shape for val and another for test; one pattern of the first four shapes for val, of the
    others for test. So every single value still occurs in train, with most partners."""
    out: dict[str, set[tuple[str, str]]] = {"val": set(), "test": set()}
    for i, shape in enumerate(SHAPES):
        out["val"].add((shape, COLOURS[(3 * i + 1) % 8]))
        out["test"].add((shape, COLOURS[(3 * i + 4) % 8]))
        out["val" if i < 4 else "test"].add((shape, PATTERNS[i % 4]))
    return out


HELD_OUT = _held_out()


def combinations(scene: Scene) -> set[tuple[str, str]]:
    """The (shape, colour) and (shape, pattern) pairs in a scene."""
    return {(thing["shape"], thing[key]) for thing in scene["things"] for key in ("colour", "pattern")}


def scenes(split: str, seed: int, hard_share: float) -> Iterator[list[Scene]]:
    """Endless pairs of neighbours: twins for `hard_share` of them, evenly spread, else two scenes of their own.

    A scene depends on its number, the split and the settings alone, so a longer split begins with the shorter one.
    """
    pair = 0
    while True:
        first, second = (Random(f"{seed} {split} {2 * pair + i}") for i in (0, 1))
        scene = _scene(split, first)
        if int((pair + 1) * hard_share) > int(pair * hard_share):
            yield _twins(scene, split, second)
        else:
            yield [scene, _scene(split, second)]
        pair += 1


def _scene(split: str, rng: Random) -> Scene:
    n = 2 if rng.random() < 0.6 else 3
    while True:
        things = []
        for shape, colour, at in zip(
            rng.sample(SHAPES, n), rng.sample(COLOURS, n), rng.sample(rng.choice(PLANS[n]), n)
        ):
            size = rng.choice(SIZES)
            things.append(
                {
                    "count": rng.randint(1, ROOM[n][size]),
                    "size": size,
                    "texture": rng.choice(TEXTURES),
                    "pattern": rng.choice(PATTERNS),
                    "colour": colour,
                    "shape": shape,
                    "at": list(at),
                }
            )
        scene = {"background": rng.choice(BACKGROUNDS), "things": things, "look": rng.getrandbits(32), "changed": None}
        if _fits(scene, split):
            return scene


def _fits(scene: Scene, split: str) -> bool:
    """Whether a scene can be drawn without doubt or crowding, and whether it belongs to the split."""
    things, present = scene["things"], combinations(scene)
    return (
        len({thing["shape"] for thing in things}) == len({thing["colour"] for thing in things}) == len(things)
        and all(thing["count"] <= ROOM[len(things)][thing["size"]] for thing in things)
        and not any(present & held_out for name, held_out in HELD_OUT.items() if name != split)
        and (split not in HELD_OUT or bool(present & HELD_OUT[split]))
    )


def _twins(scene: Scene, split: str, rng: Random) -> list[Scene]:
    """The scene and a copy that differs in one fact, both marked with it."""
    while True:
        twin = copy.deepcopy(scene)
        changed: list[Any]
        match rng.choice((*ATTRIBUTES, "background", "at")):
            case "background":
                changed = ["background"]
                twin["background"] = rng.choice(BACKGROUNDS)
            case "at":
                changed = ["at"]
                if len(scene["things"]) == 2:
                    one, other = twin["things"]
                    one["at"], other["at"] = other["at"], one["at"]
            case attribute:
                changed = [attribute, rng.randrange(len(scene["things"]))]
                twin["things"][changed[1]][attribute] = rng.choice(ATTRIBUTES[attribute])
        if twin != scene and _fits(twin, split):
            twin["changed"] = changed
            return [{**scene, "changed": changed}, twin]
