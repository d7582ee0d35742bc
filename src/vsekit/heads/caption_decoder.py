"""VSRN's caption-generation branch (Li et al., ICCV 2019, Sec. 3.4): the caption must be sayable from the regions.

    e = GRU(dropout(W · v))                       reads the regions, 2048 → 512
    c_t = Σ_j softmax_j(w · tanh(W_e e_j + W_h h_{t−1} + b)) · e_j
    h_t = GRU(dropout([embedding(y_{t−1}); c_t]), h_{t−1}),  h_0 = last state of e;  p(y_t) = softmax(W_o h_t + b_o)
    L_gen = − 1/B · Σ_b Σ_t log p(y_t | y_<t)     over the true words ("teacher forcing"), padding aside

VSRN adds L_gen to the ranking loss with weight 1. The first token (<start>) is given, the last (<end>) predicted. The
paper names an attentive encoder–decoder only; sizes and dropout are those of the published code, which also predicts one
<pad> after <end>: `trailing_pad`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from vsekit.data.text import PAD
from vsekit.encoders.base import Tokens
from vsekit.parts import Part
from vsekit.pooling.masked import read_sequence, softmax, zero_padding


class CaptionDecoder(nn.Module):
    def __init__(
        self,
        dim_regions: int,
        vocabulary_size: int,
        hidden: int = 512,
        word_dim: int = 300,
        dropout: float = 0.2,
        trailing_pad: bool = False,
    ) -> None:
        super().__init__()
        self.project = nn.Linear(dim_regions, hidden)
        self.encoder = nn.GRU(hidden, hidden, batch_first=True)
        self.words = nn.Embedding(vocabulary_size, word_dim)
        self.attend_region, self.attend_state = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden, bias=False)
        self.attend = nn.Linear(hidden, 1, bias=False)
        self.decoder = nn.GRUCell(word_dim + hidden, hidden)
        self.out = nn.Linear(hidden, vocabulary_size)
        self.dropout, self.trailing_pad = nn.Dropout(dropout), trailing_pad

    def forward(self, regions: Tensor, mask: Tensor, tokens: Tokens) -> Tensor:
        """The loss of saying caption b from image b.

        Args:
            regions: (B, N, dim_regions), `VSRN.reason` of the images.  mask: (B, N).
            tokens: ids (B, T) below `vocabulary_size`; a caption of a single token has nothing to predict.
        """
        if self.trailing_pad:
            tokens = _with_trailing_pad(tokens)
        projected = self.dropout(self.project(zero_padding(regions, mask)))
        (encoded, valid), state = read_sequence(self.encoder, projected, mask)
        keys, states = self.attend_region(encoded), [state]
        for word in self.words(tokens.ids[:, :-1]).unbind(1):
            logits = self.attend((keys + self.attend_state(state).unsqueeze(1)).tanh()).squeeze(-1)
            context = torch.einsum("bn,bnh->bh", softmax(logits, valid), encoded)
            state = self.decoder(self.dropout(torch.cat([word, context], 1)), state)
            states.append(state)
        places = torch.arange(tokens.ids.shape[1], device=tokens.ids.device)
        predicted = (places > 0) & (places < tokens.lengths[:, None])  # states[t] has seen the words before t
        logits = self.out(torch.stack(states, 1)[predicted])
        return F.cross_entropy(logits, tokens.ids[predicted], reduction="sum") / len(tokens.ids)


def _with_trailing_pad(tokens: Tokens) -> Tokens:
    """Every caption with one more token, <pad>, of its own."""
    behind = torch.arange(tokens.ids.shape[1], device=tokens.ids.device) >= tokens.lengths[:, None]
    return Tokens(F.pad(tokens.ids.masked_fill(behind, PAD), (0, 1), value=PAD), tokens.lengths + 1)


class CaptionDecoderSettings(Part):
    """hidden, word_dim, dropout: sizes and dropout of encoder and decoder.

    trailing_pad: also predict one <pad> (id 0) after each caption's end, as published code does.
    """

    kind: Literal["caption_decoder"] = "caption_decoder"
    hidden: PositiveInt = 512
    word_dim: PositiveInt = 300
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2
    trailing_pad: bool = False

    def build(self, dim_regions: int, vocabulary_size: int) -> CaptionDecoder:
        sizes = self.hidden, self.word_dim, self.dropout
        return CaptionDecoder(dim_regions, vocabulary_size, *sizes, trailing_pad=self.trailing_pad)
