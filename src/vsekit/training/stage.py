"""Opening a stage: the model it starts from, what is frozen, its loss, its optimisers and its offline negatives."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from vsekit.losses.base import Loss
from vsekit.mining.sampler import OfflineSampler
from vsekit.models.adapters import check_bases
from vsekit.models.inputs import ImageInputs
from vsekit.models.model import VSE, load_model, set_frozen, take_weights
from vsekit.progress import Progress
from vsekit.training.checkpoint import load_model_weights
from vsekit.training.chunks import checkpoint_activations
from vsekit.training.collection import Collection
from vsekit.training.global_batch import average_gradients, clip_gradients, normalise_globally
from vsekit.training.losses import build_loss, carry_over
from vsekit.training.mining import given_lists, mined_lists, mined_sampler
from vsekit.training.parameters import build_optimisers
from vsekit.training.run import RunFolder
from vsekit.training.settings import RunSettings, StageSettings
from vsekit.training.shards import Rows, shards_of
from vsekit.training.step import Step
from vsekit.training.teacher import Teacher
from vsekit.training.world import World


@dataclass
class Stage:
    """What a running stage works with.

    keeps_best: the best snapshot so far stays one of this stage's candidates.
    """

    index: int
    name: str
    settings: StageSettings
    step: Step
    optimisers: list[torch.optim.Optimizer]
    frozen: list[torch.nn.Module]
    inputs: ImageInputs
    val_inputs: ImageInputs
    sampler: OfflineSampler | None
    teacher: Teacher | None
    rows: Rows
    keeps_best: bool

    @property
    def model(self) -> VSE:
        return self.step.model

    def finish_gradients(self, fabric: Any, module: Any, optimiser: Any) -> None:
        """What comes between the backward pass and the optimisers' step: all processes' gradients, clipped.

        Args: module, optimiser: as Fabric wrapped them; the optimiser whose gradients are clipped.
        """
        world, sharded, clip = self.rows.world, self.rows.parameters, self.settings.clip
        if not world.alone:
            average_gradients(self.step.parameters(), sharded, world)
        if clip and sharded:
            moved = [p for group in optimiser.param_groups for p in group["params"]]
            clip_gradients(moved, sharded, clip, world)
        elif clip:
            fabric.clip_gradients(module, optimiser, max_norm=clip, error_if_nonfinite=False)

    def move(self, optimisers: list[Any]) -> None:
        """A step of the optimisers, as Fabric wrapped them, and of the average where the stage has one."""
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad()
        if self.step.average is not None:
            self.step.average.update()

    def as_kept(self) -> AbstractContextManager[None]:
        """Within it, the model is the one to measure and to keep: the average, where the stage has one."""
        return nullcontext() if self.step.average is None else self.step.average.in_place()

    def train_mode(self) -> None:
        """Training mode for all but the frozen parts, whose batch statistics must not move."""
        self.step.train()
        for part in self.frozen:
            part.eval()


@dataclass
class Opener:
    """Opens the stages of a run one after another; each may go on from the one before."""

    settings: RunSettings
    data: Collection
    folder: RunFolder
    progress: Progress
    world: World = field(default_factory=World)
    model: VSE | None = None
    loss: Loss | None = None

    def open(self, index: int, checkpoint: Path | None = None) -> Stage:
        """Builds the stage from where it says it starts, or with the model of a checkpoint, of which all else follows."""
        resumed = checkpoint is not None
        name, settings = list(self.settings.stages.items())[index]
        sampler = self._sampler(name, settings, resumed)  # first, while the teacher is still there
        before = self.loss
        self.model = model = self._starting_model(index, settings, resumed)
        if checkpoint is not None:
            load_model_weights(checkpoint, model)
        frozen = set_frozen(model, settings.freeze)
        if settings.activation_checkpointing:
            checkpoint_activations(model)
        share = getattr(model.text.encoder, "found_share", None)
        if share is not None and not resumed:
            self.progress.say(f"Word vectors were found for {share:.1%} of the vocabulary.")
        inputs, val_inputs = self.data.inputs(model, settings)
        teacher = self._teacher(settings)
        shards = shards_of(self.world)
        self.loss = build_loss(settings, self.data, inputs, model.settings.dim, teacher, shards)
        if settings.start in ("previous", "best"):
            carry_over(before, self.loss)
        if not self.world.alone:
            normalise_globally(model)
        step = Step(
            model, self.loss, settings.augment, chunk=settings.chunk, average=settings.average, world=self.world
        )
        optimisers = build_optimisers(step, settings)
        same = index == 0 or self.settings.model_in(index) == self.settings.model_in(index - 1)
        keeps_best = settings.start == "best" and same
        rows = Rows.of(self.loss, self.world)
        read = inputs, val_inputs, sampler, teacher
        return Stage(index, name, settings, step, optimisers, frozen, *read, rows, keeps_best)

    def _teacher(self, settings: StageSettings) -> Teacher | None:
        if not settings.teacher:
            return None
        return Teacher(settings.teacher, self.data.train, settings.unlabelled or 0, self.progress)

    def _sampler(self, name: str, settings: StageSettings, resumed: bool) -> OfflineSampler | None:
        if settings.mine is None:
            return None
        given = given_lists(settings.mine)
        lists = given or self.folder.path / "mined" / name
        if given is None and not resumed:
            if self.model is not None:
                self.folder.create()
            teachers = self.model, self.folder.model
            self.world.told(partial(mined_lists, settings.mine, *teachers, self.data, lists, self.progress))
        return mined_sampler(settings.mine, self.data, lists, self.progress)

    def _starting_model(self, index: int, stage: StageSettings, resumed: bool) -> VSE:
        torch.manual_seed(self.settings.seed + index)
        fresh = VSE(
            self.settings.model_in(index),
            self.data.tokenizer,
            self.settings.data.eval_view,
            image_dim=self.data.image_dim,
            feature_source=self.data.feature_source,
        )
        if fresh.text.words is not None:
            fresh.text.words.choose(self.data.train_tokens.flat, self.data.tokenizer.special_ids)
        nothing_before = self.model is None and not isinstance(stage.start, Path)
        if resumed or stage.start == "scratch" or nothing_before:
            return fresh
        if stage.start == "previous":
            before = self.model
        else:
            before = load_model(self.folder.model if stage.start == "best" else stage.start, merge=False)
        assert before is not None
        taken = take_weights(fresh, before)
        check_bases(fresh)
        if isinstance(stage.start, Path):
            self.progress.say(f"Took {taken} of {len(fresh.state_dict())} weights from {stage.start}.")
        return fresh
