"""Poolings: a masked set of vectors to one vector. YAML picks one by `kind`; each file has its paper and equation."""

from __future__ import annotations

from typing import Annotated

from vsekit.parts import ONE_OF
from vsekit.pooling.ad_pool import AdPoolSettings
from vsekit.pooling.ada_pool import AdaPoolSettings
from vsekit.pooling.first import FirstPoolSettings
from vsekit.pooling.gcn import GCNSettings
from vsekit.pooling.gpo import GPOSettings
from vsekit.pooling.k_max import KMaxPoolSettings
from vsekit.pooling.last import LastPoolSettings
from vsekit.pooling.lip import LIPSettings
from vsekit.pooling.max import MaxPoolSettings
from vsekit.pooling.mean import MeanPoolSettings
from vsekit.pooling.none import NoPoolingSettings
from vsekit.pooling.self_attention import SelfAttentionSettings
from vsekit.pooling.seq2seq import Seq2SeqSettings
from vsekit.pooling.single import SinglePoolSettings
from vsekit.pooling.soft_pool import SoftPoolSettings
from vsekit.pooling.transformer import TransformerSettings
from vsekit.pooling.vsrn import VSRNSettings

PoolingSettings = Annotated[
    NoPoolingSettings
    | SinglePoolSettings
    | FirstPoolSettings
    | LastPoolSettings
    | MeanPoolSettings
    | MaxPoolSettings
    | KMaxPoolSettings
    | AdPoolSettings
    | GPOSettings
    | SoftPoolSettings
    | AdaPoolSettings
    | LIPSettings
    | Seq2SeqSettings
    | SelfAttentionSettings
    | TransformerSettings
    | GCNSettings
    | VSRNSettings,
    *ONE_OF,
]
