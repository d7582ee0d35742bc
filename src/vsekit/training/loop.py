"""The training loop: a list of stages over one collection, exactly resumable, with the best snapshot kept.

A step's randomness is a function of (seed, stage, epoch, step), see `order`; the learning rate is a function of the epoch,
see `schedule`. What a checkpoint must hold is therefore only weights, moments, and where the run was.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsekit.data.pairs import Pairs
from vsekit.errors import UserError
from vsekit.files import fingerprint
from vsekit.losses.base import Loss
from vsekit.mining.sampler import OfflineSampler
from vsekit.models.embed import embed_captions, embed_images
from vsekit.models.inputs import ImageInputs
from vsekit.models.model import VSE, load_model, set_frozen, take_weights
from vsekit.models.querybank import Querybank, QuerybankSettings
from vsekit.models.settings import ModelSettings
from vsekit.progress import QUIET, Progress
from vsekit.training.card import write_card
from vsekit.training.checkpoint import load_checkpoint, newest_checkpoint, read_state, save_checkpoint
from vsekit.training.collection import Collection
from vsekit.training.losses import build_loss, carry_over
from vsekit.training.mining import mined_lists, mined_sampler
from vsekit.training.parameters import build_optimisers, set_rate
from vsekit.training.order import epoch_captions, seed_torch
from vsekit.training.run import Log, RunFolder, finished
from vsekit.training.schedule import rate_factor
from vsekit.training.settings import RunSettings, StageSettings
from vsekit.training.step import Batch, Step
from vsekit.training.watch import PLATEAU_STEPS, Watch


@dataclass
class Where:
    """Where a run is: stage, epoch and step to do next; steps done in all; the best validation so far."""

    stage: int = 0
    epoch: int = 0
    step: int = 0
    steps: int = 0
    best: dict[str, Any] | None = None
    metrics_size: int = 0


def train(
    settings: RunSettings,
    pairs: Pairs,
    out: Path,
    *,
    source: dict[str, Any] | None = None,
    text_features: Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 60.0,
    tensorboard: bool = False,
    device: str = "auto",
    precision: str = "32-true",
    progress: Progress = QUIET,
) -> dict[str, Any]:
    """Trains, and returns the run's closing line: the best validation metrics and where they were reached.

    Args:
        pairs: the whole collection, with features attached where the image encoder is `precomputed`.
        out: the run folder.
        source: how the collection was found, kept in config.yaml.
        text_features: where `vse features` put a frozen text encoder's states; None: in the cache.
        resume: go on with a run that was interrupted; a finished run is left as it is.
        checkpoint_seconds: how much work a kill may cost.
        device, precision: as Lightning Fabric names them.
    """
    names = [[picture.id, picture.split, picture.group] for picture in pairs.pictures]
    collection = fingerprint(names, [[caption.text, caption.picture] for caption in pairs.captions])
    folder = RunFolder(Path(out), settings, source or {}, collection, resume=resume)
    done = finished(folder.path)
    if done:
        progress.say(f"{out} is finished: best rsum {done['best']['rsum']:.1f}. Nothing to do.")
        return done
    data = Collection(settings, pairs, progress, text_features)
    trainer = Trainer(settings, data, folder, checkpoint_seconds, tensorboard, device, precision, progress)
    try:
        return trainer.run()
    finally:
        trainer.close()


class Trainer:
    def __init__(
        self,
        settings: RunSettings,
        data: Collection,
        folder: RunFolder,
        checkpoint_seconds: float,
        tensorboard: bool,
        device: str,
        precision: str,
        progress: Progress,
    ) -> None:
        from lightning_fabric import Fabric

        self.settings, self.folder, self.progress = settings, folder, progress
        self.checkpoint_seconds = checkpoint_seconds
        self.data = data
        try:
            self.fabric = Fabric(accelerator=device, devices=1, precision=precision)  # type: ignore[arg-type]
        except (ValueError, RuntimeError) as error:
            raise UserError(str(error), field="--device, --precision", remedy="For example --device cpu.") from None
        self.board: Any = None
        if tensorboard:
            from vsekit.training.board import Board

            self.board = Board(folder.path / "tensorboard")
        self.checkpoint = newest_checkpoint(folder.state)
        self.where = Where()
        if self.checkpoint:
            folder.create()
            state = read_state(self.checkpoint)
            state.pop("optimiser")
            self.where = Where(**state)
            progress.say(f"Going on from step {self.where.steps}.")
        self.metrics, self.timings = Log(folder.metrics, self.where.metrics_size), Log(folder.timings)
        self.watch = Watch()
        self.model: VSE | None = None
        self.loss: Loss | None = None

    def close(self) -> None:
        self.metrics.close()
        self.timings.close()
        if self.board:
            self.board.close()

    def run(self) -> dict[str, Any]:
        for index, name in enumerate(self.settings.stages):
            if index >= self.where.stage:
                stage = self._stage(index, name, self.settings.stages[name])
        assert self.where.best is not None
        if self.settings.querybank:
            self._keep_querybank(self.settings.querybank, stage)
        end = {"event": "end", "best": self.where.best, "steps": self.where.steps}
        write_card(self.folder.model, self.settings, self.data, self.where.best)
        self.metrics.write(end)
        self.metrics.flushed()
        broken = self.data.broken
        if broken:
            examples = "; ".join(f"{name} ({why})" for name, why in list(broken.items())[:3])
            self.progress.say(f"{len(broken)} broken pictures were replaced while training: {examples}")
        return end

    def _keep_querybank(self, settings: QuerybankSettings, stage: Stage) -> None:
        data, cpu = self.data, time.process_time()
        model = load_model(self.folder.model).to(self.fabric.device)
        pictures, captions = settings.sample(len(data.train.pictures)), settings.sample(len(data.train.captions))
        images: Any = embed_images(model, stage.inputs, pictures)
        texts: Any = embed_captions(model, data.train_texts, chosen=captions)
        Querybank(images, texts, settings.temperature, settings.weight).save(self.folder.model)
        self.timings.write({"stage": "querybank", "cpu_seconds": time.process_time() - cpu})
        self.timings.flushed()

    def _stage(self, index: int, name: str, settings: StageSettings) -> Stage:
        resumed = self.checkpoint is not None and self.where.stage == index
        stage = self._open(index, name, settings, resumed)
        for epoch in range(self.where.epoch, settings.epochs):
            cpu = time.process_time()
            timing = self._epoch(stage, epoch)
            if (epoch + 1) % settings.validate_every == 0 or epoch + 1 == settings.epochs:
                self._validate(stage, epoch)
            self.timings.write({**timing, "cpu_seconds": time.process_time() - cpu})
            self.where.epoch, self.where.step = epoch + 1, 0
            if settings.early_stop and self._epochs_since_best(name) >= settings.early_stop:
                self.progress.say(f"Stopping {name} early: no better validation for {settings.early_stop} epochs.")
                self.where.epoch = settings.epochs
            self._save(stage)
            if self.where.epoch == settings.epochs:
                break
        self.checkpoint = None
        return stage

    def _open(self, index: int, name: str, settings: StageSettings, resumed: bool) -> Stage:
        """Builds what a stage works with, from the checkpoint or from where the stage says it starts."""
        sampler = self._sampler(name, settings, resumed)  # first, while the teacher is still there
        last_loss = self.loss
        model_settings = self.settings.model_in(index)
        changed = index > 0 and model_settings != self.settings.model_in(index - 1)
        self.model = model = self._starting_model(index, settings, model_settings, resumed)
        frozen = set_frozen(model, settings.freeze)
        share = getattr(model.text.encoder, "found_share", None)
        if share is not None and not resumed:
            self.progress.say(f"Word vectors were found for {share:.1%} of the vocabulary.")
        inputs, val_inputs = self.data.inputs(model, settings)
        self.loss = build_loss(settings, self.data, inputs, model_settings.dim)
        if settings.start in ("previous", "best"):
            carry_over(last_loss, self.loss)
        step = Step(model, self.loss, settings.augment)
        optimisers = build_optimisers(step, settings)
        stage = Stage(index, name, settings, step, optimisers, frozen, inputs, val_inputs, sampler)
        stage.module, *stage.fabric_optimisers = self.fabric.setup(step, *optimisers)
        if resumed and self.checkpoint:
            load_checkpoint(self.checkpoint, step, optimisers)
        else:
            keep = settings.start == "best" and not changed
            self.where = Where(stage=index, steps=self.where.steps, best=self.where.best if keep else None)
            self.folder.create()
            self._save(stage)
        return stage

    def _sampler(self, name: str, settings: StageSettings, resumed: bool) -> OfflineSampler | None:
        if settings.mine is None:
            return None
        lists = self.folder.path / "mined" / name
        if not resumed:
            if self.model is not None:
                self.folder.create()
            mined_lists(settings.mine, self.model, self.folder.model, self.data, lists, self.progress)
        return mined_sampler(settings.mine, self.data, lists, self.progress)

    def _starting_model(self, index: int, stage: StageSettings, settings: ModelSettings, resumed: bool) -> VSE:
        torch.manual_seed(self.settings.seed + index)
        fresh = VSE(
            settings,
            self.data.tokenizer,
            self.settings.data.eval_view,
            image_dim=self.data.image_dim,
            feature_source=self.data.feature_source,
        )
        nothing_before = self.model is None and not isinstance(stage.start, Path)
        if resumed or stage.start == "scratch" or nothing_before:
            return fresh
        if stage.start == "previous":
            before = self.model
        else:
            before = load_model(self.folder.model if stage.start == "best" else stage.start)
        assert before is not None
        taken = take_weights(fresh, before)
        if isinstance(stage.start, Path):
            self.progress.say(f"Took {taken} of {len(fresh.state_dict())} weights from {stage.start}.")
        return fresh

    def _epoch(self, stage: Stage, epoch: int) -> dict[str, Any]:
        """Trains an epoch, or what is left of it; returns how long it took."""
        settings, name, key = stage.settings, stage.name, (self.settings.seed, stage.index, epoch)
        order = epoch_captions(self.data.caption_pictures, settings.captions, key)
        n_steps, first = math.ceil(len(order) / settings.batch_size), self.where.step
        self.watch.patience = min(PLATEAU_STEPS, max(20, n_steps))
        stage.train_mode()
        started = saved = time.monotonic()
        with self.progress.bar(f"{name} {epoch + 1}/{settings.epochs}", "steps") as bar:
            for number, batch in self._batches(stage, epoch, order, first):
                set_rate(
                    stage.optimisers,
                    settings.optimiser.lr * rate_factor(settings.schedule, batch.epoch, settings.epochs),
                )
                seed_torch((*key, number))
                value, logs = stage.module(self.fabric.to_device(batch))
                self.fabric.backward(value)
                if settings.clip:
                    self.fabric.clip_gradients(
                        stage.module, stage.fabric_optimisers[0], max_norm=settings.clip, error_if_nonfinite=False
                    )
                loss, where = value.item(), f"stage {name}, epoch {epoch + 1}, step {number + 1}"
                warning = self.watch.see(loss, stage.step.loss.plateau(len(batch)), where, logs.get("ranking"))
                if warning:
                    self.progress.say(f"Warning: {warning}")
                for optimiser in stage.fabric_optimisers:
                    optimiser.step()
                    optimiser.zero_grad()
                self.where.step, self.where.steps = number + 1, self.where.steps + 1
                self._log("train", loss=loss, stage=name, epoch=epoch + 1, step=self.where.steps, **logs)
                now = time.monotonic()
                speed = (number + 1 - first) * settings.batch_size / (now - started)
                bar.update(number + 1, n_steps, f"loss {loss:.3f}, {speed:.0f} pairs/s")
                if now - saved > self.checkpoint_seconds and number + 1 < n_steps:
                    self._save(stage)
                    saved = time.monotonic()
        seconds = time.monotonic() - started
        pairs = len(order) - first * settings.batch_size
        return {"stage": name, "epoch": epoch + 1, "seconds": seconds, "pairs_per_s": pairs / seconds}

    def _batches(self, stage: Stage, epoch: int, order: np.ndarray, first: int) -> Iterator[tuple[int, Batch]]:
        """Batches from number `first` on; the next one is read while the caller computes."""
        size = stage.settings.batch_size
        n_steps = math.ceil(len(order) / size)

        def make(number: int) -> Batch:
            rng = np.random.default_rng((self.settings.seed, stage.index, epoch, number))
            chosen = order[number * size : (number + 1) * size]
            return self.data.batch(stage.inputs, chosen, epoch + number / n_steps, rng, stage.sampler)

        with ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(make, first)
            for number in range(first, n_steps):
                batch = ahead.result()
                if number + 1 < n_steps:
                    ahead = pool.submit(make, number + 1)
                yield number, batch

    def _validate(self, stage: Stage, epoch: int) -> None:
        """Measures the validation split, and keeps the snapshot when its rsum is the best so far."""
        result = self.data.validate(stage.step.model, stage.val_inputs)
        self._log("validation", stage=stage.name, epoch=epoch + 1, step=self.where.steps, **result)
        best = self.where.best
        better = best is None or result["rsum"] > best["rsum"]
        if better:
            stage.step.model.save(self.folder.model)
            self.where.best = {"stage": stage.name, "epoch": epoch + 1, **result}
        i2t, t2i = result["i2t"], result["t2i"]
        self.progress.say(
            f"{stage.name} {epoch + 1}: i2t R@1 {i2t['r1']:.1f} R@10 {i2t['r10']:.1f}, "
            f"t2i R@1 {t2i['r1']:.1f} R@10 {t2i['r10']:.1f}, rsum {result['rsum']:.1f}{' *' if better else ''}"
        )

    def _epochs_since_best(self, name: str) -> int:
        best = self.where.best
        return self.where.epoch - (best["epoch"] if best and best["stage"] == name else 0)

    def _log(self, event: str, **values: Any) -> None:
        line = {k: v.item() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
        self.metrics.write({"event": event, **line})
        if self.board:
            self.board.add(event, line)

    def _save(self, stage: Stage) -> None:
        self.where.metrics_size = self.metrics.flushed()
        self.timings.flushed()
        save_checkpoint(self.folder.state, stage.step, stage.optimisers, asdict(self.where))


@dataclass
class Stage:
    """What a running stage works with."""

    index: int
    name: str
    settings: StageSettings
    step: Step
    optimisers: list[torch.optim.Optimizer]
    frozen: list[torch.nn.Module]
    inputs: ImageInputs
    val_inputs: ImageInputs
    sampler: OfflineSampler | None = None
    module: Any = None
    fabric_optimisers: Any = ()

    def train_mode(self) -> None:
        """Training mode for all but the frozen parts, whose batch statistics must not move."""
        self.step.train()
        for part in self.frozen:
            part.eval()
