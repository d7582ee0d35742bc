"""Large batches on small memory: a tower reads its batch in chunks, and nothing of a chunk is kept but its embeddings.

Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup" (gradient caching), 2021, Sec. 3: embed
without a graph, lose on all embeddings, take the gradient at them, and embed chunk by chunk again to send it on. That is
checkpointing with a chunk for the piece, so torch's does it, the random numbers of the first pass included.

What normalises over the batch must see all of it. Where a batch norm stands behind the encoder, the tower is cut at the
encoder's output; one within the encoder is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from vsekit.errors import UserError
from vsekit.models.embed import joined
from vsekit.models.model import VSE
from vsekit.models.tower import Tower
from vsekit.parts import ReadTokens, Sets


def through(tower: Tower, inputs: Any, chunk: int | None, change: Callable[[Sets], Sets] = lambda sets: sets) -> Any:
    """`tower(inputs)`, `chunk` rows at a time; all at once where it is None.

    change: what is done to the encoder's output (augmentation).
    """
    if chunk is None:
        return tower.embed(change(tower.encode(inputs)), inputs)
    if _normalises(tower.encoder) and not isinstance(inputs, Sets | ReadTokens):
        raise UserError(
            f"{type(tower.encoder).__name__} normalises over the batch, so it can't read it in chunks",
            field="chunk",
            remedy="Freeze the encoder (stages.NAME.freeze), choose one without batch normalisation, or leave `chunk` out.",
        )
    if any(_normalises(part) for name, part in tower.named_children() if name != "encoder"):
        return tower.embed(in_chunks(lambda piece: change(tower.encode(piece)), inputs, chunk), inputs)
    return in_chunks(lambda piece: tower.embed(change(tower.encode(piece)), piece), inputs, chunk)


def in_chunks(function: Callable[[Any], Any], inputs: Any, chunk: int) -> Any:
    """`function` of rows, (b, …) → (b, …) or `Sets`, computed chunk by chunk, and again when gradients come back."""
    total = len(inputs[0]) if isinstance(inputs, tuple) else len(inputs)
    pieces = [rows(inputs, slice(start, start + chunk)) for start in range(0, total, chunk)]
    return joined([checkpoint(function, piece, use_reentrant=False) for piece in pieces])


def rows(value: Any, chosen: Any) -> Any:
    """Some rows of a tensor, of `Sets` or of `Tokens`."""
    return type(value)(*(part[chosen] for part in value)) if isinstance(value, tuple) else value[chosen]


def _normalises(module: nn.Module) -> bool:
    norms = (m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm))
    return any(norm.training for norm in norms)


def checkpoint_activations(model: VSE) -> None:
    """Lets every encoder that can compute its layers again in the backward pass do so, instead of keeping what they gave."""
    inner: list[Any] = [getattr(tower.encoder, "model", None) for tower in (model.image, model.text)]
    able = [module for module in inner if getattr(module, "supports_gradient_checkpointing", False)]
    if not able:
        raise UserError(
            "neither encoder can compute its layers again",
            field="activation_checkpointing",
            remedy="It is for encoders of transformers that learn; for others, set `chunk`.",
        )
    for module in able:
        module.gradient_checkpointing_enable({"use_reentrant": False})
