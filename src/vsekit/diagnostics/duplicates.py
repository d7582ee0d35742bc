"""Captions and pictures that stand twice in a collection, in different groups: each makes false negatives.

Captions are compared as sets of words, J(a, b) = |a ∩ b| / |a ∪ b|. Sets with J ≥ t share one of the rarest
|a| − ⌈t·|a|⌉ + 1 words of each, so that only captions that share such a word are compared (prefix filtering: Chaudhuri
et al., ICDE 2006), and no pair is missed. Pictures are compared by their bytes, and by the cosine of their vectors as
seen from the mean of all: what all pictures share tells no two of them apart.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from vsekit.data.pairs import Picture
from vsekit.mining.false_negatives import near_duplicates

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Duplicate:
    """Two captions or two pictures, the earlier first. score: Jaccard of the words, or cosine of the vectors.

    exact: the same words in the same order, case and punctuation aside; or the same bytes.
    """

    first: int
    second: int
    score: float
    exact: bool


def duplicate_captions(texts: Sequence[str], groups: np.ndarray, threshold: float = 0.9) -> list[Duplicate]:
    """Pairs of captions of different groups with J ≥ threshold; exact ones first, then by falling score.

    Of captions with the same words one stands for all: it is paired with one caption of every other group.
    """
    words = [tuple(_WORD.findall(text.lower())) for text in texts]
    members: dict[frozenset[str], list[int]] = defaultdict(list)
    for i, sentence in enumerate(words):
        if sentence:
            members[frozenset(sentence)].append(i)
    found = []
    for captions in members.values():
        first = captions[0]
        seen = {groups[first]}
        for i in captions[1:]:
            if groups[i] not in seen:
                seen.add(groups[i])
                found.append(Duplicate(first, i, 1.0, words[first] == words[i]))
    for a, b, score in _similar(list(members), threshold):
        pair = _of_different_groups(members[a], members[b], groups)
        if pair is not None:
            found.append(Duplicate(min(pair), max(pair), score, False))
    return sorted(found, key=lambda d: (not d.exact, -d.score, d.first, d.second))


def _of_different_groups(a: list[int], b: list[int], groups: np.ndarray) -> tuple[int, int] | None:
    return next(((i, j) for i in a for j in b if groups[i] != groups[j]), None)


def _similar(sets: list[frozenset[str]], threshold: float) -> list[tuple[frozenset[str], frozenset[str], float]]:
    """Pairs of different sets with Jaccard ≥ threshold."""
    counts = Counter(word for words in sets for word in words)
    index: dict[str, list[frozenset[str]]] = defaultdict(list)
    found = []
    for words in sorted(sets, key=len):
        size = len(words)
        rarest = sorted(words, key=lambda w: (counts[w], w))[: size - ceil(threshold * size - 1e-9) + 1]
        # Of those indexed, none is larger; smaller ones than t·|a| can't reach the threshold.
        near = {other for word in rarest for other in index[word] if len(other) >= threshold * size - 1e-9}
        for other in near:
            common = len(words & other)
            score = common / (size + len(other) - common)
            if score >= threshold - 1e-9:
                found.append((other, words, score))
        for word in rarest:
            index[word].append(words)
    return found


def duplicate_pictures(
    pictures: Sequence[Picture],
    vectors: np.ndarray,
    groups: np.ndarray,
    threshold: float = 0.98,
) -> list[Duplicate]:
    """Pairs of pictures of different groups with the same bytes, or with cosine ≥ threshold; exact ones first.

    Of pictures with the same bytes one stands for all.

    Args:
        vectors: (n, d), whatever stands for the pictures.
    """
    vectors = vectors - vectors.mean(0)
    copy_of: dict[bytes, int] = {}
    found, copies = [], set()
    for i, picture in enumerate(pictures):
        digest = _digest(picture)
        first = i if digest is None else copy_of.setdefault(digest, i)
        if groups[first] != groups[i]:
            found.append(Duplicate(first, i, _cosine(vectors[first], vectors[i]), True))
            copies.add(i)
    for a, b in near_duplicates(vectors, threshold).tolist():
        if groups[a] != groups[b] and not {a, b} & copies:
            found.append(Duplicate(a, b, _cosine(vectors[a], vectors[b]), False))
    return sorted(found, key=lambda d: (not d.exact, -d.score, d.first, d.second))


def _digest(picture: Picture) -> bytes | None:
    """Of its bytes; None when there are none to read: features may outlive their pictures."""
    try:
        return None if picture.path is None else hashlib.sha256(picture.read()).digest()
    except OSError:
        return None


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), 1e-12))
