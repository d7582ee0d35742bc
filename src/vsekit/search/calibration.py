"""What a score means: how it stands against the scores of pairs that are known not to belong together.

Scores of different models, of words with pictures and of pictures with pictures have different scales, and some queries
score higher with everything than others do. So a score is first seen beside the query's usual ones. With m the median of
the query's scores with a fixed sample of the index, and d how far below it the 16th percentile lies (for a small index,
both drawn towards those of all queries),

    z = (score − m) / d

and S(z) is the share of known negatives at or above z: their quantiles up to the 99th percentile, and beyond it
log S(z) = a + b·z + c·z² with c ≤ 0, fitted to the quantiles from the median on. The outermost negatives are left out of
the fit, since a few of them always turn out to belong together. From this come, for a hit among N items,

    standing = 1 − S(z)                    the share of known negatives that score lower
    E        = N · S(z)                    how many unrelated items are expected to score this high
    chance   = 1 − exp(−E)                 that the best of N unrelated items does

as in the search of sequences (Karlin & Altschul 1990), and the match in a word: strong, likely, weak or none.

The upper half of the query's scores has no say in m and d: for "a dog" in an album of dogs it is not usual but right.

Known negatives are the index's own captions with pictures of other groups whose captions share no word with them, words
that are everywhere aside (unless most pairs share one); in an index without captions, everyday sentences with its
pictures, which are nearly all unrelated. A model folder may bring a `calibration.json` made of held-out pairs, for
indexes that have none.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from vsekit.seals import read_sealed
from vsekit.search.hubs import query_vectors
from vsekit.search.items import Item, Kind
from vsekit.search.silence import Signs, learned, signs
from vsekit.search.stores.base import Store
from vsekit.search.tables import Table, usual

if TYPE_CHECKING:
    from vsekit.search.base import SearchModel

Asked: TypeAlias = Literal["text", "image", "mixed"]
Match: TypeAlias = Literal["strong", "likely", "weak", "none"]

FORMAT = 1
SAMPLE = 512
#: A hit is called so up to this chance that the best of N unrelated items scores as high.
CHANCES: dict[Match, float] = {"strong": 0.05, "likely": 0.3, "weak": 0.95}
#: Fewer captions or sentences than this tell nothing of a query's scores.
FEWEST = 20
#: Words in more than this share of captions are of no matter.
EVERYWHERE = 0.15


def calibrate(
    store: Store, model: SearchModel, sentences: Sequence[str] | None = None, *, sample: int = SAMPLE
) -> dict[str, Any]:
    """The calibration of an index, for its header: JSON. Read from a sample, in a second or so.

    Args:
        sentences: in place of the built-in ones, where the index has few captions. Only those that the model knows most
            words of are used.
    """
    dim = model.dim
    pictures = _sample(store.all_items("image"), sample)
    said_of: dict[str, set[str]] = {item.id: set() for item in pictures}

    def heard() -> Iterator[Item]:
        """The captions, while the words of all captions of the sampled pictures are noted."""
        for item in store.all_items("caption"):
            if item.picture in said_of:
                said_of[item.picture] |= _words(item.text)
            yield item

    captions = _sample(heard(), sample)
    tables: dict[str, Table | None] = {}
    shown, owners = _placed(store, pictures)
    if pictures:
        tables["image-image"] = Table.of(shown[:, :dim] @ shown[:, :dim].T, owners[:, None] != owners)
    if len(captions) >= FEWEST:
        said, speakers = _placed(store, captions)
        tables["text-caption"] = Table.of(said[:, :dim] @ said[:, :dim].T, speakers[:, None] != speakers)
    if pictures and len(captions) >= FEWEST:
        # Their own pictures too, so that right pairs are seen; these are no negatives, since not all is noted of them.
        own = store.items([id_ for id_ in dict.fromkeys(item.picture for item in captions) if id_ not in said_of])
        vectors, groups = _placed(store, own)
        right = speakers[:, None] == np.concatenate([owners, groups])
        apart = np.array([[not words & said_of[one.id] for one in pictures] for words in _telling(captions)])
        if apart.mean() < 0.5:  # a small vocabulary, in which sharing a word means little
            apart[:] = True
        negative = ~right & np.pad(apart, ((0, 0), (0, len(own))))
        seen = np.concatenate([shown, vectors])
        scores = query_vectors(said, 1.0, dim, store.dim) @ seen.T
        tables["text-image"] = _with_owed(Table.of(scores, negative, right), model, said)
        tables["image-caption"] = Table.of(query_vectors(seen, 1.0, dim, store.dim) @ said.T, negative.T, right.T)
    elif pictures:
        known = [text for text in sentences or _built_in() if _known(model, text)]
        if len(known) >= FEWEST:
            asking = model.encode_texts(known)
            scores = query_vectors(asking, 1.0, dim, store.dim) @ shown.T
            tables["text-image"] = _with_owed(Table.of(scores, np.ones(scores.shape, bool)), model, asking)
    return _written(tables, {"image": [item.id for item in pictures], "caption": [item.id for item in captions]})


def _with_owed(table: Table | None, model: SearchModel, asking: np.ndarray) -> Table | None:
    """asking: vectors of the table's queries."""
    if table is None or model.bank is None:
        return table
    return replace(table, owed=float(model.bank.owed(asking[:, : model.dim], "caption").mean()))


def calibrate_pairs(
    images: np.ndarray, captions: np.ndarray, image_groups: np.ndarray, caption_groups: np.ndarray
) -> dict[str, Any]:
    """The calibration of a model by held-out pairs, for the `calibration.json` of its folder.

    Args:
        images, captions: (n, D) unit vectors. image_groups, caption_groups: equal numbers belong together.
    """
    scores, other = captions @ images.T, caption_groups[:, None] != image_groups
    tables = {
        "text-image": Table.of(scores, other, ~other),
        "image-caption": Table.of(scores.T, other.T, ~other.T),
        "image-image": Table.of(images @ images.T, image_groups[:, None] != image_groups),
        "text-caption": Table.of(captions @ captions.T, caption_groups[:, None] != caption_groups),
    }
    return _written(tables, {})


def _written(tables: Mapping[str, Table | None], sample: dict[str, list[str]]) -> dict[str, Any]:
    return {"format": FORMAT, "sample": sample, "tables": {k: vars(t) for k, t in tables.items() if t is not None}}


def _built_in() -> Sequence[str]:
    from vsekit.search.sentences import SENTENCES

    return SENTENCES


def _known(model: SearchModel, text: str) -> bool:
    """Whether the model knows at least two thirds of the words; sentences of unknown words are all the same to it."""
    words = model.words(text)
    return sum(word in ("<unk>", "[UNK]") for word in words) * 3 <= len(words)


def _sample(items: Iterator[Item], n: int) -> list[Item]:
    """n items drawn from a stream of any length; the same ones every time."""
    rng = random.Random(0)
    kept = list(islice(items, n))
    for seen, item in enumerate(items, start=n + 1):
        place = rng.randrange(seen)
        if place < n:
            kept[place] = item
    return kept


def _placed(store: Store, items: Sequence[Item]) -> tuple[np.ndarray, np.ndarray]:
    """Vectors, and what belongs together: the collection's groups where it has any, otherwise the picture."""
    vectors = store.vectors([item.id for item in items]) if items else np.zeros((0, store.dim), np.float32)
    return vectors, np.array([str(item.meta.get("group", item.picture or item.id)) for item in items], dtype=object)


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _telling(captions: Sequence[Item]) -> list[set[str]]:
    """The words of each caption but those that are everywhere and tell nothing."""
    words = [_words(item.text) for item in captions]
    counts = Counter(chain.from_iterable(words))
    return [{word for word in some if counts[word] <= EVERYWHERE * len(captions)} for some in words]


class Judged(NamedTuple):
    """Of every score: the share of known negatives that score lower, and what that means in a word."""

    standings: Sequence[float | None]
    matches: Sequence[Match | None]


class Calibration:
    """The tables of an index and its sample, ready to judge. Without tables it judges nothing.

    Args:
        written: what `calibrate` gave.
        store: holds the sample; None for a calibration made elsewhere.
        model: what the index was made with; its querybank is asked, see `silence`.
    """

    def __init__(
        self,
        written: Mapping[str, Any],
        store: Store | None = None,
        model: SearchModel | None = None,
    ) -> None:
        # A format of another version is as good as none: scores are then shown without a judgement.
        usable = written if written.get("format") == FORMAT else {}
        self.tables = {name: Table(**table) for name, table in usable.get("tables", {}).items()}
        ids = usable.get("sample", {}) if store else {}
        self._sample = {kind: _vectors(store, ids[kind]) for kind in ids if store}
        self._model = model
        self._usual: tuple[np.ndarray | None, dict[str, tuple[float, float]]] = (None, {})

    @classmethod
    def of(cls, store: Store, model: SearchModel) -> Calibration:
        """That of the index, or that of the model's folder, or none."""
        found = cls(store.header.get("calibration") or {}, store, model)
        plain = store.dim == model.dim  # as the scores in a folder are
        return (
            found if found.tables or model.folder is None or not plain else cls(_of_folder(model.folder), model=model)
        )

    def judge(self, vector: np.ndarray, scores: np.ndarray, n: int, asked: Asked, kind: Kind) -> Judged:
        """Judges some scores of a query.

        Args:
            vector: of the query, (dim,).
            n: how many items the hits were found among.
            asked: what the query is made of; "mixed" takes the more careful of both tables.
            kind: of the hits.
        """
        sides = ("text", "image") if asked == "mixed" else (asked,)
        names = [name for side in sides if (name := f"{side}-{kind}") in self.tables]
        if not names:
            return Judged([None] * len(scores), [None] * len(scores))
        tables = [self.tables[name] for name in names]
        zs = [(scores - m) / d for m, d in (self._usual_of(vector, name) for name in names)]
        above = np.max([table.log_share_above(z) for table, z in zip(tables, zs)], axis=0)
        lowest = [table.right[0] if table.right else -np.inf for table in tables]
        doubtful = np.any([z < low for z, low in zip(zs, lowest)], axis=0)
        matches = [_match(e, doubt) for e, doubt in zip(n * np.exp(above), doubtful)]
        return Judged((1 - np.exp(above)).tolist(), matches)

    def _usual_of(self, vector: np.ndarray, name: str) -> tuple[float, float]:
        """m and d of a query beside this table. Kept for the next time, since an answer asks several times in a row."""
        asked, known = self._usual
        if asked is not vector:
            self._usual = vector, (known := {})
        if name not in known:
            table, sample = self.tables[name], self._sample.get(name.rpartition("-")[2])
            known[name] = usual(np.zeros(0) if sample is None else sample @ vector, table.centre, table.spread)
        return known[name]

    def signs(self, vector: np.ndarray, best: float, n: int, words: int) -> Signs | None:
        """What `silence` decides by, of words that look for pictures; None without a table. best: the highest score among n."""
        table = self.tables.get("text-image")
        if table is None:
            return None
        m, _ = self._usual_of(vector, "text-image")
        known = np.nan
        if table.owed is not None and self._model and self._model.bank:
            owed = self._model.bank.owed(vector[None, : self._model.dim], "caption")
            known = float(owed[0] - table.owed) / table.spread
        return signs((best - table.centre) / table.spread, n, (m - table.centre) / table.spread, known, words)

    def verdict(
        self,
        vector: np.ndarray,
        scores: np.ndarray,
        n: int,
        asked: Asked,
        kind: Kind,
        filtered: bool = False,
        words: int = 0,
    ) -> str | None:
        """None, or a sentence that says that nothing matches. scores: of all hits, best first. words: of the query."""
        what = "picture" if kind == "image" else "caption"
        if not len(scores):
            return f"No {what} passes the filter." if filtered else f"This index holds no {what}s."
        match = self.judge(vector, scores[:1], n, asked, kind).matches[0]
        if match not in ("weak", "none"):
            return None
        found = self.signs(vector, float(scores[0]), n, words) if (asked, kind) == ("text", "image") else None
        if not learned().silent(found) if found else match != "none":  # a weak one may be right
            return None
        among = f" among {n:,}" if n > 1 else ""
        return f"Nothing here matches: the best {what} scores no higher than an unrelated one would{among}."


def _match(expected: float, doubtful: bool) -> Match:
    """doubtful: lower than nearly all right pairs score, which makes it weak at most."""
    for match, chance in CHANCES.items():
        if expected <= -log(1 - chance) and not (doubtful and match != "weak"):
            return match
    return "none"


def _vectors(store: Store, ids: Sequence[str]) -> np.ndarray:
    """Vectors of the ids that are still there."""
    if not ids:
        return np.zeros((0, store.dim), np.float32)
    try:
        return store.vectors(ids)
    except KeyError:
        half = len(ids) // 2
        parts = [ids[:half], ids[half:]] if half else []
        return np.concatenate([np.zeros((0, store.dim), np.float32), *(_vectors(store, part) for part in parts)])


def _of_folder(folder: Path) -> dict[str, Any]:
    path = folder / "calibration.json"
    try:
        return read_sealed(path, "Fetch the model whole, or remove this file to do without.")
    except FileNotFoundError:
        return {}
