"""vse export: a model for use elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import CollectionOptions, Data, OutputOptions, Trust, examples, print_json


@app.command(
    epilog=examples(
        "vse export starter --to onnx starter-onnx",
        "vse export runs/mine --to onnx mine-int8 --int8 --data catalogue.csv --split val",
        "vse export openai/clip-vit-base-patch32 --to onnx clip-onnx",
        "vse export runs/mine --to sentence-transformers mine-st",
    )
)
@grouped
def export(
    model: Annotated[
        str,
        typer.Argument(
            help="starter, a run or model folder, a run's ensemble.json, or the folder or hub name of a model like CLIP."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The folder to write; an earlier export there is replaced.")],
    collection: CollectionOptions,
    output: OutputOptions,
    to: Annotated[str, typer.Option("--to", help="onnx or sentence-transformers.")],
    int8: Annotated[
        bool, typer.Option("--int8", help="onnx: the image tower in 8 bits, calibrated on pictures of --data.")
    ] = False,
    data: Data = None,
    split: Annotated[str, typer.Option("--split", help="The split of --data that int8 is measured on.")] = "val",
    trust: Trust = False,
) -> None:
    """Write a model for use without torch (onnx), or in sentence-transformers; see docs/export.md."""
    from vsekit.errors import UserError

    progress = output.progress
    if to == "sentence-transformers" and not int8:
        from vsekit.export.sentence_transformers import export_sentence_transformers

        export_sentence_transformers(model, out)
        print_json({"out": str(out)}) if output.json else typer.echo(_how_to_load(out))
        return
    if to != "onnx":
        raise UserError(
            f"can't export to '{to}'", field="--to", remedy="onnx (with or without --int8), sentence-transformers"
        )
    if int8 != (data is not None):
        raise UserError(
            "--int8 is calibrated and measured on pictures", remedy="Give both --int8 and --data, or neither."
        )
    from vsekit.export.folder import export_onnx

    if data is not None:
        from vsekit.export.int8 import export_int8

        measured = export_int8(model, out, collection.of(data).pairs(), split, progress)
        print_json(measured.as_dict()) if output.json else typer.echo("\n".join(measured.table()))
        return
    written = export_onnx(model, out, progress)
    if output.json:
        print_json(written.as_dict())
        return
    megabytes = sum(written.sizes.values()) / 1e6
    typer.echo(f"{out}: {written.dim} dimensions, {megabytes:.1f} MB, model {written.fingerprint}")
    typer.echo(f"Compared with the model: cosines of {written.agreement:.6f} or more.")


def _how_to_load(out: Path) -> str:
    return f"{out}: load it with SentenceTransformer({str(out)!r}, trust_remote_code=True)"
