"""Cross attention between regions and words, the common ground of SCAN (Lee et al. 2018) and BFAN (Liu et al. 2019).

One side asks and the other answers. In text-to-image attention ("t2i") every word q_m asks the picture's regions
v_1 … v_N; in image-to-text attention ("i2t") every region asks the caption's words. With s_nm = v_n · q_m,

    x_nm = LeakyReLU(s_nm) / ‖LeakyReLU(s_n·)‖₂          over the queries m of the set
    a_nm = softmax_n(λ x_nm)                             over the context n        (BFAN then masks the unfocused)
    r_m  = cos(q_m, Σ_n a_nm v_n)

and the score of the pair is the mean of r, or the LogSumExp (1/λ') log Σ_m exp(λ' r_m).

The attended context Σ_n a_nm v_n is D numbers for every word of every pair; it is never formed, since with the Gram
matrix G = V Vᵀ of the context r_m = a·s / (‖q_m‖ √(aᵀ G a)). What remains is one matrix product of all regions with
all words and a few passes over it, taken block by block and, in training, computed again in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from vsekit.parts import Sets
from vsekit.similarity.base import Similarity, full_precision

Direction = Literal["t2i", "i2t"]
#: Attention (X, N, M, Y) and the context's mask (X, N) → attention, 0 where it is not focused.
Focus = Callable[[Tensor, Tensor], Tensor]


def attend(products: Tensor, context: Tensor, lambda_softmax: float, slope: float, focus: Focus | None) -> Tensor:
    """The weights a_nm of the context for every query.

    Args:
        products: (X, N, M, Y), of N context vectors in X sets with M queries in Y sets; 0 where either is padding.
        context: (X, N) bool, the mask of the context.
        lambda_softmax: the inverse temperature λ.
        slope: of the LeakyReLU.
        focus: what BFAN does to the weights.

    Returns: (X, N, M, Y), which sums to 1 over N.
    """
    rectified = F.leaky_relu(products, slope)
    # A square and a sum: vector_norm over a middle dimension is 20 times slower.
    scale = lambda_softmax * _reciprocal_root((rectified * rectified).sum(2, keepdim=True))
    absent = products.new_zeros(context.shape).masked_fill(~context, -torch.inf)[:, :, None, None]
    weights = torch.addcmul(absent, rectified, scale).softmax(1)
    return weights if focus is None else focus(weights, context)


def attended_cosines(products: Tensor, weights: Tensor, gram: Tensor, squares: Tensor) -> Tensor:
    """cos(query, attended context) of every query.

    Args:
        products, weights: (X, N, M, Y), as above.
        gram: (X, N, N), the inner products of each context.
        squares: (X or 1, M, Y), the squared lengths of the queries.

    Returns: (X, M, Y); 0 for a query or an attended context that is 0.
    """
    attended_squares = (weights * (gram @ weights.flatten(2)).view_as(weights)).sum(1)
    return (weights * products).sum(1) * _reciprocal_root(attended_squares) * _reciprocal_root(squares)


def _reciprocal_root(squares: Tensor, eps: float = 1e-12) -> Tensor:
    """1/√x, or 1 where x ≤ eps²: what it scales is 0 there, and so gets a gradient of ordinary size."""
    return squares.masked_fill(squares <= eps**2, 1.0).rsqrt()


class _Block(NamedTuple):
    """Some sets. vectors: (B, N, D), 0 at padded places; mask: (B, N); gram: (B, N, N), their inner products."""

    vectors: Tensor
    mask: Tensor
    gram: Tensor

    @classmethod
    def of(cls, vectors: Tensor, mask: Tensor) -> _Block:
        vectors = full_precision(vectors).masked_fill(~mask[..., None], 0.0)
        return cls(vectors, mask, vectors @ vectors.mT)

    @property
    def squares(self) -> Tensor:
        """(B, N), the squared lengths."""
        return self.gram.diagonal(dim1=1, dim2=2)


def _blocks(sets: Sets, side: int) -> tuple[list[_Block], Tensor]:
    """The sets in blocks of at most `side` vectors (but at least one set), each cut to its longest set.

    Returns the blocks, in which the sets are ordered by length so that little is padding, and where each set went.
    """
    places = torch.arange(1, sets.mask.shape[1] + 1, device=sets.mask.device)
    lengths, order = (sets.mask * places).amax(1).sort(descending=True)
    widths, sizes, rest = [], [], lengths.tolist()
    while rest:
        widths.append(rest[0])
        sizes.append(min(max(1, side // rest[0]), len(rest)))
        rest = rest[sizes[-1] :]
    # One gather for all keeps the backward pass cheap; a gather a block spares a large collection a second copy.
    if sets.vectors.requires_grad:
        vectors: Iterable[Tensor] = sets.vectors[order].split(sizes)
    else:
        vectors = (sets.vectors[chosen] for chosen in order.split(sizes))
    pieces = zip(vectors, sets.mask[order].split(sizes), widths)
    return [_Block.of(v[:, :width], mask[:, :width]) for v, mask, width in pieces], order.argsort()


class CrossAttention(Similarity):
    """The sum of the scores of one or both directions.

    Args:
        directions: which sides ask.
        lambda_softmax, slope, focus: of the attention.
        lambda_lse: λ' of LogSumExp; None aggregates with the mean.
        block: region × word products are held block by block, each of at most block × block numbers.
    """

    on_sets = True
    symmetric = False

    def __init__(
        self,
        directions: tuple[Direction, ...],
        lambda_softmax: float,
        lambda_lse: float | None,
        slope: float = 0.1,
        focus: Focus | None = None,
        block: int = 512,
    ) -> None:
        super().__init__()
        self.directions, self.lambda_softmax, self.lambda_lse = directions, lambda_softmax, lambda_lse
        self.slope, self.focus, self.block = slope, focus, block

    def forward(self, images: Sets, captions: Sets) -> Tensor:
        """Sets of (I, R, D) and (C, L, D) → (I, C)."""
        differentiate = torch.is_grad_enabled() and (images.vectors.requires_grad or captions.vectors.requires_grad)
        with torch.autocast(images.vectors.device.type, enabled=False):
            image_blocks, image_order = _blocks(images, self.block)
            caption_blocks, caption_order = _blocks(captions, self.block)

            def score(i: _Block, c: _Block) -> Tensor:
                if not differentiate:
                    return self._score(i, c)
                return checkpoint(self._score, i, c, use_reentrant=False, preserve_rng_state=False)

            rows = [torch.cat([score(i, c) for c in caption_blocks], dim=1) for i in image_blocks]
            return torch.cat(rows)[image_order][:, caption_order]

    def paired(self, images: Sets, captions: Sets) -> Tensor:
        """Sets of (B, R, D) and (B, L, D) → (B,)."""
        with torch.autocast(images.vectors.device.type, enabled=False):
            return self._score(_Block.of(*images), _Block.of(*captions), paired=True).squeeze(1)

    def attention(self, images: Sets, captions: Sets) -> Tensor:
        """Whom the words of caption b look at in image b, or are looked at by: (B, L, R), 0 at padded places.

        A word's row sums to 1 where words ask (t2i, BFAN), a region's column where regions ask (i2t).
        """
        i, c = _Block.of(*images), _Block.of(*captions)
        products = (i.vectors @ c.vectors.mT)[..., None]
        if "t2i" in self.directions:
            weights = attend(products, i.mask, self.lambda_softmax, self.slope, self.focus).transpose(1, 2)
        else:
            weights = attend(products.transpose(1, 2), c.mask, self.lambda_softmax, self.slope, self.focus)
        return weights.squeeze(-1) * (c.mask[:, :, None] & i.mask[:, None, :])

    def _score(self, images: _Block, captions: _Block, paired: bool = False) -> Tensor:
        """(I, C), or (B, 1) of aligned pairs."""
        if paired:
            products = (images.vectors @ captions.vectors.mT)[..., None]  # (B, R, L, 1)
            turned = products.transpose(1, 2)
        else:
            words = captions.vectors.transpose(0, 1)
            # (I, R, L, C): sums over regions and over words then both run along rows of captions, as vector units like.
            products = images.vectors.flatten(0, 1) @ words.flatten(0, 1).mT
            products = products.view(*images.mask.shape, *words.shape[:2])
            turned = products.permute(3, 2, 1, 0)
        scores = []
        if "t2i" in self.directions:
            scores.append(self._directed(products, images, captions, paired))
        if "i2t" in self.directions:
            by_caption = self._directed(turned.contiguous(), captions, images, paired)
            scores.append(by_caption if paired else by_caption.T)
        return torch.stack(scores).sum(0)

    def _directed(self, products: Tensor, context: _Block, queries: _Block, paired: bool) -> Tensor:
        """Products of context and queries, (X, N, M, Y) → scores, (X, Y)."""
        squares, mask = (t[..., None] if paired else t.T[None] for t in (queries.squares, queries.mask))
        weights = attend(products, context.mask, self.lambda_softmax, self.slope, self.focus)
        cosines = attended_cosines(products, weights, context.gram, squares)
        if self.lambda_lse is None:
            return (cosines * mask).sum(1) / mask.sum(1)
        return (cosines * self.lambda_lse).masked_fill(~mask, -torch.inf).logsumexp(1) / self.lambda_lse
