"""Heads: maps of the last dimension, applied to every vector of a set (`projection`) or to the pooled one (`head`)."""

from __future__ import annotations

from typing import Annotated

from vsekit.heads.caption_decoder import CaptionDecoder as CaptionDecoder
from vsekit.heads.caption_decoder import CaptionDecoderSettings as CaptionDecoderSettings
from vsekit.heads.fc_bn_relu_fc import FcBnReluFcSettings
from vsekit.heads.identity import IdentitySettings
from vsekit.heads.linear import LinearSettings
from vsekit.heads.mlp import MLPSettings
from vsekit.heads.residual_mlp import ResidualMLPSettings
from vsekit.parts import ONE_OF

HeadSettings = Annotated[
    IdentitySettings | LinearSettings | MLPSettings | FcBnReluFcSettings | ResidualMLPSettings, *ONE_OF
]
