"""vse mcp: an index for assistants."""

from __future__ import annotations

from typing import Annotated

import typer

from vsekit.cli import app
from vsekit.cli.options import Trust, examples
from vsekit.progress import Progress


@app.command(epilog=examples("vse mcp ~/Pictures", "vse mcp postgresql://user@db/photos"))
def mcp(
    index: Annotated[str, typer.Argument(help="An index: a folder, or the address of a store.")],
    model: Annotated[str | None, typer.Option(help="Where the model of the index is, if it has moved.")] = None,
    trust: Trust = False,
) -> None:
    """Let an assistant search an index, look at its pictures and describe it, over the Model Context Protocol.

    An assistant starts this command itself and speaks with it on stdin and stdout; docs/mcp.md has what to write into its
    settings. Nothing is changed, and pictures outside the indexed folders are not shown.
    """
    from importlib.util import find_spec

    from vsekit.errors import missing_extra
    from vsekit.search.opening import load_searcher
    from vsekit.search.stores import open_store

    try:
        from vsekit.serve.assistant import serve_assistant
    except ModuleNotFoundError as error:
        raise missing_extra(error.name or "fastapi", "mcp") from None
    if find_spec("mcp") is None:
        raise missing_extra("mcp", "mcp")
    serve_assistant(lambda: load_searcher(open_store(index), model, progress=Progress()))
