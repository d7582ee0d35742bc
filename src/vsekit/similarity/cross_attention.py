"""Cross attention between regions and words, the common ground of SCAN (Lee et al. 2018) and BFAN (Liu et al. 2019).

One side asks and the other answers. In text-to-image attention ("t2i") every word q_m asks the picture's regions
v_1 … v_N; in image-to-text attention ("i2t") every region asks the caption's words. With s_nm = v_n · q_m,

    x_nm = LeakyReLU(s_nm) / ‖LeakyReLU(s_n·)‖₂          over the queries m of the set
    a_nm = softmax_n(λ x_nm)                             over the context n        (BFAN then masks the unfocused)
    r_m  = cos(q_m, Σ_n a_nm v_n)

and the score of the pair is the mean of r, or the LogSumExp (1/λ') log Σ_m exp(λ' r_m).

The attended context Σ_n a_nm v_n is D numbers for every word of every pair; it is never formed, since with the Gram
matrix G = V Vᵀ of the context r_m = a·s / (‖q_m‖ √(aᵀ G a)). That stays the same when a is multiplied by any number, so
the softmax is never divided by its sum. What remains is one matrix product of all regions with all words and a few passes
over it, block by block. In training nothing of a block is kept: the backward pass computes it again or, where the loss
looks at few pairs (max-of-hinges at three in a row), those pairs alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from vsekit.parts import Sets
from vsekit.similarity.base import Similarity, full_precision

Direction = Literal["t2i", "i2t"]
#: Attention (N, X, M, Y), up to a factor a query, and the context's mask (N, X) → attention, 0 where it is not focused.
Focus = Callable[[Tensor, Tensor], Tensor]

# e²⁰, squared and summed over a set, is far below what float32 holds; a larger λ needs its maximum taken off first.
_NO_OVERFLOW = 20.0
# Vectors of the pairs that the backward pass takes together: 2²² float32 are 16 MiB.
_GATHERED = 2**22


def attend(products: Tensor, context: Tensor, lambda_softmax: float, slope: float, focus: Focus | None) -> Tensor:
    """The weights a_nm of the context for every query, up to a positive factor of the query's own.

    Args:
        products: (N, X, M, Y), of N context vectors in X sets with M queries in Y sets; 0 where either is padding.
            Sums over N then add long rows and sums over M rows of Y, as vector units like.
        context: (N, X) bool, the mask of the context.
        lambda_softmax: the inverse temperature λ.
        slope: of the LeakyReLU.
        focus: what BFAN does to the weights.

    Returns: (N, X, M, Y).
    """
    rectified = F.leaky_relu(products, slope)
    # A square and a sum: vector_norm over a middle dimension is 20 times slower. And 2ˣ takes a third of the time of eˣ.
    scale = _reciprocal_root((rectified * rectified).sum(2, keepdim=True)) * (lambda_softmax / math.log(2))
    absent = products.new_zeros(context.shape).masked_fill(~context, -torch.inf)[:, :, None, None]
    exponents = torch.addcmul(absent, rectified, scale)
    if lambda_softmax > _NO_OVERFLOW:
        exponents = exponents - exponents.detach().amax(0)
    weights = exponents.exp2()
    return weights if focus is None else focus(weights, context)


def attended_cosines(products: Tensor, weights: Tensor, gram: Tensor, squares: Tensor) -> Tensor:
    """cos(query, attended context) of every query.

    Args:
        products, weights: (N, X, M, Y), as above.
        gram: (X, N, N), the inner products of each context.
        squares: (X or 1, M, Y), the squared lengths of the queries.

    Returns: (X, M, Y); 0 for a query or an attended context that is 0.
    """
    by_set = weights.flatten(2).transpose(0, 1)
    attended_squares = ((gram @ by_set) * by_set).sum(1).view(weights.shape[1:])
    return (weights * products).sum(0) * _reciprocal_root(attended_squares) * _reciprocal_root(squares)


def _reciprocal_root(squares: Tensor, eps: float = 1e-12) -> Tensor:
    """1/√x, or 1 where x ≤ eps²: what it scales is 0 there, and so gets a gradient of ordinary size."""
    return squares.masked_fill(squares <= eps**2, 1.0).rsqrt()


class _Block(NamedTuple):
    """Some sets. vectors: (N, B, D), 0 at padded places; mask: (N, B); gram: (B, N, N), their inner products."""

    vectors: Tensor
    mask: Tensor
    gram: Tensor

    @classmethod
    def of(cls, vectors: Tensor, mask: Tensor) -> _Block:
        """Of sets as they come, (B, N, D) and (B, N)."""
        vectors = vectors.masked_fill(~mask[..., None], 0.0)
        return cls(vectors.transpose(0, 1), mask.T, vectors @ vectors.mT)

    @classmethod
    def leaf(cls, vectors: Tensor, mask: Tensor, differentiate: bool) -> _Block:
        """Of (N, B, D) vectors, which it takes for itself, and (N, B). If so asked, it collects gradients."""
        vectors[~mask] = 0.0
        gram = vectors.transpose(0, 1) @ vectors.permute(1, 2, 0)
        return cls(vectors.requires_grad_(differentiate), mask, gram.requires_grad_(differentiate))

    @property
    def squares(self) -> Tensor:
        """(N, B), the squared lengths."""
        return self.gram.diagonal(dim1=1, dim2=2).T

    def gradient(self) -> Tensor:
        """Of the sets as they came, (B, N, D), from what vectors and Gram matrices of a leaf have collected."""
        if self.vectors.grad is None or self.gram.grad is None:  # no score of the block had a gradient
            return torch.zeros_like(self.vectors).transpose(0, 1)
        through_gram = (self.gram.grad + self.gram.grad.mT) @ self.vectors.detach().transpose(0, 1)
        return (self.vectors.grad.transpose(0, 1) + through_gram).masked_fill_(~self.mask.T[..., None], 0.0)


def _blocks(vectors: Tensor, mask: Tensor, side: int, differentiate: bool = False) -> list[tuple[Tensor, _Block]]:
    """Sets (B, N, D) in blocks of at most `side` vectors (but at least one set), each cut to its longest set.

    Returns which sets each block holds, and the block. Sets of like length stand together, so that little is padding.
    """
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    lengths, order = (mask * places).amax(1).sort(descending=True)
    blocks, rest = [], lengths.tolist()
    while rest:
        width = rest[0]
        chosen, order = order.tensor_split([max(1, side // width)])
        # Rows of a matrix: a fourth of the time of indexing sets.
        places = torch.arange(width, device=mask.device)[:, None] + chosen * mask.shape[1]
        gathered = vectors.flatten(0, 1).index_select(0, places.flatten()).unflatten(0, places.shape)
        blocks.append((chosen, _Block.leaf(gathered, mask[chosen, :width].T, differentiate)))
        rest = rest[len(chosen) :]
    return blocks


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
        """Sets of (I, R, D) and (C, L, D) → (I, C). Differentiable once."""
        regions, words = full_precision(images.vectors), full_precision(captions.vectors)
        with torch.autocast(regions.device.type, enabled=False):
            return _Scores.apply(self, regions, words, images.mask, captions.mask)

    def paired(self, images: Sets, captions: Sets) -> Tensor:
        """Sets of (B, R, D) and (B, L, D) → (B,)."""
        with torch.autocast(images.vectors.device.type, enabled=False):
            i, c = (_Block.of(full_precision(s.vectors), s.mask) for s in (images, captions))
            return self.score(i, c, paired=True).squeeze(1)

    def attention(self, images: Sets, captions: Sets) -> Tensor:
        """Whom the words of caption b look at in image b, or are looked at by: (B, L, R), 0 at padded places.

        A word's row sums to 1 where words ask (t2i, BFAN), a region's column where regions ask (i2t).
        """
        i, c = (_Block.of(full_precision(s.vectors), s.mask) for s in (images, captions))
        products, turned = _products(i, c, paired=True)
        words_ask = "t2i" in self.directions
        weights = attend(
            products if words_ask else turned,
            i.mask if words_ask else c.mask,
            self.lambda_softmax,
            self.slope,
            self.focus,
        ).squeeze(-1)
        weights = (weights / weights.sum(0)).permute((1, 2, 0) if words_ask else (1, 0, 2))
        return weights * (c.mask.T[:, :, None] & i.mask.T[:, None, :])

    def score(self, images: _Block, captions: _Block, paired: bool = False) -> Tensor:
        """(I, C), or (B, 1) of aligned pairs."""
        products, turned = _products(images, captions, paired)
        scores = []
        if "t2i" in self.directions:
            scores.append(self._directed(products, images, captions, paired))
        if "i2t" in self.directions:
            by_caption = self._directed(turned.contiguous(), captions, images, paired)
            scores.append(by_caption if paired else by_caption.T)
        return scores[0] if len(scores) == 1 else scores[0] + scores[1]

    def _directed(self, products: Tensor, context: _Block, queries: _Block, paired: bool) -> Tensor:
        """Products of context and queries, (N, X, M, Y) → scores, (X, Y)."""
        squares, mask = (t.T[..., None] if paired else t[None] for t in (queries.squares, queries.mask))
        weights = attend(products, context.mask, self.lambda_softmax, self.slope, self.focus)
        cosines = attended_cosines(products, weights, context.gram, squares)
        if self.lambda_lse is None:
            return (cosines * mask).sum(1) / mask.sum(1)
        return (cosines * self.lambda_lse).masked_fill(~mask, -torch.inf).logsumexp(1) / self.lambda_lse


def _products(images: _Block, captions: _Block, paired: bool) -> tuple[Tensor, Tensor]:
    """(R, I, L, C) and (L, C, R, I), each a view of the other; (R, B, L, 1) and (L, B, R, 1) of aligned pairs."""
    if paired:
        products = images.vectors.transpose(0, 1) @ captions.vectors.permute(1, 2, 0)
        return products.transpose(0, 1)[..., None], products.permute(2, 0, 1)[..., None]
    products = images.vectors.flatten(0, 1) @ captions.vectors.flatten(0, 1).mT
    products = products.view(*images.mask.shape, *captions.mask.shape)
    return products, products.permute(2, 3, 0, 1)


class _Scores(torch.autograd.Function):
    """All scores of (I, R, D) regions with (C, L, D) words; see the module's docstring on what training keeps."""

    @staticmethod
    def forward(
        ctx: Any, similarity: CrossAttention, regions: Tensor, words: Tensor, image_mask: Tensor, caption_mask: Tensor
    ) -> Tensor:
        ctx.similarity = similarity
        ctx.save_for_backward(regions, words, image_mask, caption_mask)
        scores = regions.new_empty(len(regions), len(words))
        caption_blocks = _blocks(words, caption_mask, similarity.block)
        for i, images in _blocks(regions, image_mask, similarity.block):
            for c, captions in caption_blocks:
                scores[i[:, None], c] = similarity.score(images, captions)
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        regions, words, image_mask, caption_mask = ctx.saved_tensors
        _, of_regions, of_words, _, _ = ctx.needs_input_grad
        images, captions = (regions.detach(), image_mask, of_regions), (words.detach(), caption_mask, of_words)
        backward = _backward_of_pairs if 2 * grad.count_nonzero() < grad.numel() else _backward_of_blocks
        with torch.enable_grad(), torch.autocast(regions.device.type, enabled=False):
            to_regions, to_words = backward(ctx.similarity, grad, images, captions)
        return None, to_regions if of_regions else None, to_words if of_words else None, None, None


#: Vectors, mask, and whether a gradient is wanted.
_Side = tuple[Tensor, Tensor, bool]


def _backward_of_blocks(similarity: CrossAttention, grad: Tensor, images: _Side, captions: _Side) -> list[Tensor]:
    """The gradients of regions and words when all pairs matter."""
    sides = [_blocks(vectors, mask, similarity.block, wanted) for vectors, mask, wanted in (images, captions)]
    for i, image_block in sides[0]:
        for c, caption_block in sides[1]:
            similarity.score(image_block, caption_block).backward(grad[i[:, None], c])
    gradients = [torch.zeros_like(vectors) for vectors, *_ in (images, captions)]
    for gradient, blocks, (*_, wanted) in zip(gradients, sides, (images, captions)):
        for chosen, block in blocks if wanted else ():
            gradient[chosen, : len(block.mask)] = block.gradient()
    return gradients


def _backward_of_pairs(similarity: CrossAttention, grad: Tensor, images: _Side, captions: _Side) -> list[Tensor]:
    """The gradients of regions and words when few pairs matter."""
    gradients = [torch.zeros_like(vectors) for vectors, *_ in (images, captions)]
    size = max(1, _GATHERED // sum(vectors[0].numel() for vectors, *_ in (images, captions)))
    for pairs in grad.nonzero().split(size):
        chosen = pairs.unbind(1)
        sets = [
            Sets(vectors[k].requires_grad_(wanted), mask[k])
            for k, (vectors, mask, wanted) in zip(chosen, (images, captions))
        ]
        similarity.paired(*sets).backward(grad[chosen])
        for gradient, k, one in zip(gradients, chosen, sets):
            if one.vectors.grad is not None:
                gradient.index_add_(0, k, one.vectors.grad)
    return gradients
