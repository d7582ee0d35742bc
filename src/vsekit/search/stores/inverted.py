"""Inverted lists in one file that is mapped: searching reads the lists it looks into, and holds none.

    magic, where the description starts, lists     three numbers of 8 bytes, and zeros up to `HEAD` bytes
    each list, of `capacity` slots                 capacity × code_size bytes of codes, capacity × 8 bytes of ids
    description                                    8 bytes a list: how many of its slots count; faiss' index without its lists

The codes are in blocks of 32 as faiss' fast scan reads them, so the capacity is the next multiple of 32, and faiss' lists on
disk (`OnDiskInvertedLists`) serve as they are. Writing takes two passes over the vectors, a block at a time: the first finds each
one's list and thereby where lists begin, the second puts codes and ids there. What it holds beside a block is 4 bytes a vector.
Files of earlier versions are faiss' own and are read whole.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from vsekit import system
from vsekit.search.stores.halves import single

MAGIC = b"vse ivf1"
HEAD = 64
TOGETHER = 32  # codes in a block of faiss' fast scan
BLOCK = 65536  # vectors in memory at once


def write(index: Any, vectors: np.ndarray, ids: np.ndarray, path: Path) -> None:
    """Puts `vectors[ids]` under those ids into the lists of a trained IndexIVFPQFastScan that is empty, and all of it to
    `path`. OSError where there is no room."""
    faiss: Any = importlib.import_module("faiss")  # its stubs are wrong

    owner = np.empty(len(ids), dtype=np.int32)
    for part in _parts(len(ids)):
        owner[part] = index.quantizer.search(single(vectors[ids[part]]), 1)[1][:, 0]
    sizes = np.bincount(owner, minlength=index.nlist).astype(np.int64)
    capacities, offsets = _layout(sizes, index.code_size)
    end = int(offsets[-1])
    with path.open("wb") as file:
        system.reserve(file, end)
        file.write(MAGIC + np.array([end, index.nlist], dtype="<i8").tobytes())
        file.seek(end)
        file.write(sizes.astype("<i8").tobytes())
        index.ntotal = len(ids)
        file.write(faiss.serialize_index(index).tobytes())
    mapped = np.memmap(path, dtype=np.uint8, mode="r+", shape=(end,))
    free = offsets[:-1].copy(), offsets[:-1] + capacities * index.code_size  # of codes and of ids
    numbers = mapped.view(np.int64)
    for part in _parts(len(ids)):
        rows, lists = ids[part], owner[part].astype(np.int64)
        block = single(vectors[rows])
        codes = np.empty((len(rows), index.code_size), dtype=np.uint8)
        index.encode_vectors(len(rows), faiss.swig_ptr(block), faiss.swig_ptr(lists), faiss.swig_ptr(codes))
        places = _places(lists)
        mapped[(free[0][lists] + places * index.code_size)[:, None] + np.arange(index.code_size)] = codes
        numbers[free[1][lists] // 8 + places] = rows
        counts = np.bincount(lists, minlength=index.nlist)
        free = free[0] + counts * index.code_size, free[1] + counts * 8
    _pack(index, mapped.view(np.ndarray), capacities, offsets)
    mapped.flush()


def _pack(index: Any, mapped: np.ndarray, capacities: np.ndarray, offsets: np.ndarray) -> None:
    """Codes one after the other → blocks of fast scan, in place."""
    faiss: Any = importlib.import_module("faiss")  # its stubs are wrong

    packer = faiss.downcast_InvertedLists(index.invlists).packer
    size = TOGETHER * index.code_size
    for offset, capacity in zip(offsets.tolist(), capacities.tolist()):
        plain = mapped[offset : offset + capacity * index.code_size].copy()
        for start in range(0, len(plain), size):
            packer.pack_all(faiss.swig_ptr(plain[start:]), faiss.swig_ptr(mapped[offset + start :]))


def load(path: Path) -> Any:
    """The index, with its lists mapped. FileNotFoundError where it is gone."""
    faiss: Any = importlib.import_module("faiss")  # its stubs are wrong

    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return faiss.read_index(str(path))
        end, count = np.frombuffer(file.read(16), dtype="<i8").tolist()
        file.seek(end)
        sizes = np.frombuffer(file.read(8 * count), dtype="<i8").astype(np.int64)
        index = faiss.deserialize_index(np.frombuffer(file.read(), dtype=np.uint8))
    lists = faiss.OnDiskInvertedLists(count, index.code_size, str(path))
    lists.read_only, lists.totsize = True, end
    lists.lists.clear()
    for size, capacity, offset in zip(sizes.tolist(), *(one.tolist() for one in _layout(sizes, index.code_size))):
        one = faiss.OnDiskOneList()
        one.size, one.capacity, one.offset = size, capacity, offset
        lists.lists.push_back(one)
    lists.do_mmap()
    index.replace_invlists(lists, True)
    lists.this.disown()  # the index does
    return index


def _layout(sizes: np.ndarray, code_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The capacity of each list, and where each begins; last, where the last ends."""
    capacities = -(-sizes // TOGETHER) * TOGETHER
    return capacities, HEAD + np.concatenate([[0], np.cumsum(capacities * (code_size + 8))])


def _places(lists: np.ndarray) -> np.ndarray:
    """How many before it are of the same list, for each."""
    order = np.argsort(lists, kind="stable")
    ordered = lists[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    places = np.empty(len(lists), dtype=np.int64)
    places[order] = np.arange(len(lists)) - np.repeat(starts, np.diff(np.append(starts, len(lists))))
    return places


def _parts(count: int) -> Iterator[slice]:
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))
