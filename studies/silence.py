"""Honest silence: how often a search says that nothing matches, with a subject's pictures there and removed.

    python -m studies.search silence MODEL --flickr8k DIR --coco DIR --learn       # learns, and measures what it learned
    python -m studies.search silence MODEL --flickr8k DIR --coco DIR               # measures

A subject is a word; it is asked for in two words ("a dog") and in captions that hold it. An index is pictures without captions, as
a folder of photographs is: SIZES of them with one of the subject (the caption's own) and with none (no caption calls it
by the word), and all 1,000, the subject's among them. The decision (`vsekit.search.silence`) is learned on training pictures with
the subjects of LEARNED and measured on validation pictures with those of MEASURED. The model knows training captions with
their pictures by heart; so when it learns, a caption's own picture is left out, and the one is that of the others
which scores best. Writes src/vsekit/search/silence.json and studies/results/silence.json, which docs/search.md shows.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vsekit.data.pairs import Pairs
from vsekit.data.readers import read
from vsekit.data.text import tokenize
from vsekit.files import write_json
from vsekit.models.embed import embed_images
from vsekit.models.inputs import image_inputs
from vsekit.progress import Progress
from vsekit.search import silence
from vsekit.search.calibration import Calibration, calibrate
from vsekit.search.hubs import item_vectors, query_vectors, stored_dim
from vsekit.search.items import Item
from vsekit.search.models import VSEModel
from vsekit.search.silence import Decision, Signs
from vsekit.search.stores import open_store

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "silence.json"
DECISION = Path(silence.__file__).with_name("silence.json")
#: Said of a subject: how its words begin, and how a person asks for it.
MEASURED = {
    **{word: f"a {word}" for word in ("dog", "horse", "cat", "bird", "train", "boat", "guitar", "giraffe", "bus", "clock")},
    **{word: f"a {word}" for word in ("motorcycle", "tent", "toilet", "pizza", "skateboard", "kitchen", "beach", "mountain")},
    "elephant": "an elephant", "umbrella": "an umbrella", "snow": "snow", "swim": "swimming", "climb": "climbing",
    "surf": "surfing", "soccer": "soccer", "tennis": "tennis", "bicycl": "a bicycle", "sunset": "sunset",
}  # fmt: skip
LEARNED = {
    **{word: f"a {word}" for word in ("cow", "bear", "zebra", "truck", "car", "kite", "laptop", "cake", "bench", "sandwich")},
    **{word: f"a {word}" for word in ("fountain", "tree", "bridge", "river", "crowd", "hat", "rope", "flower", "swing", "bed")},
    "airplane": "an airplane", "sheep": "sheep", "basketball": "basketball", "baseball": "baseball", "snowboard": "snowboarding",
    "football": "football", "danc": "dancing", "fish": "fishing", "grass": "grass", "pool": "a swimming pool",
}  # fmt: skip
PICTURES, CAPTIONS, FEWEST = 1000, 12, 5
SIZES = (10, 30, 100, 300, 900)
#: How many pictures of its subject an index has when a query comes.
THERE = ("all", "one", "none")
#: Of queries with one matching picture, of captions and of those in two words, such a share is told that nothing matches.
LIMITS = {False: 0.01, True: 0.05}
SEEDS = (0, 1)  # of the indexes that are learned from


@dataclass(frozen=True)
class Asked:
    """A query, which pictures of its subject are there, among how many (or all others, where there are fewer), and what was
    found. before: the verdict of the best score alone."""

    collection: str
    subject: str
    short: bool
    there: str
    size: int
    signs: Signs
    match: str
    before: bool

    @property
    def doubtful(self) -> bool:
        return self.match in ("weak", "none")


def asks(
    name: str, model: VSEModel, pairs: Pairs, images: np.ndarray, subjects: dict[str, str], own: bool = True
) -> list[Asked]:
    """All queries to indexes with one of a subject's pictures and with none, and to all pictures. own: see the module."""
    words = [set(tokenize(caption.text)) for caption in pairs.captions]
    owner, found = pairs.caption_pictures, []
    everything = _Index(model, images)
    for subject, said in subjects.items():
        about = np.array([any(word.startswith(subject) for word in some) for some in words])
        shows = np.bincount(owner, about, len(pairs.pictures)) > 0
        if shows.sum() < FEWEST:
            continue
        rng, showing = np.random.default_rng(0), np.flatnonzero(shows)
        chosen = rng.permutation(np.flatnonzero(about))[:CAPTIONS]
        texts = [said, *(pairs.captions[i].text for i in chosen)]
        vectors = model.encode_texts(texts)
        alone = [int(rng.choice(showing))]
        for caption, vector in zip(chosen, vectors[1:]):
            others = showing[showing != owner[caption]]
            alone.append(int(owner[caption] if own else others[np.argmax(images[others] @ vector)]))
        shown = everything.stored[alone]
        indexes = {size: _Index(model, images[rng.permutation(np.flatnonzero(~shows))[:size]]) for size in SIZES}
        for at, (text, vector, one) in enumerate(zip(texts, vectors, shown)):
            to = [("all", PICTURES, everything, everything.stored)]
            for size, index in indexes.items():
                to.append(("one", size, index, np.concatenate([index.stored[1:], one[None]])))
                to.append(("none", size, index, index.stored))
            for there, size, index, stored in to:
                answer = index.ask(stored, vector, len(text.split()))
                found.append(Asked(name, subject, at == 0, there, size, *answer))
    return found


class _Index:
    """Pictures without captions, and how a query to them is judged."""

    def __init__(self, model: VSEModel, images: np.ndarray) -> None:
        self.model, self.dim = model, stored_dim(model)
        self.stored = item_vectors(model, images, "image", self.dim)
        with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "index", create=self.dim) as store:
            store.write([Item(f"{i:05d}", "image", picture=f"{i:05d}") for i in range(len(images))], self.stored)
            store.set_header({"calibration": calibrate(store, model)})
            self.calibration = Calibration.of(store, model)

    def ask(self, stored: np.ndarray, vector: np.ndarray, words: int) -> tuple[Signs, str, bool]:
        """stored: the pictures that are asked, this index's but for one."""
        query = query_vectors(vector[None], 1.0, self.model.dim, self.dim)[0]
        best = (stored @ query).max()
        match = self.calibration.judge(query, np.array([best]), len(stored), "text", "image").matches[0]
        signs = self.calibration.signs(query, float(best), len(stored), words)
        assert signs is not None
        assert match is not None
        return signs, match, match == "none"


def learn(asked: Sequence[Asked], limits: dict[bool, float] = LIMITS) -> Decision:
    """Logistic regression by Newton's method, of one picture against none; each size, with captions and with two words, counts
    alike."""
    asked = [one for one in asked if one.there != "all"]
    table = np.array([one.signs for one in asked])
    unknown = np.isnan(table).all(axis=0)  # a sign that these indexes lack gets no weight
    table[:, unknown] = 0.0
    means, deviations = np.nanmean(table, axis=0), np.nanstd(table, axis=0)
    deviations = np.where(deviations > 1e-9, deviations, 1.0)
    x = np.nan_to_num((table - means) / deviations)
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    y = np.array([one.there == "one" for one in asked], float)
    groups = [(one.size, one.short, one.there) for one in asked]
    counts = Counter(groups)
    share = np.array([len(asked) / len(counts) / counts[group] for group in groups])
    w = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        gradient = x.T @ (share * (p - y)) + w
        w = w - np.linalg.solve(x.T @ (x * (share * p * (1 - p))[:, None]) + np.eye(len(w)), gradient)
    numbers = [[round(float(v), 5) for v in some] for some in (means, deviations, w[:-1])]
    decision = Decision(*numbers, bias=round(float(w[-1]), 5), limit=0.0)
    told = {
        kind: sorted(_p(one, decision) for one in asked if one.there == "one" and one.short == kind) for kind in limits
    }
    limit = min(some[int(limits[kind] * len(some))] for kind, some in told.items() if some)
    return replace(decision, limit=math.floor(1e5 * limit) / 1e5)


def curve(asked: Sequence[Asked], decision: Decision) -> list[list[float]]:
    """Per cent of queries with one matching picture, and of those with none, that are told that nothing matches, limit by limit."""
    p = {there: np.array([_p(one, decision) for one in asked if one.there == there]) for there in ("one", "none")}
    every = np.quantile(np.concatenate([*p.values()]), np.linspace(0, 0.6, 61))
    return [[_percent(p["one"] < at), _percent(p["none"] < at)] for at in every]


def _p(one: Asked, decision: Decision) -> float:
    return decision.chance(one.signs) if one.doubtful else 1.0


def _percent(told: Any) -> float:
    return round(100 * float(np.mean(told)), 2)


def measure(asked: Sequence[Asked], decision: Decision) -> dict[str, Any]:
    """By size of the index: how many of each kind are told that nothing matches."""
    rows, curves = {}, {}
    for size in sorted({one.size for one in asked}):
        row: dict[str, Any] = {}
        for there in THERE:
            for kind, short in (("captions", False), ("words", True)):
                some = [one for one in asked if (one.size, one.there, one.short) == (size, there, short)]
                if some:
                    silent = [one.doubtful and decision.silent(one.signs) for one in some]
                    before = [one.before for one in some]
                    row[f"{there}, {kind}"] = {
                        "queries": len(some),
                        "before": _percent(before),
                        "now": _percent(silent),
                    }
        here = [one for one in asked if one.size == size]
        if {one.there for one in here} >= {"one", "none"}:
            curves[str(size)] = curve(here, decision)
        rows[str(size)] = row
    subjects = {name: sorted({one.subject for one in asked if one.collection == name}) for name in ("flickr8k", "coco")}
    return {"rows": rows, "subjects": subjects, "curve": curves}


def run(name: str, flickr8k: Path, coco: Path, to_learn: bool) -> None:
    from vsekit.models.model import load_model, model_folder

    progress = Progress()
    vse = load_model(name)
    model = VSEModel(load_model(name), name, model_folder(name))  # its own: it makes a model read pictures

    def some(place: Path, split: str, seed: int) -> tuple[Pairs, np.ndarray]:
        pairs = read(place).split(split)
        pairs = pairs.take(sorted(np.random.default_rng(seed).permutation(len(pairs.pictures))[:PICTURES].tolist()))
        images: Any = embed_images(vse, image_inputs(vse, pairs, vse.view, progress=progress), len(pairs.pictures))
        return pairs, vse.similarity.prepare_images(images).numpy()  # type: ignore[union-attr]

    places = {"flickr8k": flickr8k, "coco": coco}
    if to_learn:
        known = [
            a
            for key, at in places.items()
            for s in SEEDS
            for a in asks(key, model, *some(at, "train", s), LEARNED, own=False)
        ]
        made = {"model": name, "fingerprint": model.fingerprint, "queries": len(known)}
        write_json(DECISION, made | {"signs": list(Signs._fields), "decision": asdict(learn(known))})
    decision = Decision(**json.loads(DECISION.read_text(encoding="utf-8"))["decision"])
    asked = [a for key, at in places.items() for a in asks(key, model, *some(at, "val", 0), MEASURED)]
    found = measure(asked, decision) | {"model": name, "fingerprint": model.fingerprint}
    write_json(RESULTS, found)
    print(json.dumps(found["rows"], indent=1))
