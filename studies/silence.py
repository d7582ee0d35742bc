"""Honest silence: how often a search says that nothing matches, with a subject's pictures there and removed.

    python -m studies.search silence MODEL --flickr8k DIR --coco DIR --learn       # learns, and measures what it learned
    python -m studies.search silence MODEL --flickr8k DIR --coco DIR               # measures

A subject is a word; it is asked for in two words ("a dog") and in captions that hold it. An index is 1,000 pictures without
captions, as a folder of photographs is: with all pictures of the subject (those that any caption calls by the word), with
one of them alone, the caption's own, and with none. The decision (`vsekit.search.silence`) is learned on training pictures with
the subjects of LEARNED and measured on validation pictures with those of MEASURED. The model knows training captions with
their pictures by heart; so when it learns, a caption's own picture is left out, and the one alone is that of the others
which scores best. Writes src/vsekit/search/silence.json and studies/results/silence.json, which docs/search.md shows.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
from vsekit.search.silence import BEST, Decision, Signs
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
#: How many pictures of its subject an index has when a query comes.
THERE = ("all", "one", "none")
SEEDS = (0, 1)  # of the indexes that are learned from


@dataclass(frozen=True)
class Asked:
    """A query, which pictures of its subject are there, and what was found. before: the verdict of the best score alone."""

    collection: str
    subject: str
    short: bool
    there: str
    signs: Signs
    match: str
    before: bool

    @property
    def answered(self) -> bool:
        return self.there != "none"


def asks(
    name: str, model: VSEModel, pairs: Pairs, images: np.ndarray, subjects: dict[str, str], own: bool = True
) -> list[Asked]:
    """All queries to one index, with each subject's pictures there, one of them, and none. own: with a caption's own picture."""
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
        without = _Index(model, images[~shows])
        for at, (text, vector) in enumerate(zip(texts, model.encode_texts(texts))):
            of_caption = owner[chosen[at - 1]] if at else None
            others = showing[showing != of_caption]
            if of_caption is None:
                alone = rng.choice(showing)
            elif own:
                alone = of_caption
            else:
                alone = others[np.argmax(images[others] @ vector)]
            whole = everything.stored if own or not at else np.delete(everything.stored, of_caption, axis=0)
            stored = {
                "all": whole,
                "one": np.concatenate([without.stored, everything.stored[alone][None]]),
                "none": without.stored,
            }
            for there in THERE:
                index = everything if there == "all" else without
                answer = index.ask(stored[there], vector, len(text.split()))
                found.append(Asked(name, subject, at == 0, there, *answer))
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
        """stored: the pictures that are asked, this index's but for one more or less."""
        query = query_vectors(vector[None], 1.0, self.model.dim, self.dim)[0]
        scores = -np.sort(-(stored @ query))[:BEST]
        match = self.calibration.judge(query, scores[:1], len(stored), "text", "image").matches[0]
        signs = self.calibration.signs(query, scores, words)
        assert signs is not None
        assert match is not None
        return signs, match, match == "none"


def learn(asked: Sequence[Asked], limit: float = 0.01) -> Decision:
    """Logistic regression by Newton's method, with and without an answer weighed alike; see `silence` for the limit."""
    table = np.array([one.signs for one in asked])
    unknown = np.isnan(table).all(axis=0)  # a sign that these indexes lack gets no weight
    table[:, unknown] = 0.0
    means, deviations = np.nanmean(table, axis=0), np.nanstd(table, axis=0)
    deviations = np.where(deviations > 1e-9, deviations, 1.0)
    x = np.nan_to_num((table - means) / deviations)
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    y = np.array([one.answered for one in asked], float)
    share = np.where(y > 0, 0.5 / y.sum(), 0.5 / (1 - y).sum()) * len(y)
    w = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        gradient = x.T @ (share * (p - y)) + w
        w = w - np.linalg.solve(x.T @ (x * (share * p * (1 - p))[:, None]) + np.eye(len(w)), gradient)
    p = 1 / (1 + np.exp(-x @ w))
    quiet = np.array([one.match in ("weak", "none") for one in asked])
    there = np.sort(np.where(quiet, p, 1.0)[y > 0])
    numbers = [[round(float(v), 5) for v in some] for some in (means, deviations, w[:-1])]
    return Decision(*numbers, bias=round(float(w[-1]), 5), limit=round(float(there[int(limit * len(there))]), 5))


def curve(asked: Sequence[Asked], decision: Decision) -> list[tuple[float, ...]]:
    """Per cent of queries that are told that nothing matches, of each of THERE, limit by limit."""
    p = np.array([decision.chance(one.signs) if one.match in ("weak", "none") else 1.0 for one in asked])
    of = [np.array([one.there == there for one in asked]) for there in THERE]
    return [tuple(_percent(p[some] < at) for some in of) for at in np.quantile(p, np.linspace(0, 0.6, 61))]


def _percent(told: np.ndarray) -> float:
    return round(100 * float(told.mean()), 2) if len(told) else 0.0


def measure(asked: Sequence[Asked], decision: Decision) -> dict[str, Any]:
    silent = np.array([one.match in ("weak", "none") and decision.silent(one.signs) for one in asked])
    before = np.array([one.before for one in asked])
    there, short = (np.array([getattr(one, name) for one in asked]) for name in ("there", "short"))
    groups = {"all": np.ones(len(asked), bool)}
    for collection in sorted({one.collection for one in asked}):
        here = np.array([one.collection == collection for one in asked])
        groups |= {f"{collection}, in two words": here & short, f"{collection}, captions": here & ~short}
    rows: dict[str, Any] = {
        name: {"queries": int((some & (there == "all")).sum())}
        | {key: _percent(silent[some & (there == key)]) for key in THERE}
        | {f"{key}_before": _percent(before[some & (there == key)]) for key in THERE}
        for name, some in groups.items()
    }
    subjects = {name: sorted({one.subject for one in asked if one.collection == name}) for name in ("flickr8k", "coco")}
    return {"all": rows.pop("all"), "rows": rows, "subjects": subjects, "curve": curve(asked, decision)}


def run(name: str, flickr8k: Path, coco: Path, to_learn: bool) -> None:
    from vsekit.models.model import load_model, model_folder

    progress = Progress()
    vse = load_model(name)
    model = VSEModel(load_model(name), name, model_folder(name))

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
    print(json.dumps({key: found[key] for key in ("rows", "all")}, indent=1))
