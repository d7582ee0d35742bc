"""Running the app: binding the port, saying where, stopping when told."""

from __future__ import annotations

import errno
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Collection

import uvicorn

from vsekit import system
from vsekit.errors import UserError
from vsekit.progress import QUIET, Progress
from vsekit.search.opening import load_searcher as searcher_of
from vsekit.search.query import Query
from vsekit.search.searcher import Ask, Searcher
from vsekit.search.stores import Store
from vsekit.serve.app import create_app
from vsekit.serve.connections import Connections, Seldom
from vsekit.serve.gate import LOOPBACK
from vsekit.serve.indexer import Indexer
from vsekit.serve.limits import Limits

GRACE_SECONDS = 30


def load_searcher(
    store: Store, model: str | None = None, rerank: str | None = None, *, progress: Progress = QUIET
) -> Searcher:
    """`vsekit.search.opening.load_searcher`, warm."""
    searcher = searcher_of(store, model, rerank, progress=progress)
    # The first call of an encoder and the first search are slow; better now than for whoever asks first.
    searcher.search_many([Ask(Query.of("text", "a"), top=1)])  # of a model that does not know the word, too
    return searcher


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 picks a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise UserError(f"no such host: {host} ({error.strerror})", remedy="Give an address of this machine.") from None
    listener = socket.socket(family, kind, protocol)
    try:
        system.claim_address(listener)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            remedy = "Stop what runs there, or give another with --port; --port 0 picks a free one."
            raise UserError(f"port {port} of {host} is taken", remedy=remedy) from None
        remedy = "Give an address of this machine and a port above 1023."
        raise UserError(f"can't listen at {host}:{port}: {error.strerror}", remedy=remedy) from None
    return listener


def address(listener: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(
    load: Callable[[], Searcher],
    listener: socket.socket,
    *,
    host: str = "127.0.0.1",
    limits: Limits | None = None,
    token: str | None = None,
    allow_hosts: Collection[str] = (),
    behind_proxy: bool = False,
    log: str = "off",
    indexer: Indexer | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM, then finishes what it is doing. Loads while it already answers /healthz.

    Args:
        host: what `listener` was bound to: on loopback only its own names, and `allow_hosts`, are answered to.
        behind_proxy: believe a proxy on this machine about who its clients are (X-Forwarded-For, -Proto).
        indexer: keeps the index current, or lets clients have folders indexed. Folders only where no stranger can ask:
            on loopback, or with a token.
    """
    failure: list[Exception] = []

    def failed(error: Exception) -> None:
        failure.append(error)
        server.should_exit = True

    hosts = {*LOOPBACK, host, *allow_hosts} if is_loopback(host) else {host, *allow_hosts} if allow_hosts else None
    limits = limits or Limits()
    if indexer is not None and indexer.allowed and token is None and (behind_proxy or not is_loopback(host)):
        raise UserError(
            "everyone who reaches this machine could have folders indexed",
            field="--allow",
            remedy="Give a --token, too, or serve this machine alone.",
        )
    app = create_app(load, limits=limits, token=token, hosts=hosts, log=log, indexer=indexer, failed=failed)
    logging.getLogger("vsekit.serve").setLevel(logging.INFO)
    for name in ("asyncio", "uvicorn.error"):
        logging.getLogger(name).addFilter(Seldom())
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=Connections(limits, shared=behind_proxy).protocol,  # type: ignore[arg-type]  # called like the class
            ws="none",  # a connection that becomes one would no longer be counted
            log_config=None,
            access_log=False,
            proxy_headers=behind_proxy,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    # uvicorn raises the signal again once it has stopped; stopping when told is no failure.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listener.close()
    if failure:
        raise failure[0]
