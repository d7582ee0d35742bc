"""Options that several commands share."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vsekit.bulk.ray import Ray
    from vsekit.evaluation.meeting import Source
    from vsekit.features.reading import Reading
    from vsekit.progress import Progress

DataPath = Annotated[Path, typer.Option("--data", help="A collection: a file or a folder in any format vsekit reads.")]
Format = Annotated[
    str | None,
    typer.Option("--format", help="The collection's format, when the detected one is wrong; see docs/data-formats.md."),
]
Images = Annotated[
    Path | None, typer.Option("--images", help="The folder with the pictures, when it is not beside the file.")
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="Which column of a table holds what, e.g. --columns image=photo,caption=title."),
]
Sets = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: key.path=value. May repeat.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress on stderr.")]


def _trust(context: typer.Context, trust: bool) -> bool:
    from vsekit.outside import trusting

    context.with_resource(trusting(trust))
    return trust


#: Of every command that loads models; it holds until the command ends, and no command passes it on.
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", callback=_trust, help="Import the parts that a model names as module:Class. This runs their code."
    ),
]
Features = Annotated[
    Path | None,
    typer.Option("--features", help="Features of the pictures made by vse features, in place of the pictures."),
]
Runs = Annotated[
    list[Path] | None, typer.Argument(help="Run or model folders; several are an ensemble: scores averaged.")
]
Data = Annotated[Path | None, typer.Option("--data", help="The collection, for runs.")]
ImageEmbeddings = Annotated[
    Path | None, typer.Option("--image-embeddings", help="In place of runs: a .npy file of shape (n_images, D).")
]
CaptionEmbeddings = Annotated[
    Path | None, typer.Option("--caption-embeddings", help="In place of runs: a .npy file of shape (n_captions, D).")
]
CaptionsPerImage = Annotated[
    int,
    typer.Option(
        "--captions-per-image", help="For embeddings: how many captions each image has, in the order of the images."
    ),
]
ImageGroups = Annotated[
    Path | None,
    typer.Option("--image-groups", help="For embeddings, instead: a .npy file with the group of each image."),
]
CaptionGroups = Annotated[
    Path | None,
    typer.Option("--caption-groups", help="A .npy file with the group of each caption. Equal groups belong together."),
]
SimilarityOption = Annotated[str, typer.Option("--similarity", help="For embeddings: cosine, inner_product or order.")]


def examples(*lines: str) -> str:
    """An epilog of --help."""
    return "Examples:\n\n" + "\n\n".join(f"  {line}" for line in lines)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def columns_dict(columns: str | None) -> dict[str, str] | None:
    """--columns role=name,… as a mapping."""
    from vsekit.errors import UserError

    if not columns:
        return None
    pairs = [column.partition("=") for column in columns.split(",")]
    if not all(role and equals and name for role, equals, name in pairs):
        raise UserError(
            f"can't read --columns {columns}", remedy="Write role=name, for example --columns caption=title."
        )
    return {role: name for role, _, name in pairs}


@dataclass(frozen=True)
class CollectionOptions:
    """How --data is read."""

    format: Format = None
    images: Images = None
    columns: Columns = None

    @property
    def given(self) -> dict[str, Any]:
        """As arguments of readers."""
        return {"format": self.format, "images": self.images, "columns": columns_dict(self.columns)}

    def of(self, data: Path) -> Reading:
        from vsekit.features.reading import Reading
        from vsekit.progress import Progress

        return Reading(data, self.format, self.images, columns_dict(self.columns), notes=Progress())


@dataclass(frozen=True)
class ReadingOptions(CollectionOptions):
    """How --data is read for a model, and whether models may name code to be run."""

    features: Features = None
    trust: Trust = False

    def of(self, data: Path) -> Reading:
        return replace(super().of(data), features=self.features)

    def none_of(self, stream: str) -> str:
        """A stream's address; UserError where options were given that are for collections in memory."""
        from vsekit.errors import UserError

        given = {
            "--format": self.format,
            "--images": self.images,
            "--columns": self.columns,
            "--features": self.features,
        }
        for name, value in given.items():
            if value is not None:
                remedy = "Leave it out: a stream is WebDataset shards with pictures in them."
                raise UserError("this is for collections that are read as a whole", field=name, remedy=remedy)
        return stream


@dataclass(frozen=True)
class EmbeddingOptions:
    """Embeddings made elsewhere, in place of runs."""

    image_embeddings: ImageEmbeddings = None
    caption_embeddings: CaptionEmbeddings = None
    captions_per_image: CaptionsPerImage = 5
    image_groups: ImageGroups = None
    caption_groups: CaptionGroups = None
    similarity: SimilarityOption = "cosine"


@dataclass(frozen=True)
class OutputOptions:
    json: Json = False
    quiet: Quiet = False

    @property
    def progress(self) -> Progress:
        from vsekit.progress import Progress

        return Progress(quiet=self.quiet)


@dataclass(frozen=True)
class BulkOptions(OutputOptions):
    """Of commands whose work can be spread over processes and machines."""

    engine: Annotated[
        str, typer.Option("--engine", help="process; or ray: workers of Ray, on this machine or on a cluster.")
    ] = "process"
    ray_address: Annotated[
        str | None, typer.Option("--ray-address", help="A cluster to join: HOST:PORT, or auto for one of this machine.")
    ] = None
    ray_workers: Annotated[
        int | None, typer.Option("--ray-workers", min=1, help="How many. Default: one for each free core, or GPU.")
    ] = None

    @property
    def ray(self) -> Ray | None:
        """None: the work is done in this process."""
        from vsekit.bulk.ray import Ray
        from vsekit.errors import UserError, nearest

        engines = ("process", "ray")
        if self.engine not in engines:
            what = f"no engine '{self.engine}'{nearest(self.engine, engines)}"
            raise UserError(what, field="--engine", remedy=f"{' or '.join(engines)}")
        if self.engine == "ray":
            return Ray(self.ray_address, self.ray_workers)
        for name, value in (("--ray-address", self.ray_address), ("--ray-workers", self.ray_workers)):
            if value is not None:
                raise UserError("this is for the engine ray", field=name, remedy="Add --engine ray, or leave it out.")
        return None


def read_source(
    runs: list[Path] | None, data: Path | None, split: str, reading: ReadingOptions, given: EmbeddingOptions
) -> Source:
    """Runs on a split of a collection, or embeddings made elsewhere."""
    from vsekit.errors import UserError
    from vsekit.evaluation.external import Embeddings
    from vsekit.evaluation.meeting import RunsOnData

    files = given.image_embeddings, given.caption_embeddings
    if files[0] and files[1] and not runs and not data:
        more = (given.captions_per_image, given.similarity, given.image_groups, given.caption_groups)
        return Embeddings(files[0], files[1], *more)  # type: ignore[arg-type]
    if runs and data and not any(files):
        return RunsOnData.of(runs, reading.of(data).pairs(split), split)
    raise UserError(
        "give RUN … and --data, or --image-embeddings and --caption-embeddings", remedy="--help shows examples of both."
    )
