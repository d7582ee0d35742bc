"""A process that decodes pictures for the server, with a limit to its memory: `python -m vsekit.serve.decoder BYTES`.

A picture can be made to crash a decoder or to fill the memory. Here that costs this process and one answer. It reads from
stdin and writes to stdout, in turns:

    asked      a line of JSON {"task", "length", "pixels", and what the task takes}, then the file's bytes
    answered   a line of JSON {"length", and what the task gives}, or {"reason", "kind"} of a PictureError; then bytes

Nothing is pickled: a decoder that was taken over can't reach further than this. It ends when it was idle for `IDLE_SECONDS`,
and after a picture that left much memory behind; whoever needs it starts another (`vsekit.serve.decoders`).
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import warnings
from typing import Any, BinaryIO

from PIL import Image

from vsekit import system
from vsekit.data.decoding import PictureError, decode, open_picture, upright

IDLE_SECONDS = 600.0
MUCH = 256 * 2**20  # bytes that this process may have had at its fullest, and go on
#: What browsers show themselves, by Pillow's names.
SHOWN = {
    "JPEG": "image/jpeg",
    "MPO": "image/jpeg",  # with further pictures behind the first, as some cameras write it
    "PNG": "image/png",
    "WEBP": "image/webp",
    "GIF": "image/gif",
    "AVIF": "image/avif",
}


def thumbnail(file: BinaryIO, size: int, pixels: int) -> Image.Image:
    """Upright and in RGB, its longer side at most `size`. pixels: the most the picture may have."""
    image = decode(file, size, max_pixels=pixels)
    image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
    return image


def jpeg(image: Image.Image, quality: int) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality, progressive=True)
    return out.getvalue()


def work(file: BinaryIO, task: str, pixels: int, **options: Any) -> tuple[dict[str, Any], bytes]:
    """What is answered. Tasks:

    thumbnail (size): a JPEG.
    pixels (side, view): the picture as `decode` gives it, or the square that a view makes of it, which is small however
        large the picture was: {"size": [width, height]}, and RGB.
    browser: {"media_type"} of a file that browsers show, or a JPEG.
    """
    if task == "thumbnail":
        return {}, jpeg(thumbnail(file, options["size"], pixels), quality=82)
    if task == "pixels":
        image = decode(file, options["side"], max_pixels=pixels)
        if options["view"] is not None:
            from vsekit.data.views import resized, view_settings

            image = Image.fromarray(resized(image, view_settings(options["view"])))
        return {"size": image.size}, image.tobytes()
    with open_picture(file, max_pixels=pixels) as image:
        if (media_type := SHOWN.get(image.format or "")) is not None:
            return {"media_type": media_type}, b""
        return {}, jpeg(upright(image), quality=90)


def _next_line(source: BinaryIO) -> bytes:
    """What is asked next; ends the process when nothing is for a long time. Windows can't wait for a pipe otherwise."""
    idle = threading.Timer(IDLE_SECONDS, os._exit, (0,))
    idle.daemon = True
    idle.start()
    try:
        return source.readline()
    finally:
        idle.cancel()


def main() -> None:
    warnings.filterwarnings("ignore", module=r"PIL\.")
    system.limit_memory(int(sys.argv[1]))
    source, target = sys.stdin.buffer, sys.stdout.buffer
    # The first picture finds Pillow's decoders loaded: half of what it would take.
    thumbnail(io.BytesIO(jpeg(Image.new("RGB", (32, 32)), quality=82)), 16, pixels=2**20)
    while line := _next_line(source):
        asked = json.loads(line)
        try:
            data = source.read(asked.pop("length"))
            answer, content = work(io.BytesIO(data), **asked)
        except PictureError as error:
            answer, content = {"reason": error.reason, "kind": error.kind}, b""
        except MemoryError:
            answer, content = {"reason": "it takes more memory than there is for one", "kind": "memory"}, b""
        full = system.most_memory() > MUCH
        target.write(json.dumps({**answer, "length": len(content), "last": full}).encode() + b"\n" + content)
        target.flush()
        if full:
            return


if __name__ == "__main__":
    main()
