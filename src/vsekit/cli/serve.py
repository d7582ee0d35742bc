"""vse serve: an index over HTTP, and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vsekit.cli import app
from vsekit.cli.groups import grouped
from vsekit.cli.options import Trust, examples
from vsekit.progress import Progress

if TYPE_CHECKING:
    from vsekit.serve.limits import Limits


@dataclass(frozen=True)
class LimitOptions:
    """What a client may ask of the server; see `serve.limits`."""

    rate: Annotated[float, typer.Option(min=0, help="Requests a second that each client may make; 0: no limit.")] = 30
    burst: Annotated[float, typer.Option(min=1, help="Requests a client may make at once, before the rate counts.")] = (
        120
    )
    max_upload: Annotated[float, typer.Option(min=0.001, help="The largest picture that may be uploaded, in MiB.")] = 20
    max_pixels: Annotated[float, typer.Option(min=0.001, help="The most pixels a picture may have, in millions.")] = 100
    max_top: Annotated[int, typer.Option(min=1, help="The most hits in one answer.")] = 500
    max_depth: Annotated[int, typer.Option(min=1, help="The last place of a ranking that a client may ask for.")] = (
        20_000
    )
    max_concurrent: Annotated[int, typer.Option(min=1, help="The most requests answered at the same time.")] = 256

    def limits(self) -> Limits:
        from vsekit.serve.limits import Limits

        return Limits(
            upload_bytes=int(self.max_upload * 2**20),
            pixels=int(self.max_pixels * 1e6),
            rate=self.rate,
            burst=self.burst,
            top=self.max_top,
            depth=self.max_depth,
            concurrent=self.max_concurrent,
        )


@dataclass(frozen=True)
class AccessOptions:
    """Who may ask, and by which name."""

    token: Annotated[
        str | None,
        typer.Option(
            envvar="VSEKIT_TOKEN", help="A secret that clients must send with each request.", show_envvar=True
        ),
    ] = None
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name that this server answers to, e.g. behind a proxy.")
    ] = None
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Trust a proxy on this machine to say who its clients are.")
    ] = False


@dataclass(frozen=True)
class IndexingOptions:
    """What the server indexes; see `serve.indexer`."""

    watch: Annotated[
        bool, typer.Option("--watch", help="Keep the index current: take in what is new, changed, moved or deleted.")
    ] = False
    allow: Annotated[
        list[Path] | None, typer.Option("--allow", help="A folder that may be indexed from the page. May repeat.")
    ] = None


@app.command(
    epilog=examples(
        "vse serve photos.index --open",
        "vse serve photos --watch --allow ~/Scans",
        "vse serve photos.index --rerank runs/scan --log requests",
        "VSEKIT_TOKEN=secret vse serve postgresql://user@db/photos --host 0.0.0.0 --port 80",
    ),
)
@grouped
def serve(
    index: Annotated[str, typer.Argument(help="An index: a folder, or the address of a store.")],
    indexing: IndexingOptions,
    access: AccessOptions,
    limits: LimitOptions,
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0 for all of this machine's.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port. 0 chooses a free one.")] = 8000,
    open: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    model: Annotated[str | None, typer.Option(help="Where the model of the index is, if it has moved.")] = None,
    rerank: Annotated[
        str | None, typer.Option(metavar="RUN", help="A run or model that can read the best answers again.")
    ] = None,
    log: Annotated[
        str, typer.Option(help="On stderr: off, requests (a line each), or queries (with the words).")
    ] = "off",
    trust: Trust = False,
) -> None:
    """Serve an index over HTTP, with a search page. Ctrl-C stops the server after the requests it is answering."""
    import logging

    from vsekit.errors import UserError, missing_extra
    from vsekit.search.stores import open_store

    if log not in ("off", "requests", "queries"):
        raise UserError(f"can't log '{log}'", remedy="Give --log off, requests or queries.")
    token = access.token
    if token is not None and not token.strip():
        raise UserError("the token is empty", remedy="Give a long random one, or none at all.")
    for folder in indexing.allow or ():
        if not folder.expanduser().is_dir():
            raise UserError(f"no such folder: {folder}", field="--allow")
    try:
        from vsekit.serve.indexer import Indexer
        from vsekit.serve.run import address, bind, is_loopback, load_searcher
        from vsekit.serve.run import serve as run
    except ModuleNotFoundError as error:
        raise missing_extra(error.name or "fastapi", "serve") from None

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    open_store(index).close()  # a mistake is told before anything listens
    listener = bind(host, port)
    url = address(listener)
    if not is_loopback(host) and token is None:
        typer.echo("vse: everyone who reaches this machine can see these pictures; --token asks for one", err=True)
    typer.echo(url)
    if open:
        import webbrowser

        webbrowser.open(url)
    run(
        lambda: load_searcher(open_store(index), model, rerank, progress=Progress()),
        listener,
        host=host,
        limits=limits.limits(),
        token=token,
        allow_hosts=access.allow_host or (),
        behind_proxy=access.behind_proxy,
        log=log,
        indexer=Indexer(index, watch=indexing.watch, allowed=indexing.allow or (), model=model, trust=trust),
    )
