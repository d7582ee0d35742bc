"""A collection made ready for training: splits, tokens cut once, and pictures as pixels or as stored features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vsekit.data.pairs import Pairs
from vsekit.data.text import Ragged
from vsekit.errors import UserError
from vsekit.evaluation.meeting import meet
from vsekit.evaluation.protocols import evaluate
from vsekit.features.texts import TextStates, stored_texts
from vsekit.mining.sampler import OfflineSampler
from vsekit.models.inputs import ImageInputs, image_inputs
from vsekit.models.model import VSE
from vsekit.progress import Progress
from vsekit.training.epoch import Epoch, InMemory
from vsekit.training.global_batch import share
from vsekit.training.settings import RunSettings, StageSettings
from vsekit.training.step import Batch, OfflineBatch
from vsekit.training.teacher import Teacher
from vsekit.training.validation import validated
from vsekit.training.where import Where
from vsekit.training.world import World

if TYPE_CHECKING:
    from vsekit.training.stage import Stage

#: How often offline negatives are drawn again when one of their pictures can't be read.
REDRAWS = 10


class Collection:
    """The training and validation splits of `pairs`, as the settings say.

    text_features: folder of a frozen text encoder's states, one folder a split; None: in the cache.
    """

    def __init__(
        self, settings: RunSettings, pairs: Pairs, progress: Progress, text_features: Path | None = None
    ) -> None:
        self.settings, self.progress, self.text_features = settings, progress, text_features
        data = settings.data
        pairs = pairs.first_captions(data.captions_per_picture)
        if data.restval and "restval" in pairs.splits:
            self.train = pairs.split(data.train, "restval")
        else:
            self.train = pairs.split(data.train)
        self.val = pairs.split(data.val)
        if data.val_pictures:
            self.val = self.val.take(range(min(data.val_pictures, len(self.val.pictures))))
        for part, name in ((self.train, data.train), (self.val, data.val)):
            if not part.captions:
                raise UserError(f"split '{name}' has no captions", file=pairs.root, remedy="Look with: vse data check")
        encoder = settings.model.text.encoder
        self.tokenizer = encoder.make_tokenizer(_texts(pairs if data.vocabulary == "all" else self.train))
        self.train_tokens = Ragged.of(self.tokenizer(_texts(self.train)))
        self.val_tokens = Ragged.of(self.tokenizer(_texts(self.val)))
        self.train_texts: Ragged | TextStates = self.train_tokens
        self.val_texts: Ragged | TextStates = self.val_tokens
        self.caption_pictures = self.train.caption_pictures
        self.groups = torch.from_numpy(self.train.caption_groups)
        self.n_groups = int(self.train.picture_groups.max()) + 1
        features = pairs.features
        self.image_dim = None if features is None else int(features.shape[-1])
        self.feature_source = pairs.feature_source
        self.read_from: list[ImageInputs] = []
        _, first = np.unique(self.caption_pictures, return_index=True)
        self.first_caption = dict(zip(self.caption_pictures[first].tolist(), first.tolist()))

    def inputs(self, model: VSE, stage: StageSettings) -> tuple[ImageInputs, ImageInputs]:
        """What the image tower reads in training and in validation."""
        data, frozen = self.settings.data, "image.encoder" in stage.freeze
        learns = "image.tail" not in stage.freeze
        read: dict[str, Any] = {"frozen": frozen, "tail_learns": learns, "progress": self.progress}
        train = image_inputs(model, self.train, data.view, training=True, crops=data.crops, **read)
        val = image_inputs(model, self.val, data.eval_view, **read)
        self.read_from.append(train)
        self.train_texts = self._texts(model, stage, self.train_tokens, data.train + "+restval" * data.restval)
        self.val_texts = self._texts(model, stage, self.val_tokens, data.val)
        return train, val

    def _texts(self, model: VSE, stage: StageSettings, tokens: Ragged, split: str) -> Ragged | TextStates:
        """Tokens; or, where a frozen encoder reads the same tokens in every epoch, what it makes of them."""
        changing = "text.encoder" not in stage.freeze or stage.augment.words or model.caption_branch is not None
        if changing or not model.text.encoder.state_a_token:
            return tokens
        folder = self.text_features and self.text_features / split
        with_tokens = model.text.words is not None
        return stored_texts(model.text.encoder, tokens, self.progress, folder, with_tokens=with_tokens)

    def epoch(self, stage: Stage, key: tuple[int, int, int], world: World, where: Where) -> Epoch:
        """The batches of an epoch. key: seed, stage and epoch."""
        return InMemory(self, stage, key, world)

    #: What becomes of batches where other processes go on with a run.
    with_others = "Batches are the same, sums are rounded in another order."

    def remarks(self) -> list[str]:
        """What a person should know at the end."""
        broken = self.broken
        examples = "; ".join(f"{name} ({why})" for name, why in list(broken.items())[:3])
        return [f"{len(broken)} broken pictures were replaced while training: {examples}"] if broken else []

    def positions(self, own: Any) -> Any:
        """What a checkpoint must hold of where the collection is read: of one in memory nothing, as `order` knows."""
        return None

    @property
    def about(self) -> str:
        """What the model learned from, in words."""
        pictures, captions = len(self.train.pictures), len(self.train.captions)
        return f"{pictures} pictures with {captions} captions of `{self.train.root.name}`"

    def validate(self, model: VSE, inputs: ImageInputs, world: World | None = None) -> dict[str, Any]:
        """Metrics of the validation split."""
        if world is not None and not world.alone:
            return validated(model, self.val, inputs, self.val_texts, world)
        met = meet(model, self.val, inputs=inputs, tokens=self.val_texts)
        result = evaluate(met.scores, *met.groups)
        return {"i2t": result.i2t, "t2i": result.t2i, "rsum": result.rsum}

    @property
    def broken(self) -> dict[str, str]:
        """Reason by picture, of every broken picture met in training."""
        return {name: why for inputs in self.read_from for name, why in inputs.broken.items()}

    def batch(
        self,
        inputs: ImageInputs,
        captions: np.ndarray,
        epoch: float,
        rng: np.random.Generator,
        sampler: OfflineSampler | None = None,
        teacher: Teacher | None = None,
        world: World | None = None,
    ) -> Batch:
        """The pairs of these captions with their pictures; of several processes, this one's share of them."""
        world = world or World()
        own = share(len(captions), world)
        total, only = (None, slice(None)) if own is None else (len(captions), own)
        pictures = self.caption_pictures[captions]
        images, readable = inputs.load(pictures, rng, only)
        shown = pictures.copy()
        shown[only] = readable
        if (shown != pictures).any():
            # A broken picture was replaced by another: its caption must be the other's too.
            captions = np.where(shown == pictures, captions, [self.first_caption[int(p)] for p in shown])
        offline = self._offline(inputs, shown, captions, rng, sampler, only) if sampler else None
        taught = teacher.batch(inputs, shown[only], captions[only], rng, world) if teacher else None
        captions = captions[only]
        return Batch(images, self.train_texts.batch(captions), self.groups[captions], epoch, offline, taught, total)

    def _offline(
        self,
        inputs: ImageInputs,
        pictures: np.ndarray,
        captions: np.ndarray,
        rng: np.random.Generator,
        sampler: OfflineSampler,
        only: slice,
    ) -> OfflineBatch:
        for _ in range(REDRAWS):
            drawn = sampler.sample(pictures, captions, rng)
            image, shown = inputs.load(drawn.image, rng, only)
            partner, partner_shown = inputs.load(drawn.partner_image, rng, only)
            if (shown == drawn.image[only]).all() and (partner_shown == drawn.partner_image[only]).all():
                break  # otherwise a broken picture was replaced, by one that need not be a negative
        return OfflineBatch(
            image=image,
            image_of_caption=partner,
            caption=self.train_texts.batch(drawn.caption[only]),
            caption_of_image=self.train_texts.batch(drawn.partner_caption[only]),
        )


def _texts(pairs: Pairs) -> list[str]:
    return [caption.text for caption in pairs.captions]
