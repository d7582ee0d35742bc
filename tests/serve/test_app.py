from __future__ import annotations

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from tests.serve.conftest import serving
from tests.serve.fake import generated

from vsekit.search.searcher import Searcher
from vsekit.serve.limits import Limits
from vsekit.serve.schemas import ItemOut, SearchOut, StatusOut


def search(client: httpx.Client, query: str, **options: Any) -> SearchOut:
    answer = client.post("/api/search", json={"query": query, **options})
    assert answer.status_code == 200, answer.text
    return SearchOut.model_validate(answer.json())


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error", "remedy"}
    return answer.json()


def picture(colour: str, format: str = "PNG", size: tuple[int, int] = (30, 20)) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, format)
    return out.getvalue()


def test_words_find_what_the_searcher_finds(client: httpx.Client, searcher: Searcher) -> None:
    answer = search(client, "red circle", top=5)
    expected = searcher.search("red circle", top=5)
    assert [hit.id for hit in answer.hits] == [hit.item.id for hit in expected.hits]
    assert [hit.score for hit in answer.hits] == pytest.approx([hit.score for hit in expected.hits])
    assert answer.more
    assert answer.hits[0].meta == expected.hits[0].item.meta
    assert answer.timing.total >= answer.timing.encode + answer.timing.search > 0


def test_pages_of_an_answer_make_up_the_whole(client: httpx.Client) -> None:
    whole = search(client, "green square", top=36)
    parts = [search(client, "green square", top=10, offset=offset) for offset in (0, 10, 20, 30)]
    assert [hit.id for part in parts for hit in part.hits] == [hit.id for hit in whole.hits]
    assert [part.more for part in parts] == [True, True, True, False]


def test_a_filter_keeps_what_passes_it(client: httpx.Client) -> None:
    hits = search(client, "red", filter='year >= 2015 and camera = "X100"').hits
    assert hits
    assert all(hit.meta["year"] >= 2015 and hit.meta["camera"] == "X100" for hit in hits)  # type: ignore[operator]


def test_captions_are_found_with_the_picture_they_belong_to(client: httpx.Client) -> None:
    hit = search(client, "a white circle on red ground", kind="caption").hits[0]
    assert (hit.kind, hit.text, hit.picture) == ("caption", "a white circle on red ground", hit.id.partition("#")[0])
    assert client.get(hit.thumbnail or "").status_code == 200


def test_arithmetic_takes_words_and_items(client: httpx.Client) -> None:
    hits = search(client, '"red" + "circle" - "square"', top=1).hits
    assert hits[0].id == "p000000"
    assert "p000000" not in [hit.id for hit in search(client, 'item:p000000 + "red"').hits]


def test_a_picture_finds_its_colour_and_captions_for_it(client: httpx.Client) -> None:
    for format in ("PNG", "JPEG", "WEBP", "TIFF", "GIF"):
        files = {"file": ("x", picture("#2b5fc8", format))}
        answer = client.post("/api/search/picture", files=files, data={"top": "6", "kind": "caption"})
        assert answer.status_code == 200, answer.text
        assert all("blue" in hit["text"] for hit in answer.json()["hits"])


def test_a_picture_query_takes_filter_and_offset(client: httpx.Client) -> None:
    files = {"file": ("x", picture("red"))}
    data = {"top": "3", "offset": "2", "filter": "year < 2015"}
    hits = client.post("/api/search/picture", files=files, data=data).json()["hits"]
    assert len(hits) == 3
    assert all(hit["meta"]["year"] < 2015 for hit in hits)


def test_more_like_this_leaves_out_the_item_itself(client: httpx.Client, searcher: Searcher) -> None:
    hits = client.get("/api/items/p000003/similar", params={"top": 4}).json()["hits"]
    assert [hit["id"] for hit in hits] == [hit.item.id for hit in searcher.like("p000003", top=4).hits]
    assert "p000003" not in [hit["id"] for hit in hits]


def test_an_item_is_shown_with_its_captions_and_addresses_that_work(client: httpx.Client) -> None:
    item = ItemOut.model_validate(client.get("/api/items/p000001").json())
    assert item.captions == ["a white circle on green ground"]
    assert (item.width, item.height, item.name) == (240, 320, "00001.jpg")
    thumbnail = client.get(item.thumbnail or "", params={"v": "f000001", "size": 128})
    assert Image.open(io.BytesIO(thumbnail.content)).size == (96, 128)
    caption = ItemOut.model_validate(client.get("/api/items/p000001%230").json())
    assert caption.text == item.captions[0]


def test_the_picture_is_the_file_itself(client: httpx.Client, searcher: Searcher) -> None:
    item = searcher.store.items(["p000002"])[0]
    answer = client.get("/api/items/p000002/picture")
    assert answer.content == Path(item.path).read_bytes()
    assert answer.headers["content-type"] == "image/jpeg"


def test_pictures_are_kept_by_browsers_for_as_long_as_they_are_the_same(client: httpx.Client) -> None:
    for what in ("thumbnail", "picture"):
        named = client.get(f"/api/items/p000001/{what}?v=f000001")
        assert "immutable" in named.headers["cache-control"]
        unnamed = client.get(f"/api/items/p000001/{what}")
        assert unnamed.headers["cache-control"] == "private, no-cache"
        again = client.get(f"/api/items/p000001/{what}", headers={"If-None-Match": unnamed.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert "immutable" not in client.get(f"/api/items/p000001/{what}?v=other").headers["cache-control"]


def test_status_says_what_is_indexed(client: httpx.Client) -> None:
    status = StatusOut.model_validate(client.get("/api/status").json())
    assert (status.pictures, status.captions, status.model, status.dim) == (36, 36, "colours", 64)
    assert status.fields["year"].min == 2010
    assert dict(status.fields["camera"].values) == {"X100": 12, "Pixel 8": 12, "EOS R": 12}


def test_errors_are_json_with_a_reason(client: httpx.Client) -> None:
    assert problem(client.get("/nowhere"), 404)["remedy"]
    assert problem(client.get("/api/items/none"), 404)["error"] == "there is no such item"
    for path in ("/api/items/none/thumbnail", "/api/items/none/picture", "/api/items/none/similar"):
        problem(client.get(path), 404)
    assert problem(client.put("/api/search"), 405)["remedy"] == "Allowed here: POST."
    assert "query" in problem(client.post("/api/search", json={}), 422)["error"]
    problem(client.post("/api/search", content=b"{", headers={"content-type": "application/json"}), 422)
    problem(client.post("/api/search", content=b"\xff\xfe", headers={"content-type": "application/json"}), 422)
    problem(client.post("/api/search/picture", content=b"x", headers={"content-type": "multipart/form-data"}), 422)
    problem(client.post("/api/search", json={"query": "red", "top": 0}), 422)
    assert "filters" in problem(client.post("/api/search", json={"query": "red", "filters": "x"}), 422)["error"]
    problem(client.post("/api/search", json={"query": "red", "kind": "sound"}), 422)
    problem(client.post("/api/search", json={"query": "   "}), 422)
    problem(client.post("/api/search", json={"query": '"red" +'}), 422)
    problem(client.post("/api/search", json={"query": "red", "filter": "year >"}), 422)
    problem(client.post("/api/search", json={"query": "red", "rerank": 5}), 422)
    problem(client.post("/api/search/picture"), 422)
    problem(client.post("/api/search/picture", files={"file": ("x", b"no picture")}), 415)
    problem(client.get("/api/items/p000001/thumbnail?size=99999"), 422)
    problem(client.get("/docs"), 404)


def test_a_query_never_names_a_file_of_the_server(
    client: httpx.Client, searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    monkeypatch.setattr(searcher.model, "encode_images", read.extend)
    path = searcher.store.items(["p000002"])[0].path
    for query in (path, f'"red" + {path}', f'{path} - "red"'):
        assert client.post("/api/search", json={"query": query}).status_code in (200, 422)
    assert read == []


def test_limits_hold(searcher: Searcher) -> None:
    limits = Limits(top=10, depth=20, query_chars=30, rerank=2, upload_bytes=3000, pixels=1000)
    with serving(searcher, limits=limits) as client:
        assert len(search(client, "red", top=10, offset=10).hits) == 10
        assert "10" in problem(client.post("/api/search", json={"query": "red", "top": 11}), 422)["error"]
        problem(client.post("/api/search", json={"query": "red", "top": 10, "offset": 11}), 422)
        problem(client.post("/api/search", json={"query": "red " * 20}), 422)
        problem(client.post("/api/why", json={"query": "red " * 20, "id": "p000000"}), 422)
        problem(client.post("/api/search", json={"query": "red", "rerank": 3}), 422)
        problem(client.get("/api/items/p000001/similar?top=11"), 422)
        many = picture("red", size=(50, 50))
        assert "pixels" in problem(client.post("/api/search/picture", files={"file": ("x", many)}), 413)["error"]
        assert "bytes" in problem(client.post("/api/search/picture", files={"file": ("x", bytes(5000))}), 413)["error"]
        # Pictures of the index obey, too.
        problem(client.get("/api/items/p000001/thumbnail"), 413)


def test_the_weights_of_very_many_words_are_not_worked_out(searcher: Searcher) -> None:
    """Each is left out in turn: a thousand characters kept the encoder for 13 seconds."""
    with serving(searcher, limits=Limits(why_words=5)) as client:
        for words, status in ((5, 200), (6, 422)):
            body = {"query": " ".join(["red"] * words), "id": "p000001"}
            assert client.post("/api/why", json=body).status_code == status
        sum_of = {"query": " + ".join(['"red circle"'] * 3), "id": "p000001"}
        assert "5 words" in client.post("/api/why", json=sum_of).json()["error"]


def test_concurrent_queries_are_encoded_together_and_answered_apart(tmp_path: Path) -> None:
    searcher = generated(tmp_path, 36)
    model: Any = searcher.model
    started, gate = threading.Event(), threading.Event()
    encode = model.encode_texts

    def slow(texts: list[str]) -> np.ndarray:
        started.set()
        assert gate.wait(10)
        return encode(texts)

    model.encode_texts = slow
    queries = [f"{colour} {shape}" for colour in ("red", "green", "blue") for shape in ("circle", "square")]
    with serving(searcher, limits=Limits(rate=0)) as client, ThreadPoolExecutor(20) as pool:
        first = pool.submit(search, client, "grey", top=1)
        started.wait(10)
        others = [pool.submit(search, client, query, top=3 + i % 2) for i, query in enumerate(queries * 2)]
        bad = pool.submit(client.post, "/api/search", json={"query": "red", "filter": "year >"})
        overflow = pool.submit(client.post, "/api/search", json={"query": f'1{39 * "0"}*"red"'})
        sums = pool.submit(search, client, '"red" + "circle"', top=1)
        while client.get("/metrics").text.count("vsekit_requests_in_flight 16") == 0:
            time.sleep(0.01)
        gate.set()
        first.result()
        answers = [other.result() for other in others]
        assert bad.result().status_code == 422
        assert overflow.result().status_code == 422
        assert sums.result().hits[0].id == "p000000"
    assert model.calls[0] == 1
    assert len(model.calls) == 2, model.calls
    model.encode_texts = encode
    for i, (query, answer) in enumerate(zip(queries * 2, answers, strict=True)):
        expected = searcher.search(query, top=3 + i % 2)
        assert [hit.id for hit in answer.hits] == [hit.item.id for hit in expected.hits]


def test_paths_outside_the_indexed_folders_are_never_read(folder: Path) -> None:
    searcher = generated(folder, 6)
    secret = folder.parent / "outside" / "secret.png"
    Image.new("RGB", (9, 9)).save(secret)
    (folder / "link.png").symlink_to(secret)
    (folder / "notes.jpg").write_text("password: 1234")
    tampered = [secret, "/etc/passwd", folder / "link.png", f"{folder}/../outside/secret.png", folder / "notes.jpg"]
    store = searcher.store
    items = store.items([f"p{i:06d}" for i in range(len(tampered))])
    store.update([replace(item, path=str(path)) for item, path in zip(items, tampered)])
    with serving(searcher) as client:
        for item, status in zip(items, (403, 403, 403, 403, 415)):
            problem(client.get(f"/api/items/{item.id}/picture"), status)
            problem(client.get(f"/api/items/{item.id}/thumbnail"), status)
        for path in ("..%2F..%2Fetc%2Fpasswd", "%2Fetc%2Fpasswd", "....//secret"):
            problem(client.get(f"/api/items/{path}/picture"), 404)
            problem(client.get(f"/{path}"), 404)


def test_what_browsers_cannot_show_comes_as_jpeg(folder: Path) -> None:
    searcher = generated(folder, 2)
    formats = {"p000000": "TIFF", "p000001": "HEIF"}
    pytest.importorskip("pillow_heif").register_heif_opener()
    for id_, format in formats.items():
        item = searcher.store.items([id_])[0]
        path = folder / f"{id_}.{format.lower()}"
        Image.new("RGB", (64, 48), "green").save(path, format)
        searcher.store.update([replace(item, path=str(path))])
    with serving(searcher) as client:
        for id_ in formats:
            answer = client.get(f"/api/items/{id_}/picture")
            assert answer.headers["content-type"] == "image/jpeg"
            assert Image.open(io.BytesIO(answer.content)).size == (64, 48)


def test_new_items_show_up_without_a_restart(folder: Path) -> None:
    searcher = generated(folder, 6)
    with serving(searcher) as client:
        new = replace(searcher.store.items(["p000000"])[0], id="new", picture="new")
        searcher.store.write([new], searcher.model.encode_texts(["zebra"]), deleted=["p000001"])
        assert search(client, "zebra", top=1).hits[0].id == "new"
        assert client.get("/api/items/p000001").status_code == 404
        assert 'vsekit_index_items{kind="image"} 6.0' in client.get("/metrics").text


def test_it_is_alive_while_loading_and_ready_afterwards(searcher: Searcher) -> None:
    gate = threading.Event()

    def load() -> Searcher:
        assert gate.wait(10)
        return searcher

    with serving(searcher, load=load, wait=False) as client:
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").status_code == 503
        answer = client.post("/api/search", json={"query": "red"})
        assert problem(answer, 503)["error"] == "the model is being loaded"
        assert answer.headers["retry-after"] == "1"
        for path in ("/api/status", "/api/items/p000000", "/api/items/p000000/thumbnail"):
            problem(client.get(path), 503)
        assert "vsekit_ready 0.0" in client.get("/metrics").text
        gate.set()
        while client.get("/readyz").status_code != 200:
            time.sleep(0.005)
        assert search(client, "red").hits


def test_a_bug_is_json_too_and_tells_the_client_nothing(folder: Path) -> None:
    searcher = generated(folder, 2)
    searcher.store.items = lambda ids: 1 / 0  # type: ignore[method-assign]
    with serving(searcher) as client:
        answer = problem(client.get("/api/items/p000000"), 500)
        assert "division" not in str(answer)
        problem(client.post("/api/search", json={"query": "red"}), 500)
        assert client.get("/healthz").status_code == 200


def test_metrics_count_requests_batches_and_the_parts_of_a_search(searcher: Searcher) -> None:
    with serving(searcher) as client:
        search(client, "red")
        client.get("/api/items/none")
        client.get("/wp-admin.php")
        text = client.get("/metrics").text
        assert 'vsekit_requests_total{method="POST",route="/api/search",status="200"} 1.0' in text
        assert 'vsekit_requests_total{method="GET",route="/api/items/{id}",status="404"} 1.0' in text
        assert 'route="none",status="404"} 1.0' in text
        for part in ("encode", "search", "rest"):
            assert f'vsekit_search_seconds_count{{part="{part}"}} 1.0' in text
        assert "vsekit_batch_queries_count 1.0" in text
        assert 'vsekit_index_items{kind="caption"} 36.0' in text
        assert "process_resident_memory_bytes" in text


def test_an_empty_index_is_answered_for(tmp_path: Path) -> None:
    with serving(generated(tmp_path, 0)) as client:
        answer = search(client, "red")
        assert (answer.hits, answer.more) == ([], False)
        assert client.get("/api/status").json()["pictures"] == 0
