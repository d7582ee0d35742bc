"""The command line: a thin layer over functions that Python users call too.

Results go to stdout (`--json` for machines), progress and messages to stderr. A person's mistake ends with exit code 2.
"""

from __future__ import annotations

import importlib
import io
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


COMMANDS = (
    "audit",
    "compare",
    "data",
    "demo",
    "duplicates",
    "embed",
    "evaluate",
    "export",
    "features",
    "index",
    "mcp",
    "mine",
    "recipes",
    "report",
    "reproduce",
    "search",
    "serve",
    "train",
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


def _register(asked: list[str]) -> None:
    """The commands register themselves when they are imported: the one asked for, which then starts sooner; else all.

    They import heavy packages only when they run.
    """
    names = asked if asked and asked[0] in COMMANDS else COMMANDS
    for name in names:
        importlib.import_module(f"vsekit.cli.{name}")


def main() -> None:
    """Entry point of `vse`."""
    threads.wait_passively()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a pipe on Windows takes 256 characters; others are written as \uXXXX
            stream.reconfigure(errors="backslashreplace")
    _register(sys.argv[1:2])
    keep_freed_memory()
    code = _ended()
    if world := sys.modules.get("vsekit.training.world"):
        world.leave(code)
    sys.exit(code)


def _ended() -> int | str | None:
    """Does what was asked for; the exit code, as SystemExit has it."""
    try:
        app()
    except UserError as error:
        typer.echo(f"vse{_rank()}: {error}", err=True)
        return 2
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return 1
        typer.echo(f"vse: {error}", err=True)
        return 2
    except SystemExit as ended:
        if ended.code == 130:  # what typer makes of Ctrl-C
            typer.echo("vse: stopped", err=True)
        return ended.code
    return 0
