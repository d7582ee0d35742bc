"""The training loop: a list of stages over one collection, exactly resumable, with the best snapshot kept.

A step's randomness is a function of (seed, stage, epoch, step), see `order`; the learning rate is a function of the epoch,
see `schedule`. What a checkpoint must hold is therefore only weights, moments, and where the run was.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from vsekit import threads
from vsekit.data.pairs import Pairs
from vsekit.data.stream.stream import Stream
from vsekit.files import fingerprint
from vsekit.models.model import check_model
from vsekit.progress import QUIET, Progress
from vsekit.training.bank import keep_querybank
from vsekit.training.card import write_card
from vsekit.training.checkpoint import load_checkpoint, newest_checkpoint, read_state, save_checkpoint
from vsekit.training.collection import Collection
from vsekit.training.epoch import ahead
from vsekit.training.global_batch import decided, start_alike
from vsekit.training.journal import Journal, Silence
from vsekit.training.options import Options
from vsekit.training.order import seed_torch
from vsekit.training.parameters import set_rate
from vsekit.training.run import RunFolder, finished, flat
from vsekit.training.schedule import rate_factor
from vsekit.training.settings import RunSettings
from vsekit.training.stage import Opener, Stage
from vsekit.training.stream.collection import Streamed
from vsekit.training.stream.refused import streamed_settings
from vsekit.training.watch import PLATEAU_STEPS, Watch, chance
from vsekit.training.where import Where
from vsekit.training.world import WORK, join


def train(
    settings: RunSettings,
    pairs: Pairs | Stream,
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
    deadline: float | None = None,
) -> dict[str, Any]:
    """Trains, and returns the run's closing line: the best validation metrics and where they were reached.

    Args:
        pairs: the whole collection, with features attached where the image encoder is `precomputed`; or a stream.
        out: the run folder.
        source: how the collection was found, kept in config.yaml.
        text_features: where `vse features` put a frozen text encoder's states; None: in the cache.
        resume: go on with a run that was interrupted; a finished run is left as it is.
        checkpoint_seconds, tensorboard, device, precision, progress, deadline: see `options`.
    """
    if isinstance(pairs, Stream):
        settings = streamed_settings(settings, text_features)
    known = pairs.val if isinstance(pairs, Stream) else pairs
    names = [[picture.id, picture.split, picture.group] for picture in known.pictures]
    captions = [[caption.text, caption.picture] for caption in known.captions]
    collection = fingerprint(*([pairs.shards] if isinstance(pairs, Stream) else []), names, captions)
    world = join()
    world.agree(flat(settings.model_dump(mode="json")) | {"collection": collection, "precision": precision}, WORK)
    progress = progress if world.leads else QUIET
    resumes = {"resume": resume or world.restarted, "leads": world.leads}
    folder = RunFolder(Path(out), settings, source or {}, collection, **resumes)
    done = world.told(lambda: finished(folder.path))
    if done:
        progress.say(f"{out} is finished: best rsum {done['best']['rsum']:.1f}. Nothing to do.")
        return done
    if isinstance(pairs, Stream):
        data: Collection = Streamed(settings, pairs, progress, folder, world)
    else:
        data = Collection(settings, pairs, progress, text_features)
    options = Options(checkpoint_seconds, tensorboard, device, precision, progress, deadline, world)
    trainer = Trainer(settings, data, folder, options)
    threads_before = torch.get_num_threads()
    try:
        with world.connected():
            return trainer.run()
    finally:
        torch.set_num_threads(threads_before)
        trainer.journal.close()


class Trainer:
    """Runs the stages of `settings`, from the newest checkpoint in `folder` or from the start."""

    def __init__(self, settings: RunSettings, data: Collection, folder: RunFolder, options: Options) -> None:
        self.settings, self.data, self.folder, self.options = settings, data, folder, options
        self.fabric, self.progress, self.world = options.fabric(), options.progress, options.world
        name = self.world.told(lambda: getattr(newest_checkpoint(folder.state), "name", None))
        self.checkpoint = folder.state / name if name else None
        self.where = Where(processes=self.world.size)
        if self.checkpoint:
            self._create_folder()
            state = read_state(self.checkpoint)
            for of_the_files in ("optimiser", "sha256"):
                state.pop(of_the_files, None)
            self.where = Where(**state)
            if self.where.best is not None:
                check_model(folder.model)
            self.progress.say(f"Going on from step {self.where.steps}.")
            self._say_if_others()
        leads, size, sha256 = self.world.leads, self.where.metrics_size, self.where.metrics_sha256
        self.journal = Journal(folder, size, sha256, options.tensorboard) if leads else Silence()
        self.opener = Opener(settings, data, folder, self.progress, self.world)
        self.watch = Watch()
        self.position: Any = None

    def run(self) -> dict[str, Any]:
        self._set_threads()
        for index in range(self.where.stage, len(self.settings.stages)):
            stage = self._stage(index)
        assert self.where.best is not None
        end = {"event": "end", "best": self.where.best, "steps": self.where.steps}
        if not self.world.leads:
            return end
        if self.settings.querybank:
            cpu = time.process_time()
            keep_querybank(self.settings.querybank, self.folder.model, self.data, stage.inputs, self.fabric.device)
            self.journal.timing(stage="querybank", cpu_seconds=time.process_time() - cpu)
        write_card(self.folder.model, self.settings, self.data, self.where.best)
        self.journal.end(end)
        for line in self.data.remarks():
            self.progress.say(line)
        return end

    def _set_threads(self) -> None:
        """As many threads as the run had before or, at its start, as there are cores to be had."""
        if not self.where.threads:
            # A checkpoint of before this was kept was made with all that torch has.
            most = torch.get_num_threads()
            self.where.threads = self.world.told(lambda: most if self.checkpoint else threads.choose(most))
        cores = len(threads.usable_cores())
        count = self.where.threads
        self.progress.say(f"Computing with {count} thread{'s' * (count > 1)}; {cores} cores may be used.")
        torch.set_num_threads(count)

    def _stage(self, index: int) -> Stage:
        checkpoint = self.checkpoint if self.where.stage == index else None
        stage = self.world.in_turn(lambda: self.opener.open(index, checkpoint))
        module, *optimisers = self.fabric.setup(stage.step, *stage.optimisers)
        if checkpoint:
            load_checkpoint(checkpoint, stage.step, stage.optimisers, stage.rows)
        else:
            best = self.where.best if stage.keeps_best else None
            before = self.where
            self.where = Where(
                stage=index, steps=before.steps, best=best, threads=before.threads, processes=before.processes
            )
            self._create_folder()
            start_alike(stage.step, stage.rows.parameters, self.world)
            self._save(stage)
        settings = stage.settings
        for epoch in range(self.where.epoch, settings.epochs):
            cpu, began = time.process_time(), time.monotonic()
            timing = self._epoch(stage, module, optimisers, epoch)
            if (epoch + 1) % settings.validate_every == 0 or epoch + 1 == settings.epochs:
                with stage.as_kept():
                    self._validate(stage, epoch)
            self.journal.timing(**timing, cpu_seconds=time.process_time() - cpu)
            self.where.epoch, self.where.step, self.position = epoch + 1, 0, None
            enough = settings.early_stop if epoch + 1 >= settings.early_stop_from else None
            if enough and self._epochs_since_best(stage.name) >= enough:
                self.progress.say(
                    f"Stopping {stage.name} early: no better validation for {settings.early_stop} epochs."
                )
                self.where.epoch = settings.epochs
            now, deadline = time.monotonic(), self.options.deadline
            late = self._decided(deadline is not None and now + (now - began) > deadline)
            if late and self.where.best and self.where.epoch < settings.epochs:
                self.progress.say(f"Stopping {stage.name} after epoch {epoch + 1}: the time is over.")
                self.where.epoch = settings.epochs
            self._save(stage)
            if self.where.epoch == settings.epochs:
                break
        return stage

    def _epoch(self, stage: Stage, module: Any, optimisers: list[Any], epoch: int) -> dict[str, Any]:
        """Trains an epoch, or what is left of it; returns how long it took.

        Args:
            module, optimisers: the stage's, as Fabric wrapped them.
        """
        settings, name, key = stage.settings, stage.name, (self.settings.seed, stage.index, epoch)
        read, first, pairs = self.data.epoch(stage, key, self.world, self.where), self.where.step, 0
        self.watch.patience = min(PLATEAU_STEPS, max(20, read.steps or PLATEAU_STEPS))
        stage.train_mode()
        started = saved = time.monotonic()
        with self.progress.bar(f"{name} {epoch + 1}/{settings.epochs}", "steps") as bar:
            for number, (batch, more, position) in ahead(read, first):
                set_rate(
                    stage.optimisers,
                    settings.optimiser.lr * rate_factor(settings.schedule, batch.epoch, settings.epochs),
                )
                seed_torch((*key, number))
                value, logs = module(self.fabric.to_device(batch))
                self.fabric.backward(value)
                stage.finish_gradients(self.fabric, module, optimisers[0])
                loss, where = value.item(), f"stage {name}, epoch {epoch + 1}, step {number + 1}"
                self.watch.see(loss, stage.step.loss.plateau(len(batch)), where, logs.get("ranking"))
                stage.move(optimisers)
                self.where.step, self.where.steps, self.position = number + 1, self.where.steps + 1, position
                pairs += len(batch)
                self.journal.event("train", loss=loss, stage=name, epoch=epoch + 1, step=self.where.steps, **logs)
                now = time.monotonic()
                bar.update(number + 1, read.steps, f"loss {loss:.3f}, {pairs / (now - started):.0f} pairs/s")
                if more and self._decided(now - saved > self.options.checkpoint_seconds):
                    self._save(stage)
                    saved = time.monotonic()
        seconds = time.monotonic() - started
        if position:
            self.where.pairs = position.pairs
        return {"stage": name, "epoch": epoch + 1, "seconds": seconds, "pairs_per_s": pairs / seconds}

    def _validate(self, stage: Stage, epoch: int) -> None:
        """Measures the validation split, and keeps the snapshot when its rsum is the best so far."""
        result = self.data.validate(stage.model, stage.val_inputs, self.world)
        self.journal.event("validation", stage=stage.name, epoch=epoch + 1, step=self.where.steps, **result)
        best = self.where.best
        warning = self.watch.judge(result["rsum"], best["rsum"] if best else None, chance(len(self.data.val.pictures)))
        if warning:
            self.progress.say(f"Warning: {warning}")
        better = best is None or result["rsum"] > best["rsum"]
        if better:
            self.world.told(lambda: stage.model.save(self.folder.model))
            self.where.best = {"stage": stage.name, "epoch": epoch + 1, **result}
        i2t, t2i = result["i2t"], result["t2i"]
        self.progress.say(
            f"{stage.name} {epoch + 1}: i2t R@1 {i2t['r1']:.1f} R@10 {i2t['r10']:.1f}, "
            f"t2i R@1 {t2i['r1']:.1f} R@10 {t2i['r10']:.1f}, rsum {result['rsum']:.1f}{' *' if better else ''}"
        )

    def _epochs_since_best(self, name: str) -> int:
        best = self.where.best
        return self.where.epoch - (best["epoch"] if best and best["stage"] == name else 0)

    def _save(self, stage: Stage) -> None:
        self.where.metrics_size = self.journal.flushed()
        self.where.metrics_sha256 = self.journal.metrics_sha256
        self.where.stream = self.data.positions(self.position)
        save_checkpoint(self.folder.state, stage.step, stage.optimisers, asdict(self.where), stage.rows)

    def _create_folder(self) -> None:
        self.world.told(self.folder.create)
        self.folder.must_be_seen(self.world.rank)

    def _decided(self, flag: bool) -> bool:
        return decided(flag, self.world, self.fabric.device)

    def _say_if_others(self) -> None:
        """Says so, where other processes go on than those that began."""
        before, now = self.where.processes, self.world.size
        if before != now:
            self.progress.say(
                f"The run had {before} process{'es' * (before > 1)} and goes on with {now}. {self.data.with_others} "
                "It won't end bit-identical to a run that kept its processes."
            )
        self.where.processes = now
