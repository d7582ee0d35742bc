"""Where model and loss meet: a batch in, a scalar out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from vsekit.data.augment import disturb_words, drop_regions
from vsekit.encoders.base import Tokens
from vsekit.encoders.image.tails import MapViews, Tail
from vsekit.errors import UserError
from vsekit.losses.base import Loss, LossInputs, OfflineScores, Teaching
from vsekit.models.model import VSE
from vsekit.models.tower import Tower
from vsekit.parts import ReadTokens, Sets
from vsekit.training.average import MovingAverage
from vsekit.training.chunks import through
from vsekit.training.global_batch import RowBlocks, batch_is_shared, gathered
from vsekit.training.settings import AugmentSettings
from vsekit.training.world import World

#: Sentences as tokens, or as what a frozen encoder made of them.
Texts = Tokens | ReadTokens | Sets


@dataclass
class OfflineBatch:
    """Inputs of one offline negative of each kind for every pair: î, the image of t̂; t̂, a caption of î."""

    image: Tensor | Sets
    image_of_caption: Tensor | Sets
    caption: Texts
    caption_of_image: Texts


@dataclass
class TeacherBatch:
    """The teacher's vectors of the batch's images and captions, (B, E); further pictures without captions, and the
    teacher's vectors of those, (U, E). shared: this process has a share of those further pictures."""

    images: Tensor
    captions: Tensor
    unlabelled: Tensor | Sets | None = None
    unlabelled_images: Tensor | None = None
    shared: bool = False


@dataclass
class Batch:
    """Pair b is image b with caption b; `groups` numbers groups of the training collection.

    total: how many pairs the batch has, where this is one process's share of it; None: this is all of it.
    """

    images: Tensor | Sets
    captions: Texts
    groups: Tensor
    epoch: float
    offline: OfflineBatch | None = None
    teacher: TeacherBatch | None = None
    total: int | None = None

    def __len__(self) -> int:
        """Pairs of the whole batch."""
        return self.total or len(self.groups)


class Step(nn.Module):
    """Embeds a batch, scores it and hands the scores to the loss; adds the loss of a caption branch, weight 1.

    With mixed precision the towers compute in 16 bits; scores and loss in 32, since a softmax over scores divided by a small
    temperature tells them apart by their last bits.

    Args:
        chunk: rows that a tower reads at a time, see `chunks`; None: all.
        average: decay of a moving average of the model's weights; None: there is none.
        world: who else has a share of the batch, see `global_batch`.
    """

    def __init__(
        self,
        model: VSE,
        loss: Loss,
        augment: AugmentSettings | None = None,
        *,
        chunk: int | None = None,
        average: float | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__()
        self.model, self.loss, self.augment = model, loss, augment or AugmentSettings()
        self.average = MovingAverage(model, average) if average else None
        self.chunk, self.world = chunk, world or World()
        self._look_at_maps()
        if loss.needs_vectors and model.similarity.on_sets:
            raise UserError(
                f"this loss classifies single vectors, but similarity '{model.settings.similarity.kind}' compares sets",
                remedy="Choose a pooling other than 'none' and a similarity of vectors (cosine), or another loss.",
            )
        if loss.needs_symmetric and not model.similarity.symmetric:
            raise UserError(
                "this loss compares images with images and captions with captions, which similarity "
                f"'{model.settings.similarity.kind}' can't: it tells the two sides apart",
                remedy="Choose cosine or inner_product, or another loss.",
            )
        if chunk and model.caption_branch is not None:
            raise UserError(
                "a caption branch reads the regions of the whole batch",
                field="chunk",
                remedy="Leave `chunk` out, or model.caption_branch.",
            )

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        model = self.model
        world = self.world if batch.total else World()  # of whom each has a share
        if not self.world.alone:
            batch_is_shared(model, not world.alone)
        with own_randomness(self.world):
            images, captions, branch = self._embedded(batch)
        towers = _Towers(model, self.chunk, self.world, torch.is_autocast_enabled(batch.groups.device.type))
        with torch.autocast(batch.groups.device.type, enabled=False):
            images, captions = in_full(images), in_full(captions)
            every_image, every_caption = gathered(images, world), gathered(captions, world)
            by_rows = model.similarity.on_sets and not world.alone
            similarity = RowBlocks(model.similarity, world) if by_rows else model.similarity
            offline = batch.offline and Offline(towers, batch.offline, images, captions, lambda s: gathered(s, world))
            inputs = LossInputs(
                scores=similarity(every_image, every_caption),
                groups=gathered(batch.groups, world),
                images=every_image,
                captions=every_caption,
                similarity=similarity,
                epoch=batch.epoch,
                offline=cast(OfflineScores | None, offline),
                teaching=self._teaching(batch.teacher, towers, world) if batch.teacher else None,
            )
            loss, logs = self.loss(inputs)
        if branch is None:
            return loss, logs
        if batch.total:
            branch = gathered(branch[None] * (len(batch.groups) / batch.total), world).sum()
        return loss + branch, {**logs, "ranking": loss.detach(), "captions": branch.detach()}

    def _look_at_maps(self) -> None:
        """Tells the tails of the image encoder how to look at their maps."""
        views = MapViews(self.augment.flip, self.augment.crop)
        tails = [module for module in self.model.image.modules() if isinstance(module, Tail)]
        if views != MapViews() and not tails:
            raise UserError(
                "the image encoder has no tail, so there are no maps to mirror or to crop",
                field="augment",
                remedy="Leave flip and crop out, or let the encoder's last blocks learn: image.encoder.cut.",
            )
        for tail in tails:
            tail.views = views

    def _embedded(self, batch: Batch) -> tuple[Any, Any, Tensor | None]:
        """The batch's images and captions, and the loss of the caption branch."""
        model = self.model
        if self.chunk:
            images = through(model.image, batch.images, self.chunk, self._dropped)
            return images, through(model.text, self._disturbed(batch.captions), self.chunk), None
        sets, tokens = self._dropped(model.image_sets(batch.images)), self._disturbed(batch.captions)
        if model.caption_branch is None:
            return model.image.embed(sets), model.text(tokens), None
        images, regions = model.image.embed_with_regions(sets)
        assert isinstance(batch.captions, Tokens)  # Collection sees to it
        branch = model.caption_branch(regions, sets.mask, batch.captions)
        return images, model.text(tokens), branch

    def _teaching(self, teacher: TeacherBatch, towers: _Towers, world: World) -> Teaching:
        further = None if teacher.unlabelled is None else towers.embed_images(teacher.unlabelled)
        owners = self.world if teacher.shared else World()
        return Teaching(
            gathered(teacher.images, world),
            gathered(teacher.captions, world),
            gathered(further, owners),
            gathered(teacher.unlabelled_images, owners),
        )

    def _dropped(self, sets: Sets) -> Sets:
        if not self.augment.regions:
            return sets
        places = sets.mask.flatten(0, -2)  # of every picture, or of every view
        return Sets(sets.vectors, drop_regions(places, self.augment.regions).view_as(sets.mask))

    def _disturbed(self, tokens: Texts) -> Texts:
        if not self.augment.words or not isinstance(tokens, Tokens):
            return tokens
        tokenizer = self.model.tokenizer
        return disturb_words(tokens, self.augment.words, len(tokenizer), tokenizer.mask_id, tokenizer.special_ids)


def in_full(embedding: Any) -> Any:
    """An embedding that towers gave in 16 bits, in 32; others as they are."""
    if isinstance(embedding, Sets):
        return Sets(in_full(embedding.vectors), embedding.mask)
    return embedding.float() if embedding.dtype in (torch.bfloat16, torch.float16) else embedding


@contextmanager
def own_randomness(world: World, number: int = 0) -> Iterator[None]:
    """Random numbers within are of this process alone (dropout of its share); those after it are the common ones again.

    A loss draws common ones, as every process computes the same loss. number: which of several such draws of a step.
    """
    if world.alone:
        yield
        return
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    common = torch.initial_seed()
    with torch.random.fork_rng(devices):
        torch.manual_seed(common + world.rank + world.size * number)
        yield


@dataclass
class _Towers:
    """The model as a loss asks for more embeddings: in chunks, and with random numbers of this process's own.

    mixed: towers compute in 16 bits, although who asks computes in 32.
    """

    model: VSE
    chunk: int | None
    world: World
    mixed: bool = False
    asked: int = 0

    @property
    def similarity(self) -> Any:
        return self.model.similarity

    def embed_images(self, inputs: Tensor | Sets) -> Any:
        return self._through(self.model.image, inputs)

    def text(self, tokens: Texts) -> Any:
        return self._through(self.model.text, tokens)

    def _through(self, tower: Tower, inputs: Any) -> Any:
        self.asked += 1
        device = next(tower.parameters()).device.type
        half = torch.autocast(device, torch.get_autocast_dtype(device), enabled=self.mixed)
        with own_randomness(self.world, self.asked), half:
            return in_full(through(tower, inputs, self.chunk))


class Offline:
    """`OfflineScores` of a batch, each embedded and scored when a loss first asks for it: a triplet loss has no use for the
    partners, and the first epochs of a curriculum for none of them.

    Args:
        images, captions: embeddings of the batch, or of this process's share.
        whole: the scores of all shares, from those of this one.
    """

    def __init__(
        self,
        model: VSE | _Towers,
        batch: OfflineBatch,
        images: Any,
        captions: Any,
        whole: Callable[[Tensor], Tensor] = lambda scores: scores,
    ) -> None:
        self.model, self.batch, self.images, self.captions, self.whole = model, batch, images, captions, whole

    @cached_property
    def _image(self) -> Any:
        return self.model.embed_images(self.batch.image)

    @cached_property
    def _caption(self) -> Any:
        return self.model.text(self.batch.caption)

    @cached_property
    def caption(self) -> Tensor:
        return self.whole(self.model.similarity.paired(self.images, self._caption))

    @cached_property
    def image(self) -> Tensor:
        return self.whole(self.model.similarity.paired(self._image, self.captions))

    @cached_property
    def both(self) -> Tensor:
        return self.whole(self.model.similarity.paired(self._image, self._caption))

    @cached_property
    def partners(self) -> Tensor:
        image = self.model.embed_images(self.batch.image_of_caption)
        return self.whole(self.model.similarity.paired(image, self.model.text(self.batch.caption_of_image)))
