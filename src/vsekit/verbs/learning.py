"""The verbs of who trains and measures: read, train, evaluate, mine; and counting words."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vsekit.errors import UserError
from vsekit.progress import QUIET, Progress

if TYPE_CHECKING:
    from vsekit.bulk.ray import Ray
    from vsekit.data.pairs import Pairs
    from vsekit.data.stream.stream import Stream
    from vsekit.evaluation.metrics import Metrics
    from vsekit.features.reading import Reading
    from vsekit.mining.run import Mined

    #: A collection: where it is, how it is read, or what was read.
    Data: TypeAlias = Path | str | Reading | Pairs
    Runs: TypeAlias = Path | str | Sequence[Path | str]


def read(
    data: Path | str,
    *splits: str,
    format: str | None = None,
    images: Path | str | None = None,
    columns: Mapping[str, str] | None = None,
    features: Path | str | None = None,
    strict: bool = False,
    progress: Progress = QUIET,
) -> Pairs:
    """Reads a collection, or some splits of it. What can't be used is set aside; `vsekit.data.clean` says what.

    >>> pairs = vsekit.read("catalogue.csv", columns={"caption": "title"})              # doctest: +SKIP
    >>> pairs.splits                                                                    # doctest: +SKIP
    {'train': 1800, 'val': 200}

    Args:
        data: a file or a folder in any format of docs/data-formats.md.
        format: its name, where the detected one is wrong.
        images: the folder with the pictures, where it is not beside the file.
        columns: which column of a table holds what, by role.
        features: a folder made by `vse features`, in place of the pictures.
        strict: the first problem is an error instead.
    """
    from vsekit.features.reading import Reading

    paths = [None if path is None else Path(path) for path in (images, features)]
    found = Reading(Path(data), format, paths[0], dict(columns) if columns else None, paths[1], strict, progress)
    return found.pairs(*splits)


def train(
    recipe: str | Path | None,
    data: Data,
    out: Path | str,
    *,
    sets: Sequence[str] = (),
    val: Path | str | Reading | Pairs | None = None,
    text_features: Path | str | None = None,
    minutes: float | None = None,
    resume: bool = False,
    strict: bool = False,
    report: bool = True,
    progress: Progress = QUIET,
    **options: Any,
) -> dict[str, Any]:
    """Trains a recipe on a collection into a run folder, and returns where it was best.

    >>> end = vsekit.train("scenes:vsepp", "scenes", "runs/vsepp", sets=["stages.main.epochs=3"])   # doctest: +SKIP
    >>> end["best"]["rsum"]                                                             # doctest: +SKIP
    >>> vsekit.train(None, "catalogue.csv", "runs/catalogue", minutes=20)["members"]    # doctest: +SKIP
    ['starter', 'minilm']

    Args:
        recipe: "paper:row", or a YAML file; "starter" or the folder of a model, to go on training that; None chooses models
            for the collection, see `vsekit.recipes.choose`.
        data: a collection; or the address of shards to be streamed, with ranges: "s3://bucket/train-{0000..0127}.tar".
        sets: changes of settings, key.path=value.
        val: what a stream is measured on: a collection, or shards.
        strict: the first thing that can't be used is an error, instead of being set aside.
        text_features: where `vse features transformer` put token features of the captions.
        minutes: a budget to keep to.
        resume: go on with a run that was interrupted, exactly where it was.
        report: write report.html about the validation split.
        options: those of `vsekit.training.options.Options`: device, precision, checkpoint_seconds, tensorboard.
    """
    from dataclasses import replace

    from vsekit.data.pairs import Pairs
    from vsekit.data.stream.addresses import names_stream
    from vsekit.data.stream.stream import Stream
    from vsekit.recipes.members import must_be_free, run_settings, train_members, with_val
    from vsekit.recipes.tune import names_a_model
    from vsekit.report.run import write_run_report
    from vsekit.training.loop import train as run
    from vsekit.training.world import join

    world = join()
    progress = progress if world.leads else QUIET
    started, out = time.monotonic(), Path(out)
    settings = run_settings(recipe, list(sets))
    if settings is None and not world.alone:
        raise UserError(
            "several models are trained one after another, in one process",
            field="RECIPE",
            remedy="Give a recipe of one model to several processes, or leave --devices out.",
        )
    if settings is None and not resume:
        must_be_free(out)  # before the collection is read
    source: dict[str, Any] = {"recipe": None if recipe is None else str(recipe), "data": None, "features": None}
    store = None
    pairs: Pairs | Stream
    if val is not None or (isinstance(data, str | Path) and names_stream(data)):
        pairs, source["data"], source["val"] = (
            _stream(settings, data, val, text_features, strict, progress),
            str(data),
            str(val),
        )
    elif isinstance(data, Pairs):
        pairs, source["data"] = data, str(data.root)
    else:
        reading = _reading(data)
        reading = replace(reading, strict=reading.strict or strict)
        clean = reading.clean(progress)
        pairs = reading.pairs(*(_splits(settings) if settings and reading.features else ()), clean=clean)
        store = reading.store
        source |= {"data": str(reading.data), "features": str(reading.features) if reading.features else None}
        if world.leads and (resume or not out.exists()):
            clean.write(out)
    texts = None if text_features is None else Path(text_features)
    more: dict[str, Any] = {"source": source, "text_features": texts, "resume": resume, "progress": progress, **options}
    if isinstance(pairs, Pairs) and (settings is None or names_a_model(str(recipe))):
        pairs = with_val(pairs)
    if settings is None:
        assert isinstance(pairs, Pairs)
        end = train_members(Path(recipe) if recipe else None, pairs, out, minutes=minutes, sets=sets, **more)
        measured, split = out / "members" / end["best"], "val"
    else:
        deadline = None if minutes is None else started + 60 * minutes
        end = run(settings, pairs, out, deadline=deadline, **more)
        measured, split = out, settings.data.val
    if report and world.leads and not (out / "report.html").is_file():
        shown = pairs.val if isinstance(pairs, Stream) else pairs.split(split)
        write_run_report(measured, shown, out / "report.html", store=store, progress=progress)
    return end


def _stream(
    settings: Any, data: Any, val: Any, text_features: Path | str | None, strict: bool, progress: Progress
) -> Stream:
    """What `train` streams; what can't be streamed is refused first."""
    from vsekit.data.stream.addresses import names_stream
    from vsekit.features.streaming import open_stream
    from vsekit.training.stream.refused import streamed_settings
    from vsekit.training.world import join

    if not (isinstance(data, str | Path) and names_stream(data)):
        raise UserError(
            "this collection has splits of its own", field="--val", remedy="It is for streams; leave it out."
        )
    if settings is None:
        raise UserError(
            "models are chosen by a look at the whole collection, and a stream is never there as a whole",
            field="RECIPE",
            remedy="Give a recipe of one model: vse recipes lists some.",
        )
    streamed_settings(settings, None if text_features is None else Path(text_features))
    with join().naming():
        wanted = {"pictures": settings.data.val_pictures, "strict": strict, "progress": progress}
        return open_stream(str(data), val, settings.data.val, **wanted)


def vocabulary(
    data: Path | str, out: Path | str, *, min_count: int = 4, split: str = "train", progress: Progress = QUIET
) -> int:
    """Counts the words of a collection's training captions, or of a stream's, into a file; returns how many it holds.

    >>> vsekit.vocabulary("shards/train-{0000..0127}.tar", "vocab.json")                # doctest: +SKIP
    9871

    Args:
        min_count: rarer words are left out.
        split: whose captions are counted; of a stream, samples that name another one are passed over.
    """
    from vsekit.data.stream.addresses import names_stream, shards
    from vsekit.data.stream.words import over_captions
    from vsekit.data.text import Vocabulary
    from vsekit.files import write_json

    def build(sentences: Any) -> Vocabulary:
        return Vocabulary.build(sentences, min_count)

    if names_stream(data):
        found = over_captions(build, shards(str(data)), [split], progress=progress)
    else:
        found = build(caption.text for caption in _reading(data).pairs(split).captions)
    write_json(Path(out), found.all_words)
    return len(found)


def _splits(settings: Any) -> list[str]:
    """The splits a run reads."""
    return [settings.data.train, settings.data.val, *(["restval"] if settings.data.restval else [])]


def evaluate(runs: Runs, data: Data, *, split: str = "test", progress: Progress = QUIET, **question: Any) -> Metrics:
    """The papers' numbers of a run on a split of a collection; of several runs, of their ensemble.

    >>> metrics = vsekit.evaluate("runs/vsepp", "scenes", protocol="full")              # doctest: +SKIP
    >>> metrics.rsum, metrics.i2t["r1"], metrics.ci["rsum"]                             # doctest: +SKIP

    Args:
        question: the fields of `vsekit.evaluation.measure.Question`: protocol, ks, ties, plain, rerank_with, …
    """
    from vsekit.evaluation.measure import Question, measure

    return measure(_met(runs, data, split), Question(**question), progress)


def mine(
    runs: Runs,
    data: Data,
    out: Path | str,
    *,
    split: str = "train",
    top_captions: int = 300,
    top_images: int = 60,
    margin: float = 0.05,
    engine: Ray | None = None,
    progress: Progress = QUIET,
) -> Mined:
    """The hardest negatives of a whole split, by a run or an ensemble, into `out`; those that are likely right are flagged.

    >>> found = vsekit.mine("runs/vsepp", "scenes", "mined")                            # doctest: +SKIP
    >>> found.lists.captions[0, :5], len(found.flagged.pairs)                           # doctest: +SKIP

    Args:
        top_captions, top_images: the length of the list of a picture, and of a caption.
        margin: a negative that scores so much above the best positive is likely a false one.
        engine: `vsekit.bulk.ray.Ray` spreads the work over its workers.
    """
    from vsekit.mining.run import mine_source

    lengths = {"top_captions": top_captions, "top_images": top_images}
    return mine_source(_met(runs, data, split), out, **lengths, margin=margin, engine=engine, progress=progress)


def _reading(data: Path | str | Reading) -> Reading:
    from vsekit.features.reading import Reading

    return data if isinstance(data, Reading) else Reading(Path(data).expanduser())


def _met(runs: Runs, data: Data, split: str) -> Any:
    """Runs on a split of a collection."""
    from vsekit.data.pairs import Pairs
    from vsekit.evaluation.meeting import RunsOnData

    pairs = data.split(split) if isinstance(data, Pairs) else _reading(data).pairs(split)
    return RunsOnData.of([runs] if isinstance(runs, str | Path) else list(runs), pairs, split)
