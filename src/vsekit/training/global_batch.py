"""One batch over several processes: each embeds its share, and all score and lose on the whole of it.

    process r:   e_r = embed(share r)      E = gather(e_0 … e_{N−1})      L = loss(E), the same in every process
    gradients:   ∂(Σ_r L_r)/∂θ = N · ∂L/∂θ, so their mean over the processes is that of one process with the whole batch

Every function here that autograd sees has the derivative of the *sum* of all processes' losses: what a tensor is worth to
the others comes back to it. Hence any loss is right without knowing of it, and so are losses of which each process computes
a part (score blocks, rows of a classifier).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vsekit.parts import Sets
from vsekit.similarity.base import Similarity
from vsekit.training.world import World

#: Gradients travel in pieces of so many numbers.
_PIECE = 2**24


def share(total: int, world: World) -> slice | None:
    """Which of `total` rows are this process's; None where there are fewer rows than processes: each then takes all."""
    if world.alone or total < world.size:
        return None
    least, more = divmod(total, world.size)
    start = world.rank * least + min(world.rank, more)
    return slice(start, start + least + (world.rank < more))


def gathered(value: Any, world: World) -> Any:
    """Rows of all processes, in the order of ranks: (b, …) → (B, …), or `Sets`; sizes may differ, gradients flow."""
    if value is None or world.alone:
        return value
    if isinstance(value, Sets):
        # Bytes: NCCL knows no bools.
        return Sets(_Gather.apply(value.vectors), _Gather.apply(value.mask.byte()).bool())
    return _Gather.apply(value)


def summed(value: Tensor) -> Tensor:
    """The sum over all processes, in every process; gradients flow."""
    return _Sum.apply(value)


def decided(flag: bool, world: World, device: torch.device) -> bool:
    """What the leader decides, cheap enough for every step."""
    if world.alone:
        return flag
    said = torch.tensor([int(flag)], device=device)
    dist.broadcast(said, 0)
    return bool(said.item())


def everyones(value: Tensor, group: Any = None) -> list[Tensor]:
    """The tensors of all processes, padded with zeros to the largest size of each dimension but the first."""
    shape = torch.tensor(value.shape, device=value.device)
    shapes = [torch.empty_like(shape) for _ in range(dist.get_world_size())]
    dist.all_gather(shapes, shape, group=group)
    largest = torch.stack(shapes).amax(0).tolist()
    padded = value.new_zeros(largest)
    padded[tuple(slice(n) for n in value.shape)] = value
    pieces = [torch.empty_like(padded) for _ in shapes]
    dist.all_gather(pieces, padded, group=group)
    return [piece[: int(shape[0])] for piece, shape in zip(pieces, shapes)]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        pieces = everyones(value.detach().contiguous())
        ctx.start, ctx.shape = sum(len(piece) for piece in pieces[: dist.get_rank()]), value.shape
        return torch.cat(pieces)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad)
        return grad[ctx.start :][tuple(slice(n) for n in ctx.shape)]


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        total = value.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return summed(grad)


class RowBlocks:
    """A similarity of which each process scores its share of the images with all captions; all have the whole matrix.

    For set similarities, whose scores cost more than all else.
    """

    def __init__(self, similarity: Similarity, world: World) -> None:
        self.similarity, self.world = similarity, world

    def __call__(self, images: Sets, captions: Sets) -> Tensor:
        rows = share(len(images.mask), self.world)
        if rows is None:
            return self.similarity(images, captions)
        return cast(
            Tensor, gathered(self.similarity(Sets(images.vectors[rows], images.mask[rows]), captions), self.world)
        )


class GlobalBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation with the statistics of the batch of all processes. `nn.SyncBatchNorm` needs a GPU; this doesn't.

    shared: each process has a share of the batch; otherwise each has all of it.
    """

    shared = True

    def forward(self, input: Tensor) -> Tensor:
        """(M, C) or (M, C, …). A single row in all has no variance: it is normalised by the running statistics."""
        if not self.training:
            return super().forward(input)
        dims = [d for d in range(input.dim()) if d != 1]
        x = input.to(torch.promote_types(input.dtype, torch.float32))
        total = summed if self.shared else _same
        count = total(x.new_tensor([x.numel() / x.shape[1]]))
        if count.item() == 1:
            statistics = self.running_mean, self.running_var
            return nn.functional.batch_norm(input, *statistics, self.weight, self.bias, eps=self.eps)
        shape = [1, -1, *[1] * (x.dim() - 2)]
        mean = total(x.sum(dims)) / count
        apart = x - mean.view(shape)
        variance = total(apart.square().sum(dims)) / count
        self._follow(mean.detach(), variance.detach() * count / (count - 1))
        normed = apart * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            normed = normed * self.weight.view(shape) + self.bias.view(shape)
        return normed.to(input.dtype)

    def _check_input_dim(self, input: Tensor) -> None:
        pass

    def _follow(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean, momentum)
        self.running_var.lerp_(variance, momentum)


def _same(value: Tensor) -> Tensor:
    return value


def batch_is_shared(module: nn.Module, shared: bool) -> None:
    """Tells every `GlobalBatchNorm` in `module` whether each process has a share of the batch to come, or all of it."""
    for child in module.modules():
        if isinstance(child, GlobalBatchNorm):
            child.shared = shared


def normalise_globally(module: nn.Module) -> None:
    """Every batch normalisation in `module` becomes a `GlobalBatchNorm`; names and weights stay."""
    for child in module.modules():
        if isinstance(child, nn.modules.batchnorm._BatchNorm):
            child.__class__ = GlobalBatchNorm


def start_alike(module: nn.Module, sharded: Iterable[nn.Parameter], world: World) -> None:
    """Gives every process the leader's weights: two machines may start from the same seed and differ in a last bit."""
    own = {id(parameter) for parameter in sharded}
    for tensor in [] if world.alone else module.state_dict(keep_vars=True).values():
        if id(tensor) not in own:
            dist.broadcast(tensor.detach(), 0)


def average_gradients(parameters: Iterable[nn.Parameter], sharded: Iterable[nn.Parameter], world: World) -> None:
    """The mean of the processes' gradients, in every process; rows that one process alone has are only divided.

    A parameter that no process has a gradient of keeps none: an optimiser passes it over.
    """
    own = {id(parameter) for parameter in sharded}
    common = [p for p in parameters if p.requires_grad and id(p) not in own]
    for parameter in sharded:
        if parameter.grad is not None:
            parameter.grad /= world.size
    used = torch.tensor([float(p.grad is not None) for p in common], device=common[0].device)
    dist.all_reduce(used)
    common = [p for p, n in zip(common, used.tolist()) if n]
    sparse = [p for p in common if p.grad is not None and p.grad.is_sparse]
    for parameter in sparse:
        parameter.grad = _mean_of_sparse(cast(Tensor, parameter.grad), world)
    rest = [p for p in common if not (p.grad is not None and p.grad.is_sparse)]
    while rest:
        piece = [rest.pop(0)]
        while rest and rest[0].dtype == piece[0].dtype and sum(p.numel() for p in piece) < _PIECE:
            piece.append(rest.pop(0))
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in piece]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        dist.all_reduce(flat)
        flat /= world.size
        for parameter, grad, mean in zip(piece, grads, flat.split([p.numel() for p in piece])):
            parameter.grad = grad.copy_(mean.view(parameter.shape))


def _mean_of_sparse(grad: Tensor, world: World) -> Tensor:
    grad = grad.coalesce()
    indices, values = (
        torch.cat(everyones(grad.indices().T.contiguous())).T,
        torch.cat(everyones(grad.values())) / world.size,
    )
    return torch.sparse_coo_tensor(indices, values, grad.shape).coalesce()


def clip_gradients(
    parameters: Iterable[nn.Parameter], sharded: Iterable[nn.Parameter], most: float, world: World
) -> None:
    """Scales all gradients so that their norm, with all processes' rows of sharded parameters, is `most` or less."""
    own = {id(parameter) for parameter in sharded}
    with_grad = [p for p in parameters if p.grad is not None]
    squares = [[], []]  # type: list[list[Tensor]]
    for parameter in with_grad:
        squares[id(parameter) in own].append(cast(Tensor, parameter.grad).float().square().sum())
    zero = torch.zeros((), device=with_grad[0].device)
    common, shards = (torch.stack([zero, *part]).sum() for part in squares)
    norm = (common + summed(shards)).sqrt()
    scale = (most / (norm + 1e-6)).clamp(max=1.0)  # as torch's clip_grad_norm_
    for parameter in with_grad:
        cast(Tensor, parameter.grad).mul_(scale.to(parameter.dtype))
