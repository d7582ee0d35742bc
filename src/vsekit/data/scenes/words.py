"""Five captions of a scene: each names other facts in other words, and keeps those facts beside the sentence.

A caption starts as a *plan*, the facts it is going to name, and is then put into words by chance. Twins share plan and
chance for their first two captions, which name what tells them apart, so those sentences differ in that fact alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from vsekit.data.scenes.world import ATTRIBUTES, DIRECTIONS, PLACES, RELATIONS, Fact, Scene, Thing

CAPTIONS = 5
SHORTEST, LONGEST = 5, 18  # words

WORDS: dict[Any, tuple[str, ...]] = {
    1: ("a", "a", "one"),
    2: ("two", "two", "a pair of"),
    3: ("three",),
    4: ("four",),
    "big": ("big", "large"),
    "small": ("small", "little", "tiny"),
    "matte": ("matte", "dull"),
    "shiny": ("shiny", "glossy"),
    "rough": ("rough", "grainy"),
    "plain": ("plain",),
    "striped": ("striped", "striped", "with stripes"),
    "dotted": ("dotted", "spotted", "with dots"),
    "checked": ("checked", "checkered", "with checks"),
    "purple": ("purple", "violet"),
    "circle": ("circle", "circle", "disc"),
    "ring": ("ring", "ring", "hoop"),
    "moon": ("moon", "crescent"),
    "left of": ("left of", "to the left of"),
    "right of": ("right of", "to the right of"),
    "above": ("above", "over"),
    "below": ("below", "under", "beneath"),
    "beside": ("beside", "next to"),
    "more than": ("",),
    "bigger than": ("bigger than", "larger than"),
    "sky": ("in a cloudy sky", "among the clouds"),
    "grass": ("on grass", "on the grass", "on a lawn"),
    "sand": ("on sand", "on the sand", "on the beach"),
    "night": ("at night", "in the dark"),
    "water": ("on water", "in the sea"),
    "snow": ("on snow", "in the snow"),
    "bricks": ("on bricks", "on a brick wall"),
    "wood": ("on wood", "on a wooden table"),
}
SOMETHING = ("shape", "object", "thing")
PLACE_WORDS = {"top": "at the top", "bottom": "at the bottom", "left": "on the left", "right": "on the right"}

#: How likely a caption names an attribute; half as likely when it is the value nobody remarks on.
NAMED = {"count": 0.75, "size": 0.4, "texture": 0.3, "pattern": 0.45, "colour": 0.75, "shape": 0.9}
UNREMARKABLE = ("plain", "matte")

#: The kinds of captions about two things, and when such a caption is true.
LINKS: dict[str, Callable[[Thing, Thing], bool]] = {
    "relation": lambda a, b: any(true(a, b) for true in DIRECTIONS.values()),
    "beside": RELATIONS["beside"],
    "more than": RELATIONS["more than"],
    "bigger than": RELATIONS["bigger than"],
}
FRAMES = dict.fromkeys(LINKS, ("{a} {link} {b}", "{a} {be} {link} {b}", "there {be} {a} {link} {b}")) | {
    "more than": ("more {a} than {b}", "there are more {a} than {b}", "fewer {b} than {a}"),
    "places": ("{all}", "{all}", "there {be} {all}"),
    "list": ("{all}", "{all}", "there {be} {all}"),
}
KINDS = ("relation", "relation", "places", "list", "beside", "more than", "bigger than")


@dataclass(frozen=True)
class Plan:
    """What a caption names.

    kind: one of `KINDS`.
    things: which things, in the order of the sentence.
    named: (attribute, thing) pairs.
    """

    kind: str
    things: tuple[int, ...]
    named: frozenset[tuple[str, int]]
    background: bool


def captions(scenes: list[Scene], rngs: list[Random]) -> list[list[dict[str, Any]]]:
    """The captions of two neighbouring scenes: per scene five of {"raw", "tokens", "facts"}."""
    out: list[list[dict[str, Any]]] = [[] for _ in scenes]
    changed = scenes[0]["changed"]
    while changed and len(out[0]) < 2:
        plan = _plan(scenes[0], rngs[0], full=not out[0], naming=changed)
        chance = rngs[0].random()
        _add(out, [_caption(scene, plan, Random(chance)) for scene in scenes])
    for scene, rng, own in zip(scenes, rngs, out):
        while len(own) < CAPTIONS:
            _add([own], [_caption(scene, _plan(scene, rng, full=not own), rng)])
    return out


def _caption(scene: Scene, plan: Plan, rng: Random) -> dict[str, Any]:
    raw = _sentence(scene, plan, rng)
    return {"raw": raw, "tokens": re.findall("[a-z]+", raw.lower()), "facts": _facts(scene, plan)}


def _add(lists: list[list[dict[str, Any]]], new: list[dict[str, Any]]) -> None:
    """Appends each to its list, unless one has a bad length or says what an earlier caption of its picture says."""
    if all(
        SHORTEST <= len(caption["tokens"]) <= LONGEST and caption["facts"] not in [old["facts"] for old in olds]
        for olds, caption in zip(lists, new)
    ):
        for olds, caption in zip(lists, new):
            olds.append(caption)


def _plan(scene: Scene, rng: Random, *, full: bool = False, naming: list[Any] | None = None) -> Plan:
    """Chooses what to name: everything about two related things when `full`, and in any case the fact `naming`."""
    fact, *of = naming or [None]
    while True:
        kind = "relation" if full else rng.choice(KINDS if naming is None else ("relation", "places"))
        number = 2 if kind in LINKS else rng.choice((1, 2) if kind == "places" else (2, len(scene["things"])))
        things = tuple(rng.sample(range(len(scene["things"])), number))
        if kind in LINKS and not LINKS[kind](*(scene["things"][thing] for thing in things)):
            continue
        if not set(of) <= set(things):
            continue
        named = {(fact, *of)} if of else set()
        for thing in things:
            for attribute, likely in NAMED.items():
                dull = scene["things"][thing][attribute] in UNREMARKABLE
                if rng.random() < (1 if full and not dull else likely / (1 + dull)):
                    named.add((attribute, thing))
            if not {("colour", thing), ("shape", thing)} & named:
                named.add(("shape", thing))
        unsaid = {"more than": "count", "bigger than": "size"}.get(kind)
        named = {(attribute, thing) for attribute, thing in named if attribute != unsaid}
        return Plan(kind, things, frozenset(named), full or fact == "background" or rng.random() < 0.5)


def _facts(scene: Scene, plan: Plan) -> list[Fact]:
    facts: list[Fact] = []
    for index in sorted(plan.things):
        thing = scene["things"][index]
        if plan.kind != "more than" and ("count", index) not in plan.named:
            facts.append(["count", index, 1] if thing["count"] == 1 else ["many", index])  # grammar gives it away
        facts += [[key, index, thing[key]] for key in ATTRIBUTES if (key, index) in plan.named]
        if plan.kind == "places":
            facts += [["place", index, place] for place in _places(thing)]
    if plan.kind in LINKS:  # "a left of b" and "b right of a" are one fact
        things = plan.things if plan.kind.endswith("than") else tuple(sorted(plan.things))
        facts.append([_link(scene, plan.kind, things), *things])
    return facts + [["background", scene["background"]]] * plan.background


def _link(scene: Scene, kind: str, things: tuple[int, ...]) -> str:
    one, other = (scene["things"][index] for index in things)
    return next(name for name, true in DIRECTIONS.items() if true(one, other)) if kind == "relation" else kind


def _places(thing: Thing) -> list[str]:
    return [place for place, true in PLACES.items() if true(thing)]


def _sentence(scene: Scene, plan: Plan, rng: Random) -> str:
    """Puts a plan into words. Draws equally often from `rng` for twins, so that they get the same wording."""

    def pick(options: tuple[str, ...]) -> str:
        return options[int(rng.random() * len(options))]

    phrases = []
    for index in plan.things:
        thing = scene["things"][index]
        words = {key: pick(WORDS.get(thing[key], (thing[key],))) for key in ATTRIBUTES}
        something, some = pick(SOMETHING), pick(("", "some"))
        many = thing["count"] > 1 or plan.kind == "more than"
        noun = words["shape"] if ("shape", index) in plan.named else something
        number = words["count"] if ("count", index) in plan.named or not many else some
        said = [words[key] for key in ("size", "texture", "pattern", "colour") if (key, index) in plan.named]
        phrase = [
            number if plan.kind != "more than" else "",
            *(word for word in said if " " not in word),
            noun + ("es" if noun == "cross" else "s") * many,
            *(word for word in said if " " in word),
        ]
        if plan.kind == "places":
            places = _places(thing)
            phrase.append(PLACE_WORDS[places[0]] if len(places) == 1 else f"at the {' '.join(places)}")
        phrases.append(re.sub(r"^a (?=[aeiou])", "an ", " ".join(filter(None, phrase))))
    text = pick(FRAMES[plan.kind]).format(
        a=phrases[0],
        b=phrases[-1],
        all=" and ".join(filter(None, (", ".join(phrases[:-1]), phrases[-1]))),
        be="is" if scene["things"][plan.things[0]]["count"] == 1 else "are",
        link=pick(WORDS[_link(scene, plan.kind, plan.things)]) if plan.kind in LINKS else "",
    )
    if plan.background:
        ground = pick(WORDS[scene["background"]])
        text = pick((f"{text} {ground}", f"{text} {ground}", f"{ground}, {text}"))
    return f"{text[0].upper()}{text[1:]}."
