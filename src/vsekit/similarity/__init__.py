"""Similarities: scores of pictures and captions from their embeddings."""

from __future__ import annotations

from typing import Annotated

from vsekit.parts import ONE_OF
from vsekit.similarity.base import Similarity
from vsekit.similarity.bfan import BfanSettings
from vsekit.similarity.cosine import CosineSettings, l2_normalised
from vsekit.similarity.inner_product import InnerProductSettings
from vsekit.similarity.order import OrderSettings
from vsekit.similarity.scan import ScanSettings

SimilaritySettings = Annotated[
    CosineSettings | InnerProductSettings | OrderSettings | ScanSettings | BfanSettings, *ONE_OF
]

__all__ = ["Similarity", "SimilaritySettings", "l2_normalised"]
