from __future__ import annotations

import httpx
import pytest

from vsekit.serve.static import page_routes


@pytest.mark.skipif(not page_routes(), reason="the page's files are not there")
def test_the_page_is_at_the_root_and_asked_for_again_only_when_it_changed(client: httpx.Client) -> None:
    first = client.get("/")
    assert first.headers["content-type"].startswith("text/html")
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/", headers={"If-None-Match": f'"x", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/", headers={"If-None-Match": '"x"'}).content == first.content


@pytest.mark.skipif(not page_routes(), reason="the page's files are not there")
def test_every_file_of_the_page_has_its_type(client: httpx.Client) -> None:
    for name, media_type in (("style.css", "text/css"), ("app.js", "javascript"), ("index.html", "text/html")):
        assert media_type in client.get(f"/{name}").headers["content-type"]


@pytest.mark.parametrize("path", ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/page/app.js", "/app.py"])
def test_nothing_but_the_page_is_there(path: str, client: httpx.Client) -> None:
    assert client.get(path).status_code == 404
