"""The command line: a thin layer over functions that Python users call too.

Results go to stdout (`--json` for machines), progress and messages to stderr. A person's mistake ends with exit code 2.
"""

from __future__ import annotations

import os
import sys

import typer

from vsekit import threads
from vsekit.errors import UserError
from vsekit.memory import keep_freed_memory

app = typer.Typer(
    name="vse",
    help="Visual-semantic embeddings: learn a common space for pictures and sentences, measure it, search with it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Start with: vse demo. Every command has --help with examples.",
)


def _version(show: bool) -> None:
    if show:
        from vsekit.version import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def _rank() -> str:
    """Which of several processes this is, where it is one that torchrun started."""
    return f", rank {os.environ['RANK']}" if os.environ.get("WORLD_SIZE", "1") != "1" and "RANK" in os.environ else ""


def main() -> None:
    """Entry point of `vse`."""
    threads.wait_passively()
    # The commands register themselves; they import heavy packages only when they run.
    from vsekit.cli import (  # noqa: F401
        audit,
        compare,
        data,
        demo,
        embed,
        evaluate,
        export,
        features,
        index,
        mine,
        recipes,
        report,
        reproduce,
        search,
        serve,
        train,
    )

    keep_freed_memory()
    try:
        app()
    except UserError as error:
        typer.echo(f"vse{_rank()}: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        typer.echo(f"vse: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("vse: stopped", err=True)
        sys.exit(130)
