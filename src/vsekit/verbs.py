"""The verbs: what the command line does, as functions. `vsekit.read`, `vsekit.train`, … are these.

They take paths or what was read before, return what was found, and show progress only when told to:

    pairs = vsekit.read("catalogue.csv")
    vsekit.train("my.yaml", pairs, "runs/catalogue", progress=vsekit.Progress())
    print(vsekit.evaluate("runs/catalogue", pairs, split="val").rsum)

Everything heavy is imported when a verb is called.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from vsekit.errors import UserError
from vsekit.progress import QUIET, Progress

if TYPE_CHECKING:
    from PIL import Image

    from vsekit.data.pairs import Pairs
    from vsekit.evaluation.metrics import Metrics
    from vsekit.features.reading import Reading
    from vsekit.mining.run import Mined
    from vsekit.models.embedder import Embedder
    from vsekit.search.book import Report
    from vsekit.search.items import Kind
    from vsekit.search.searcher import Answer
    from vsekit.search.walk import Source

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
    text_features: Path | str | None = None,
    minutes: float | None = None,
    resume: bool = False,
    report: bool = True,
    progress: Progress = QUIET,
    **options: Any,
) -> dict[str, Any]:
    """Trains a recipe on a collection into a run folder, and returns where it was best.

    >>> end = vsekit.train("scenes:vsepp", "scenes", "runs/vsepp", sets=["stages.main.epochs=3"])   # doctest: +SKIP
    >>> end["best"]["rsum"]                                                             # doctest: +SKIP
    >>> vsekit.train(None, "catalogue.csv", "runs/catalogue", minutes=20)["members"]    # doctest: +SKIP
    ['minilm', 'bow']

    Args:
        recipe: "paper:row", or a YAML file; "starter" or the folder of a model, to go on training that; None chooses models
            for the collection, see `vsekit.recipes.choose`.
        sets: changes of settings, key.path=value.
        text_features: where `vse features transformer` put token features of the captions.
        minutes: a budget to keep to.
        resume: go on with a run that was interrupted, exactly where it was.
        report: write report.html about the validation split.
        options: those of `vsekit.training.options.Options`: device, precision, checkpoint_seconds, tensorboard.
    """
    from vsekit.data.pairs import Pairs
    from vsekit.recipes.members import run_settings, train_members, with_val
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
    source: dict[str, Any] = {"recipe": None if recipe is None else str(recipe), "data": None, "features": None}
    store = None
    if isinstance(data, Pairs):
        pairs, source["data"] = data, str(data.root)
    else:
        reading = _reading(data)
        clean = reading.clean(progress)
        pairs = reading.pairs(*(_splits(settings) if settings and reading.features else ()), clean=clean)
        store = reading.store
        source |= {"data": str(reading.data), "features": str(reading.features) if reading.features else None}
        if world.leads and (resume or not out.exists()):
            clean.write(out)
    texts = None if text_features is None else Path(text_features)
    more: dict[str, Any] = {"source": source, "text_features": texts, "resume": resume, "progress": progress, **options}
    if settings is None or names_a_model(str(recipe)):
        pairs = with_val(pairs)
    if settings is None:
        end = train_members(Path(recipe) if recipe else None, pairs, out, minutes=minutes, sets=sets, **more)
        measured, val = out / "members" / end["best"], "val"
    else:
        deadline = None if minutes is None else started + 60 * minutes
        end = run(settings, pairs, out, deadline=deadline, **more)
        measured, val = out, settings.data.val
    if report and world.leads and not (out / "report.html").is_file():
        write_run_report(measured, pairs.split(val), out / "report.html", store=store, progress=progress)
    return end


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
    progress: Progress = QUIET,
) -> Mined:
    """The hardest negatives of a whole split, by a run or an ensemble, into `out`; those that are likely right are flagged.

    >>> found = vsekit.mine("runs/vsepp", "scenes", "mined")                            # doctest: +SKIP
    >>> found.lists.captions[0, :5], len(found.flagged.pairs)                           # doctest: +SKIP

    Args:
        top_captions, top_images: the length of the list of a picture, and of a caption.
        margin: a negative that scores so much above the best positive is likely a false one.
    """
    from vsekit.mining.run import mine_source

    lengths = {"top_captions": top_captions, "top_images": top_images}
    return mine_source(_met(runs, data, split), out, **lengths, margin=margin, progress=progress)


def index(
    *sources: Path | str | Pairs | Source,
    model: str | Path = "starter",
    out: Path | str | None = None,
    features: Path | str | None = None,
    rebuild: bool = False,
    forget: bool = False,
    progress: Progress = QUIET,
) -> Report:
    """Indexes folders of pictures and collections; again, and only what is new or has changed is read.

    >>> report = vsekit.index("~/Pictures")                                             # doctest: +SKIP
    >>> report.added, report.broken                                                     # doctest: +SKIP

    Args:
        model: a run, a model folder, "starter", or a model like CLIP.
        out: where the index goes: a folder, postgresql://… or milvus://…; for a single folder, inside it unless said.
        features: a folder made by `vse features` with the model's encoder and view; its pictures are not encoded again.
        rebuild: start from nothing, for instance with another model.
        forget: remove what lay in folders that are gone or empty as a whole, which is kept otherwise.
    """
    from vsekit.search.indexing import index as bring_up_to_date
    from vsekit.search.models import load_search_model
    from vsekit.search.walk import place_of

    given = [Path(source).expanduser() if isinstance(source, str | Path) else source for source in sources]
    place = str(out) if out is not None else place_of(given)
    loaded = load_search_model(model)
    if features is not None:
        loaded.use_features(Path(features).expanduser())
    options = {"rebuild": rebuild, "forget": forget, "export": True}
    return bring_up_to_date(loaded, given, place, **options, progress=progress)


def search(
    index: Path | str,
    query: str | None = None,
    *,
    image: Path | str | Image.Image | None = None,
    like: str | None = None,
    top: int = 20,
    offset: int = 0,
    kind: Kind = "image",
    filter: str | None = None,
    rerank: str | Path | None = None,
    rerank_top: int = 50,
    model: str | Path | None = None,
    progress: Progress = QUIET,
) -> Answer:
    """The best of an index for words, a picture, or an item of it.

    >>> answer = vsekit.search("~/Pictures", "a brown dog running on sand", filter="year >= 2020")  # doctest: +SKIP
    >>> [(hit.match, hit.item.path) for hit in answer.hits]                             # doctest: +SKIP

    To ask often, keep the searcher: `vsekit.search.opening.load_searcher(open_store(index))`.

    Args:
        query: words, or arithmetic: '"dog" + photo.jpg - 0.5*"water"'.
        image, like: a picture; the id of an item. One of the three is given.
        kind: what to find, "image" or "caption".
        filter: what the metadata must be like.
        rerank: a run or model that reads the best `rerank_top` again.
        model: where the model of the index is, if no longer where it was.
    """
    from vsekit.search.opening import load_searcher
    from vsekit.search.query import asked
    from vsekit.search.stores import open_store

    text = [None if path is None else str(path) for path in (model, rerank)]
    with open_store(_place(index)) as store:
        searcher = load_searcher(store, *text, progress=progress)
        wanted = {"top": top, "offset": offset, "kind": kind, "filter": filter}
        return searcher.search(asked(query, image, like), **wanted, rerank=rerank_top if rerank else 0)  # type: ignore[arg-type]


def serve(
    index: Path | str,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    model: str | None = None,
    rerank: str | None = None,
    progress: Progress = QUIET,
    **options: Any,
) -> None:
    """Serves an index over HTTP, with the page, until Ctrl-C.

    >>> vsekit.serve("~/Pictures", port=8000)                                           # doctest: +SKIP

    Args:
        options: those of `vsekit.serve.run.serve`: token, limits, allow_hosts, behind_proxy, log.
    """
    from vsekit.search.stores import open_store
    from vsekit.serve.run import bind, load_searcher
    from vsekit.serve.run import serve as run

    store = open_store(_place(index))
    run(lambda: load_searcher(store, model, rerank, progress=progress), bind(host, port), host=host, **options)


def embed(
    model: str | Path,
    data: Data,
    out: Path | str,
    *,
    parquet: bool = False,
    skip_broken: bool = False,
    progress: Progress = QUIET,
) -> dict[str, Any]:
    """Embeddings of a collection's pictures and captions, or of a folder of pictures, as .npy files with their ids.

    >>> vsekit.embed("starter", "~/Pictures", "vectors")                                # doctest: +SKIP

    Args:
        model: "starter", a run or model folder, an exported folder, or a model like CLIP.
        parquet: as Parquet, too, with ids and sentences.
        skip_broken: leave zeros for pictures that can't be read.
    """
    from vsekit.data.pairs import Pairs
    from vsekit.export.embeddings import embed as write
    from vsekit.export.embeddings import open_model, pictures_below
    from vsekit.features.reading import Reading

    if isinstance(data, Reading):
        data = data.pairs()
    pairs = data if isinstance(data, Pairs) else pictures_below(Path(data).expanduser())
    return write(open_model(model), pairs, Path(out), parquet=parquet, skip_broken=skip_broken, progress=progress)


def load(run_or_model: str | Path, *, trust: bool = False) -> Embedder:
    """Loads a trained model, from a run folder or a model folder; "starter" is the one that comes with vsekit.

    >>> model = vsekit.load("starter")                                                  # doctest: +SKIP
    >>> scores = model.similarity(model.encode_images(["a.jpg"]), model.encode_texts(["a red ball"]))  # doctest: +SKIP

    Args:
        trust: import the code that the model names, where parts of it are not vsekit's.
    """
    from vsekit.models.embedder import load as load_embedder

    return load_embedder(run_or_model, trust=trust)


def _reading(data: Path | str | Reading) -> Reading:
    from vsekit.features.reading import Reading

    return data if isinstance(data, Reading) else Reading(Path(data).expanduser())


def _met(runs: Runs, data: Data, split: str) -> Any:
    """Runs on a split of a collection."""
    from vsekit.data.pairs import Pairs
    from vsekit.evaluation.meeting import RunsOnData

    pairs = data.split(split) if isinstance(data, Pairs) else _reading(data).pairs(split)
    return RunsOnData.of([runs] if isinstance(runs, str | Path) else list(runs), pairs, split)


def _place(index: Path | str) -> str:
    return str(index) if "://" in str(index) else str(Path(index).expanduser())
