"""Similarities: scores of pictures and captions from their embeddings."""

from __future__ import annotations

from typing import Annotated

from vsekit.parts import OneOf
from vsekit.similarity.base import Similarity, SimilarityPart
from vsekit.similarity.cosine import l2_normalised

#: The files of the folder; a new similarity is one more line.
SIMILARITIES = [
    "cosine",
    "inner_product",
    "order",
    "scan",
    "bfan",
]
SimilaritySettings = Annotated[SimilarityPart, OneOf(SimilarityPart, __name__, "similarities", SIMILARITIES)]

__all__ = ["SIMILARITIES", "Similarity", "SimilarityPart", "SimilaritySettings", "l2_normalised"]
