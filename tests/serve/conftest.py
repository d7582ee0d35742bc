from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from tests.serve.fake import generated

from vsekit.search.searcher import Searcher
from vsekit.serve.app import create_app
from vsekit.serve.decoders import Decoders
from vsekit.serve.run import bind

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@contextmanager
def serving(searcher: Searcher, *, wait: bool = True, load: Any = None, **options: Any) -> Iterator[httpx.Client]:
    """A real server in a thread; a client of it."""
    listener = bind("127.0.0.1", 0)
    app = create_app(load or (lambda: searcher), **options)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    host, port = listener.getsockname()
    try:
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=30) as client:
            while wait and client.get("/readyz").status_code != 200:
                time.sleep(0.005)
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    return generated(tmp_path_factory.mktemp("pictures"), 36)


@pytest.fixture(scope="module")
def client(searcher: Searcher) -> Iterator[httpx.Client]:
    with serving(searcher) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An indexed folder, with a place outside of it beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "photos").mkdir()
    return tmp_path / "photos"


@pytest.fixture(scope="session")
def decoders() -> Iterator[Decoders]:
    made = Decoders(10**6)
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright
    from tests.serve.browser import FLAGS, chromium

    path = chromium()
    if path is None:
        pytest.skip("needs chromium, chromium-browser or google-chrome on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
