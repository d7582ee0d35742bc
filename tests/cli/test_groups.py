from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from vsekit.cli.groups import grouped


@dataclass(frozen=True)
class Source:
    data: Annotated[Path, typer.Option("--data", help="Where it is.")]
    columns: Annotated[list[str] | None, typer.Option("--column")] = None
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False


app = typer.Typer()
seen: list[tuple[str, Source, int]] = []


@app.command()
@grouped
def look(run: Annotated[str, typer.Argument(help="A run.")], source: Source, top: int = 5) -> None:
    """Look at it."""
    seen.append((run, source, top))


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["r", "--data", "d"], ("r", Source(Path("d")), 5)),
        (
            ["--data", "d", "r", "--column", "a", "--column", "b", "-q", "--top", "7"],
            ("r", Source(Path("d"), ["a", "b"], True), 7),
        ),
    ],
)
def test_a_group_arrives_as_one_value(arguments: list[str], wanted: tuple[str, Source, int]) -> None:
    seen.clear()
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert seen == [wanted]


def test_help_shows_the_options_of_a_group_and_a_missing_one_is_named() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "100"}).output
    assert "Look at it." in shown
    assert "--data" in shown
    assert "Where it is." in shown
    missing = CliRunner().invoke(app, ["r"])
    assert missing.exit_code == 2
    assert "--data" in missing.output
