"""Where model and loss meet: a batch in, a scalar out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from torch import Tensor, nn

from vsekit.data.augment import disturb_words, drop_regions
from vsekit.encoders.base import Tokens
from vsekit.errors import UserError
from vsekit.losses.base import Loss, LossInputs, OfflineScores, Teaching
from vsekit.models.model import VSE
from vsekit.parts import ReadTokens, Sets
from vsekit.training.settings import AugmentSettings

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
    teacher's vectors of those, (U, E)."""

    images: Tensor
    captions: Tensor
    unlabelled: Tensor | Sets | None = None
    unlabelled_images: Tensor | None = None


@dataclass
class Batch:
    """Pair b is image b with caption b; `groups` numbers groups of the training collection."""

    images: Tensor | Sets
    captions: Texts
    groups: Tensor
    epoch: float
    offline: OfflineBatch | None = None
    teacher: TeacherBatch | None = None

    def __len__(self) -> int:
        return len(self.groups)


class Step(nn.Module):
    """Embeds a batch, scores it and hands the scores to the loss; adds the loss of a caption branch, weight 1."""

    def __init__(self, model: VSE, loss: Loss, augment: AugmentSettings | None = None) -> None:
        super().__init__()
        self.model, self.loss, self.augment = model, loss, augment or AugmentSettings()
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

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Any]]:
        model = self.model
        sets, tokens = self._augmented(model.image_sets(batch.images), batch.captions)
        branch: Tensor | None = None
        if model.caption_branch is None:
            images = model.image.embed(sets)
        else:
            images, regions = model.image.embed_with_regions(sets)
            assert isinstance(batch.captions, Tokens)  # Collection sees to it
            branch = model.caption_branch(regions, sets.mask, batch.captions)
        captions = model.text(tokens)
        inputs = LossInputs(
            scores=model.similarity(images, captions),
            groups=batch.groups,
            images=images,
            captions=captions,
            similarity=model.similarity,
            epoch=batch.epoch,
            offline=cast(OfflineScores, Offline(model, batch.offline, images, captions)) if batch.offline else None,
            teaching=self._teaching(batch.teacher) if batch.teacher else None,
        )
        loss, logs = self.loss(inputs)
        if branch is None:
            return loss, logs
        return loss + branch, {**logs, "ranking": loss.detach(), "captions": branch.detach()}

    def _teaching(self, teacher: TeacherBatch) -> Teaching:
        further = None if teacher.unlabelled is None else self.model.embed_images(teacher.unlabelled)
        return Teaching(teacher.images, teacher.captions, further, teacher.unlabelled_images)

    def _augmented(self, sets: Sets, tokens: Texts) -> tuple[Sets, Texts]:
        if self.augment.regions:
            places = sets.mask.flatten(0, -2)  # of every picture, or of every view
            sets = Sets(sets.vectors, drop_regions(places, self.augment.regions).view_as(sets.mask))
        if self.augment.words and isinstance(tokens, Tokens):
            tokenizer = self.model.tokenizer
            tokens = disturb_words(tokens, self.augment.words, len(tokenizer), tokenizer.mask_id, tokenizer.special_ids)
        return sets, tokens


class Offline:
    """`OfflineScores` of a batch, each embedded and scored when a loss first asks for it: a triplet loss has no use for the
    partners, and the first epochs of a curriculum for none of them."""

    def __init__(self, model: VSE, batch: OfflineBatch, images: Any, captions: Any) -> None:
        self.model, self.batch, self.images, self.captions = model, batch, images, captions

    @cached_property
    def _image(self) -> Any:
        return self.model.embed_images(self.batch.image)

    @cached_property
    def _caption(self) -> Any:
        return self.model.text(self.batch.caption)

    @cached_property
    def caption(self) -> Tensor:
        return self.model.similarity.paired(self.images, self._caption)

    @cached_property
    def image(self) -> Tensor:
        return self.model.similarity.paired(self._image, self.captions)

    @cached_property
    def both(self) -> Tensor:
        return self.model.similarity.paired(self._image, self._caption)

    @cached_property
    def partners(self) -> Tensor:
        image = self.model.embed_images(self.batch.image_of_caption)
        return self.model.similarity.paired(image, self.model.text(self.batch.caption_of_image))
