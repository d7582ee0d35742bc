"""Heads: maps of the last dimension, applied to every vector of a set (`projection`) or to the pooled one (`head`)."""

from __future__ import annotations

from typing import Annotated

from vsekit.heads.base import HeadPart
from vsekit.heads.caption_decoder import CaptionDecoder, CaptionDecoderSettings
from vsekit.parts import OneOf

#: The files of the folder; a new head is one more line.
HEADS = [
    "identity",
    "linear",
    "mlp",
    "fc_bn_relu_fc",
    "residual_mlp",
]
HeadSettings = Annotated[HeadPart, OneOf(HeadPart, __name__, "heads", HEADS)]

__all__ = ["HEADS", "CaptionDecoder", "CaptionDecoderSettings", "HeadPart", "HeadSettings"]
