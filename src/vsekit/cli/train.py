"""vse train: a collection and, if one likes, a recipe in; a run folder out."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import OutputOptions, ReadingOptions, Sets, examples, print_json


@dataclass(frozen=True)
class MachineOptions:
    """How a run is carried out; see `training.options`."""

    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run exactly where it stopped.")] = (
        False
    )
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda or mps.")] = "auto"
    precision: Annotated[str, typer.Option("--precision", help="As Lightning Fabric names it, e.g. bf16-mixed.")] = (
        "32-true"
    )
    checkpoint_seconds: Annotated[
        float, typer.Option(help="Seconds of work that are lost at most when the run is killed.")
    ] = 60.0
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard files.")] = False


@dataclass(frozen=True)
class ProcessOptions:
    """Over how many processes a run is spread; see `training.launch`."""

    devices: Annotated[int, typer.Option("--devices", min=1, help="Processes on this machine, one a device.")] = 1
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="Machines; start the same command on each.")] = 1
    rendezvous: Annotated[
        str | None, typer.Option("--rendezvous", help="HOST:PORT of one of several machines, where all meet.")
    ] = None
    max_restarts: Annotated[
        int, typer.Option("--max-restarts", min=0, help="How often to go on by itself after losing a process.")
    ] = 0


@dataclass(frozen=True)
class LearningOptions:
    """What is learned beside the recipe, and for how long."""

    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.1, help="A time limit: train as much as fits into it.")
    ] = None
    sets: Sets = None
    val: Annotated[
        str | None,
        typer.Option("--val", help="For shards that are streamed: what to measure on, a collection or shards."),
    ] = None
    text_features: Annotated[
        Path | None,
        typer.Option("--text-features", help="Token features of the captions made by vse features transformer."),
    ] = None
    seed: Annotated[int | None, typer.Option("--seed", help="Same as --set seed=N.")] = None

    @property
    def all_sets(self) -> list[str]:
        return [*(self.sets or []), *([f"seed={self.seed}"] if self.seed is not None else [])]


@app.command(
    epilog=examples(
        "vse train --data catalogue.csv --out runs/catalogue --minutes 20",
        "vse train starter --data catalogue.csv --out runs/tuned",
        "vse train vsepp:demo --data scenes --out runs/scenes",
        "vse train scenes:scan --data scenes --out runs/scan --set stages.main.epochs=5",
        "vse train my.yaml --data catalogue.csv --columns caption=title --out runs/catalogue",
        "vse train my.yaml --data catalogue.csv --out runs/catalogue --resume",
        "vse train my.yaml --data catalogue.csv --out runs/catalogue --devices 2 --max-restarts 3",
        "vse train my.yaml --data 's3://bucket/train-{0000..0127}.tar' --val val.csv --out runs/large",
    ),
)
@grouped
def train(
    data: Annotated[
        str,
        typer.Option(
            "--data",
            help="A collection: a file or a folder in any format; or shards to stream, 's3://…/{0000..0127}.tar'.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The run folder to write.")],
    learning: LearningOptions,
    machine: MachineOptions,
    processes: ProcessOptions,
    reading: ReadingOptions,
    output: OutputOptions,
    recipe: Annotated[
        str | None,
        typer.Argument(
            help="paper:row (vse recipes lists them), a YAML file, or a model to go on from; without one, models are chosen."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first problem in the collection, instead of setting it aside.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Write report.html about the validation split.")
    ] = True,
) -> None:
    """Train on a collection, with RECIPE or with models chosen for the collection.

    The run folder can be resumed, evaluated and used.
    """
    from vsekit import verbs
    from vsekit.data.stream.addresses import names_stream
    from vsekit.training import launch, world

    if launch.wanted(processes.devices, processes.nodes):
        sys.exit(launch.launch(sys.argv[1:], **vars(processes)))
    end = verbs.train(
        recipe,
        reading.none_of(data) if names_stream(data) else reading.of(Path(data)),
        out,
        sets=learning.all_sets,
        strict=strict,
        val=learning.val,
        text_features=learning.text_features,
        minutes=learning.minutes,
        report=report,
        progress=output.progress,
        **vars(machine),
    )
    if not world.leads():
        return
    if output.json:
        print_json(end)
    elif "members" in end:
        best = end["best"]
        typer.echo(f"Validation rsum {end['rsum']:.1f}: {', '.join(end['members'])}. To measure: vse evaluate {out}")
        typer.echo(f"The best alone, {best} ({end['alone'][best]:.1f}), is {out / 'model'}: search uses it.")
        typer.echo(f"What was chosen and why: {out / 'recipe.yaml'}")
    else:
        best = end["best"]
        typer.echo(
            f"Best rsum {best['rsum']:.1f} in stage {best['stage']}, epoch {best['epoch']}. The model is {out / 'model'}."
        )
