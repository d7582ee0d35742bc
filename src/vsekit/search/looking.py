"""Looking at a picture that may have to go into an index: its bytes, what they say, and what the model's encoder reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsekit.bulk.work import Work
from vsekit.data.decoding import PictureError, open_picture, upright
from vsekit.files import fingerprint
from vsekit.search.base import SearchModel
from vsekit.search.hubs import item_vectors
from vsekit.search.items import Value
from vsekit.search.metadata import picture_meta
from vsekit.search.pictures import read_bytes
from vsekit.search.walk import Seen

#: Batches in a block of work for others: some seconds of it, and what is lost with a worker.
BATCHES = 8


class Read(NamedTuple):
    """A picture that was read. prepared is None where its bytes are in the index or on their way, or where it is broken:
    `reason` says why, and `lasting` whether it stays so until the file changes. cached: its features were kept before."""

    seen: Seen
    content: str = ""
    meta: dict[str, Value] | None = None
    prepared: np.ndarray | None = None
    reason: str | None = None
    lasting: bool = True
    cached: bool = False


def look(seen: Seen, model: SearchModel, known: Callable[[str], bool] = lambda content: False) -> Read:
    """known: whether a picture of these bytes need not be encoded."""
    try:
        data = read_bytes(seen.path)
    except OSError as error:
        return Read(seen, reason=error.strerror or str(error), lasting=False)
    except PictureError as error:
        return Read(seen, reason=error.reason, lasting=error.lasting)
    content = fingerprint(data)
    if known(content):
        return Read(seen, content)
    try:
        with open_picture(data) as image:
            meta = picture_meta(image)
            features = model.cached(data)
            if features is not None:
                return Read(seen, content, meta, features, cached=True)
            return Read(seen, content, meta, model.prepare(upright(image, model.side)))
    except PictureError as error:
        return Read(seen, content, reason=error.reason, lasting=error.lasting)
    except Exception as error:  # a model may be unable to look at what others can, such as a line of pixels
        return Read(seen, content, reason=str(error) or type(error).__name__, lasting=False)


class Looking(Work):
    """Pictures for an index, read and encoded in blocks: `Read`s with the index's vector in place of what the encoder reads.

    dim: of the index.
    """

    def __init__(self, model: SearchModel, pictures: Sequence[Seen], dim: int) -> None:
        self.model, self.pictures, self.dim = model, pictures, dim
        self.gpus = int(str(getattr(model, "device", "cpu")) == "cuda")
        self.size = BATCHES * model.batch_size
        self.blocks = range(-(-len(pictures) // self.size))

    def __call__(self, block: int) -> list[Read]:
        reads = [look(seen, self.model) for seen in self._of(block)]
        whole = [place for place, read in enumerate(reads) if read.prepared is not None]
        for start in range(0, len(whole), self.model.batch_size):
            batch = whole[start : start + self.model.batch_size]
            prepared = [reads[place].prepared for place in batch]
            # A row's last bits depend on whether its batch is whole: what is missing is made up for.
            missing = self.model.batch_size - len(batch)
            for place, vector in zip(batch, self._vectors([*prepared, *prepared[-1:] * missing])):
                reads[place] = reads[place]._replace(prepared=vector)
        return reads

    def small(self, reads: Sequence[Read]) -> Iterable[Any]:
        """The vectors of fewer pictures than a batch has, as one batch; what they have, where a file is gone by now."""
        prepared = [look(read.seen, self.model).prepared for read in reads]
        if not reads or any(one is None for one in prepared):
            return [read.prepared for read in reads]
        return self._vectors(prepared)

    def _vectors(self, prepared: Sequence[Any]) -> np.ndarray:
        return item_vectors(self.model, self.model.embed(prepared), "image", self.dim)

    def paths(self, block: int) -> list[Path]:
        return [Path(seen.path) for seen in self._of(block)]

    def _of(self, block: int) -> Sequence[Seen]:
        return self.pictures[block * self.size : (block + 1) * self.size]
