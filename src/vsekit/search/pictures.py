"""Where the bytes of an index's pictures are.

An item's path is absolute; a picture inside a WebDataset shard is named `/data/shard.tar#OFFSET+SIZE`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from vsekit.data.decoding import check_bytes

#: A picture inside a shard: its path, offset and size.
IN_SHARD = re.compile(r"(.+)#(\d+)\+(\d+)", re.DOTALL)


def read_bytes(path: str) -> bytes:
    """The bytes of the picture an item's path names. PictureError when there are too many."""
    inside = IN_SHARD.fullmatch(path)
    if inside is None or os.path.exists(path):
        check_bytes(os.stat(path).st_size, path)
        return Path(path).read_bytes()
    check_bytes(int(inside[3]), path)
    with open(inside[1], "rb") as shard:
        shard.seek(int(inside[2]))
        return shard.read(int(inside[3]))


def source_of(path: Path | str) -> Path | str | bytes:
    """What `vsekit.data.decoding.decode` takes to read the picture a path names."""
    return path if os.path.exists(path) or not IN_SHARD.fullmatch(str(path)) else read_bytes(str(path))
