from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from vsekit.errors import UserError
from vsekit.search.terminal import escape_sequence, graphics, sixel


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ({"TERM_PROGRAM": "WezTerm"}, "iterm2"),
        ({"LC_TERMINAL": "iTerm2"}, "iterm2"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"}, None),
        ({"TMUX": "/tmp/x", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-kitty", "VSEKIT_GRAPHICS": "none"}, None),
        ({"TERM": "xterm", "VSEKIT_GRAPHICS": "sixel"}, "sixel"),
        ({}, None),
    ],
)
def test_the_environment_tells_what_a_terminal_shows(environment: dict[str, str], expected: str | None) -> None:
    assert graphics(environment, Terminal()) == expected
    assert graphics(environment, io.StringIO()) is None  # a pipe or a file gets paths


def test_an_unknown_wish_is_refused() -> None:
    with pytest.raises(UserError, match="no graphics 'gif'"):
        graphics({"VSEKIT_GRAPHICS": "gif"}, Terminal())


NOISE = Image.fromarray(np.random.default_rng(0).integers(0, 255, (70, 90, 3), dtype=np.uint8))


def decoded(png: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(png))))


def test_kitty_gets_a_png_in_pieces() -> None:
    text = escape_sequence(NOISE, "kitty")
    pieces = re.findall("\x1b_G([^;]*);([^\x1b]*)\x1b\\\\", text)
    assert len(pieces) > 1
    assert [keys[-3:] for keys, _ in pieces] == ["m=1"] * (len(pieces) - 1) + ["m=0"]
    assert pieces[0][0].startswith("a=T,f=100,")
    assert max(len(piece) for _, piece in pieces) <= 4096
    np.testing.assert_array_equal(decoded("".join(piece for _, piece in pieces)), np.asarray(NOISE))


def test_iterm2_gets_a_png_with_its_size() -> None:
    found = re.fullmatch(
        "\x1b]1337;File=inline=1;size=(\\d+);width=90px;height=70px:([^\a]*)\a\n", escape_sequence(NOISE, "iterm2")
    )
    assert found
    assert int(found[1]) == len(base64.b64decode(found[2]))
    np.testing.assert_array_equal(decoded(found[2]), np.asarray(NOISE))


def read_sixel(text: str) -> np.ndarray:
    """The pixels of a sixel string, read one character at a time."""
    body = re.fullmatch('\x1bPq"1;1;(\\d+);(\\d+)(.*)\x1b\\\\\n', text, re.DOTALL)
    assert body
    width, height = int(body[1]), int(body[2])
    pixels, palette = np.full((height, width, 3), -1), {}
    x = top = colour = 0
    for token in re.finditer(r"#(\d+)(?:;2;(\d+);(\d+);(\d+))?|!(\d+)(.)|([$-])|([?-~])", body[3]):
        if token[1]:
            colour = int(token[1])
            if token[2]:
                palette[colour] = [int(token[i]) for i in (2, 3, 4)]
        elif token[7]:
            x, top = 0, top + (6 if token[7] == "-" else 0)
        else:
            run = int(token[5] or 1)
            for bit in range(6):
                if (ord(token[6] or token[8]) - 63) >> bit & 1:
                    pixels[top + bit, x : x + run] = palette[colour]
            x += run
    return pixels


def test_sixels_say_every_pixel_in_its_colour() -> None:
    blocks = np.zeros((17, 23, 3), np.uint8)  # 17 rows: the last band is not full
    blocks[3:9, 5:20] = (255, 0, 0)
    blocks[10:, :11] = (0, 51, 255)
    np.testing.assert_allclose(read_sixel(sixel(Image.fromarray(blocks))), blocks * (100 / 255), atol=1)
