"""Annotation files mutated at random: a UserError with the file, or a collection; nothing else."""

from __future__ import annotations

import io
import json
import tarfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from PIL import Image
from tests.attack.conftest import Attack

from vsekit.data.check import check
from vsekit.data.readers import read
from vsekit.errors import UserError

pytestmark = pytest.mark.slow
NAMES = [f"{i}.jpg" for i in range(4)]
KARPATHY = {
    "dataset": "x",
    "images": [
        {"filename": name, "filepath": "", "split": "train", "imgid": i, "sentids": [i],
         "sentences": [{"raw": f"picture {i}", "tokens": ["picture", str(i)], "sentid": i}]}
        for i, name in enumerate(NAMES)
    ],
}  # fmt: skip
COCO = {
    "images": [{"id": i, "file_name": name} for i, name in enumerate(NAMES)],
    "annotations": [{"image_id": i, "id": i, "caption": f"picture {i}"} for i in range(4)],
}
ROWS = [{"image": name, "caption": f"picture {i}", "split": "train", "year": 2000 + i} for i, name in enumerate(NAMES)]
PEDES = [{"id": i, "file_path": name, "captions": [f"person {i}"], "split": "train"} for i, name in enumerate(NAMES)]
FORMATS = {"dataset_x.json": "karpathy", "captions_train2014.json": "coco", "pedes.json": "cuhk-pedes"}
JSON: dict[str, Any] = {
    "dataset_x.json": KARPATHY,
    "captions_train2014.json": COCO,
    "rows.json": ROWS,
    "pedes.json": PEDES,
}


def _csv(separator: str) -> bytes:
    lines = [separator.join(ROWS[0]), *(separator.join(map(str, row.values())) for row in ROWS)]
    return "\n".join(lines).encode() + b"\n"


def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), out)
    return out.getvalue()


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for i in range(3):
            for name, data in ((f"{i}.jpg", b"\xff\xd8 no picture"), (f"{i}.json", b'{"caption": "x", "year": 3}')):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.ones((4, 3), np.float32))
    return out.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    **{name: (lambda value=value: json.dumps(value).encode()) for name, value in JSON.items()},
    "rows.csv": lambda: _csv(","),
    "rows.tsv": lambda: _csv("\t"),
    "rows.jsonl": lambda: b"".join(json.dumps(row).encode() + b"\n" for row in ROWS),
    "rows.parquet": _parquet,
    "shard.tar": _tar,
    "train_ims.npy": _npy,
    "train_caps.txt": lambda: b"one\ntwo\nthree\nfour\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzzed")
    for name in NAMES:
        Image.new("RGB", (9, 9)).save(folder / name)
    for name in ("train_ims.npy", "train_caps.txt"):
        (folder / name).write_bytes(FILES[name]())
    return folder


def outcome(path: Path) -> str:
    """What comes of reading and checking: anything but a UserError or a result is raised."""
    try:
        read(path)
    except UserError as error:
        with suppress(UserError):
            check(path, pictures=False)
        if error.file is None and error.field is None:
            raise AssertionError("no place") from error
        return "refused"
    check(path, pictures=False)
    return "read"


def _mutated(data: bytes, choose: Any) -> bytes:
    """A few bytes changed, cut out, put in or doubled."""
    for _ in range(choose(st.integers(1, 4))):
        start = choose(st.integers(0, len(data)))
        end = min(len(data), start + choose(st.integers(0, 40)))
        new = choose(st.one_of(st.binary(max_size=12), st.just(data[start:end] * 2), st.sampled_from(WORDS)))
        data = data[:start] + new + data[end:]
    return data


WORDS = [b"9" * 5000, b"-1", b"1e999", b"NaN", b"null", b"[]", b"{}", b'"', b"\x00", b"\xff\xfe", b"\n\n", b"[" * 2000]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "raw", "image", "x"]), inner),
    max_leaves=6,
)


def _replaced(value: Any, choose: Any) -> Any:
    """A JSON value with one value in it, at any depth, exchanged or left out."""
    if isinstance(value, dict | list) and value and choose(st.integers(0, 3)):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = choose(st.sampled_from(keys))
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
        if not choose(st.integers(0, 5)):
            pairs = [(k, v) for k, v in pairs if k != key]
        new = [(k, _replaced(v, choose) if k == key else v) for k, v in pairs]
        return dict(new) if isinstance(value, dict) else [v for _, v in new]
    return choose(VALUES)


def fuzz(attack: Attack, count: int, path: Path, make: Callable[[Any], bytes]) -> None:
    tried: Counter[str] = Counter()

    @seed(attack.seed)
    @settings(max_examples=attack.some(count), deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def attacked(data: st.DataObject) -> None:
        path.write_bytes(make(data.draw))
        tried[outcome(path.parent / "train_ims.npy" if path.name == "train_caps.txt" else path)] += 1

    whole = path.read_bytes() if path.exists() else None
    try:
        attacked()
    finally:
        path.unlink() if whole is None else path.write_bytes(whole)
        attack.tried.update(tried)
        attack.close()


@pytest.mark.parametrize("name", FILES)
def test_readers_bytes(name: str, folder: Path, attack: Attack) -> None:
    whole = FILES[name]()
    fuzz(attack, 100, folder / name, lambda choose: _mutated(whole, choose))


@pytest.mark.parametrize("name", JSON)
def test_readers_values(name: str, folder: Path, attack: Attack) -> None:
    fuzz(attack, 150, folder / name, lambda choose: json.dumps(_replaced(JSON[name], choose)).encode())


@pytest.mark.parametrize("name", [*JSON, "rows.jsonl"])
@pytest.mark.parametrize("what", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000, b"9" * 5000])
def test_nested_and_endless_json_is_refused(name: str, what: bytes, folder: Path) -> None:
    whole = FILES[name]()
    path = folder / name
    path.write_bytes(whole.replace(b'"picture', what + b', "picture', 1).replace(b'"person', what + b', "person', 1))
    with pytest.raises(UserError) as refused:
        read(path, format=FORMATS.get(name, "table"))
    path.unlink()
    assert str(refused.value.file) == str(path)
