"""Pictures in a terminal that can show them: kitty's graphics, iTerm2's inline images, or DEC sixels.

Which one is told from the environment alone: asking the terminal would mean waiting for terminals that never answer.
VSEKIT_GRAPHICS=kitty, iterm2, sixel or none overrules.
"""

from __future__ import annotations

import base64
import io
import os
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from vsekit.errors import UserError

if TYPE_CHECKING:
    from PIL import Image

Graphics: TypeAlias = Literal["kitty", "iterm2", "sixel"]
_PROGRAMS: dict[str, Graphics] = {
    "ghostty": "kitty",
    "WezTerm": "iterm2",
    "iTerm.app": "iterm2",
    "mintty": "iterm2",
    "rio": "iterm2",
}
_TERMS: dict[str, Graphics] = {
    "xterm-kitty": "kitty",
    "xterm-ghostty": "kitty",
    "foot": "sixel",
    "foot-extra": "sixel",
    "mlterm": "sixel",
    "yaft-256color": "sixel",
    "contour": "sixel",
}


def graphics(environment: Mapping[str, str] = os.environ, output: IO[str] | None = None) -> Graphics | None:
    """What the terminal behind `output` (stdout) can show, or None."""
    if not (output or sys.stdout).isatty():
        return None
    wished = environment.get("VSEKIT_GRAPHICS")
    if wished:
        if wished == "none":
            return None
        if wished in ("kitty", "iterm2", "sixel"):
            return wished  # type: ignore[return-value]
        raise UserError(f"no graphics '{wished}'", field="VSEKIT_GRAPHICS", remedy="Use kitty, iterm2, sixel or none.")
    if "TMUX" in environment or environment.get("TERM", "").startswith(("screen", "tmux")):
        return None  # they swallow what they don't know
    if "KITTY_WINDOW_ID" in environment:
        return "kitty"
    if environment.get("LC_TERMINAL") == "iTerm2":  # over ssh too
        return "iterm2"
    return _PROGRAMS.get(environment.get("TERM_PROGRAM", "")) or _TERMS.get(environment.get("TERM", ""))


def escape_sequence(image: Image.Image, how: Graphics) -> str:
    """What to print so that the picture appears, one pixel a pixel."""
    if how == "sixel":
        return sixel(image)
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "PNG")
    data = base64.b64encode(buffer.getvalue()).decode()
    if how == "iterm2":
        size = f"size={len(buffer.getvalue())};width={image.width}px;height={image.height}px"
        return f"\x1b]1337;File=inline=1;{size}:{data}\a\n"
    # Transmit and show (a=T) a PNG (f=100), quietly (q=2), in pieces of at most 4096 characters.
    pieces = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    first = "a=T,f=100,q=2,"
    keys = [(first if i == 0 else "") + f"m={int(i < len(pieces) - 1)}" for i in range(len(pieces))]
    return "".join(f"\x1b_G{key};{piece}\x1b\\" for key, piece in zip(keys, pieces)) + "\n"


def sixel(image: Image.Image, colours: int = 128) -> str:
    """DEC sixels: bands of six rows; in a band, for each colour, a character a column whose six bits are its pixels."""
    paletted = image.convert("RGB").quantize(colours)
    palette = np.array(paletted.getpalette()).reshape(-1, 3)
    pixels = np.asarray(paletted)
    height, width = pixels.shape
    used = np.unique(pixels)
    parts = [f'\x1bPq"1;1;{width};{height}']
    parts += ["#{};2;{};{};{}".format(i, *(palette[i] * 100 // 255)) for i in used]
    bits = 1 << np.arange(6)
    for top in range(0, height, 6):
        band = pixels[top : top + 6]
        rows = []
        for colour in np.unique(band):
            columns = ((band == colour) * bits[: len(band), None]).sum(0) + 63
            rows.append(f"#{colour}" + _runs(columns))
        parts.append("$".join(rows) + "-")
    return "".join(parts) + "\x1b\\\n"


def _runs(characters: np.ndarray) -> str:
    """Characters by number, repeats of more than three written as !count character."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(characters)) + 1])
    counts = np.diff([*starts, len(characters)])
    return "".join(
        f"!{n}{chr(c)}" if n > 3 else chr(c) * n for n, c in zip(counts.tolist(), characters[starts].tolist())
    )
