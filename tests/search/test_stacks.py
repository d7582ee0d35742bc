from __future__ import annotations

import numpy as np

from vsekit.search.items import Item
from vsekit.search.stacks import BURST, COPY, NEAR, stacked


def item(number: int, taken: str | None = None, content: str = "", camera: str = "X100") -> Item:
    meta = {"camera": camera} | ({"taken": f"2021-07-04 {taken}"} if taken else {})
    return Item(f"p{number}", "image", content=content or f"c{number}", meta=meta)


def turned(*cosines: float) -> np.ndarray:
    """Unit vectors, the first along an axis and each other with this cosine to it, all in planes of their own."""
    vectors = np.zeros((len(cosines) + 1, len(cosines) + 1), np.float32)
    vectors[0, 0] = 1
    for i, cosine in enumerate(cosines, start=1):
        vectors[i, 0], vectors[i, i] = cosine, (1 - cosine**2) ** 0.5
    return vectors


def test_the_same_bytes_or_nearly_the_same_vector_are_copies() -> None:
    items = [item(0), item(1), item(2), item(3, content="c0")]
    assert stacked(items, turned(COPY + 0.01, COPY - 0.01, 0.1)) == [0, 0, 2, 0]


def test_screenshots_are_copies_only_with_the_same_text_or_the_same_bytes() -> None:
    def shot(number: int, type: str, written: str = "", content: str = "") -> Item:
        meta = {"type": type} | ({"written": written} if written else {})
        return Item(f"p{number}", "image", content=content or f"c{number}", meta=meta)

    items = [
        shot(0, "screenshot", "Gate B22"),
        shot(1, "screenshot", "Invoice 118"),
        shot(2, "screenshot", "Gate B22"),
        shot(3, "graphic"),
        shot(4, "graphic"),
        shot(5, "screenshot", content="c0"),
        shot(6, "photo"),
    ]
    alike = turned(*[1.0] * 6)
    alike[:, 1:] = 0
    assert stacked(items, alike) == [0, 1, 0, 3, 4, 0, 0]


def test_a_burst_needs_the_moment_the_camera_and_some_likeness() -> None:
    items = [
        item(0, "10:00:00"),
        item(1, "10:00:04"),
        item(2, "10:01:00"),
        item(3, "10:00:02", camera="Z6"),
        item(4, "10:00:01"),
        item(5),
    ]
    near = BURST + 0.01
    assert stacked(items, turned(near, near, near, BURST - 0.01, near)) == [0, 0, 2, 3, 4, 5]


def test_a_burst_goes_on_from_shot_to_shot() -> None:
    """Each is five seconds after the one before it, the last half a minute after the first."""
    items = [item(i, f"10:00:{5 * i:02}") for i in range(7)]
    vectors = np.tile(np.array([1, 0], np.float32), (7, 1))
    vectors[:, 1] = 0.7 * (np.arange(7) % 2)  # of cosine 0.82
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert stacked(items, vectors) == [0] * 7


def test_only_what_stands_near_is_looked_at() -> None:
    count = NEAR + 2
    vectors = np.eye(count, dtype=np.float32)
    vectors[-1] = vectors[0]
    items = [item(i) for i in range(count)]
    assert stacked(items, vectors) == list(range(count))
    assert stacked(items[:1] + items[2:], np.delete(vectors, 1, axis=0))[-1] == 0


def test_nothing_is_in_no_stack() -> None:
    assert stacked([], np.zeros((0, 3), np.float32)) == []
