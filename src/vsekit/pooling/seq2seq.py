"""Seq2Seq: a recurrent encoder reads the set and its last state stands for it.

VSE+2AD (Table 4) takes it from Hu et al. 2019 (BISON), whose systems read with a uni- or bi-directional GRU, and
says no more. Our choice: one layer as wide as the vectors, the last valid state; two directions are averaged, as all
the GRUs of this family do. The order of the set matters.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from vsekit.pooling.base import Pooling, PoolingPart
from vsekit.pooling.masked import read_sequence

Cell = Literal["gru", "lstm"]


class Seq2Seq(Pooling):
    def __init__(self, dim: int, cell: Cell = "gru", bidirectional: bool = False) -> None:
        super().__init__(dim)
        rnn = nn.GRU if cell == "gru" else nn.LSTM
        self.rnn = rnn(dim, dim, batch_first=True)
        self.back = rnn(dim, dim, batch_first=True) if bidirectional else None

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return read_sequence(self.rnn, vectors, mask, self.back)[1]


class Seq2SeqSettings(PoolingPart):
    kind: Literal["seq2seq"] = "seq2seq"
    cell: Cell = "gru"
    bidirectional: bool = False

    def build(self, dim: int) -> Seq2Seq:
        return Seq2Seq(dim, self.cell, self.bidirectional)
