"""A generated collection on disk: JPEG files, and a JSON file with the fields of Karpathy's `dataset_flickr8k.json`.

Two fields come on top: each image's `scene` (its ground truth) and each sentence's `facts` (what it claims), so that
`holds(facts, scene)` can tell whether a retrieved caption is true of a picture even though it isn't its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from vsekit.data.scenes.draw import draw
from vsekit.data.scenes.words import captions
from vsekit.data.scenes.world import Scene, scenes
from vsekit.errors import UserError
from vsekit.files import write_text

NAME = "dataset_scenes.json"


def write_scenes(
    out: Path,
    *,
    train: int,
    val: int,
    test: int,
    seed: int = 0,
    hard_share: float = 0.3,
    pixels: int = 96,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Draws a collection into the folder `out` and returns the path of its JSON file.

    Equal settings give equal bytes, and a longer split begins with the shorter one. The JSON file is written last, so
    a folder that has it is whole.

    Args:
        out: a new or empty folder, or one with this same collection, whole or begun.
        train, val, test: pictures per split. Val and test show combinations that train lacks (`world.HELD_OUT`).
        seed: another seed, another collection.
        hard_share: the share of scenes that have a twin which differs in one fact. Twins have the numbers 2k and 2k + 1
            of their split; the last scene of an odd split may miss its twin.
        pixels: side of the square pictures.
        progress: called with (pictures done, pictures in all) after each.

    Raises UserError for settings that make no sense, and for a folder that holds anything else.
    """
    out = Path(out)
    counts = {"train": train, "val": val, "test": test}
    for field, value, right in (
        *((name, count, count >= 0) for name, count in counts.items()),
        ("train + val + test", sum(counts.values()), sum(counts.values()) > 0),
        ("hard_share", hard_share, 0 <= hard_share <= 1),
        ("pixels", pixels, pixels >= 32),
    ):
        if not right:
            remedy = "Counts start at 0 (one at least above it), hard_share is between 0 and 1, pixels 32 or more."
            raise UserError(f"{value} is out of range", field=field, remedy=remedy)
    settings = {**counts, "seed": seed, "hard_share": float(hard_share), "pixels": pixels}
    _refuse_another_collection(out, counts, settings)
    for left_over in out.glob(f".{NAME}.*.tmp"):
        left_over.unlink()  # of one that was killed

    # A rerun that is killed must not leave the old JSON file over half-written pictures.
    (out / NAME).unlink(missing_ok=True)
    (out / "images").mkdir(parents=True, exist_ok=True)
    images: list[dict[str, Any]] = []
    for split, count in counts.items():
        for number, (scene, sentences) in enumerate(islice(_captioned(split, seed, hard_share), count)):
            imgid, filename = len(images), _filename(split, number)
            draw(scene, pixels).save(out / "images" / filename, quality=92, subsampling=0)
            sentids = [imgid * len(sentences) + i for i in range(len(sentences))]
            images.append(
                {
                    "filename": filename,
                    "filepath": "",
                    "imgid": imgid,
                    "sentids": sentids,
                    "split": split,
                    "sentences": [s | {"sentid": i, "imgid": imgid} for i, s in zip(sentids, sentences)],
                    "scene": scene,
                }
            )
            if progress is not None:
                progress(len(images), sum(counts.values()))
    # One image a line: quick to write, and `head` shows it.
    lines = ",\n".join(json.dumps(image) for image in images)
    write_text(out / NAME, f'{{"dataset": "scenes", "settings": {json.dumps(settings)}, "images": [\n{lines}\n]}}\n')
    return out / NAME


def _captioned(split: str, seed: int, hard_share: float) -> Iterator[tuple[Scene, list[dict[str, Any]]]]:
    for pair, neighbours in enumerate(scenes(split, seed, hard_share)):
        rngs = [Random(f"{seed} {split} {2 * pair + i} words") for i in (0, 1)]
        yield from zip(neighbours, captions(neighbours, rngs))


def _filename(split: str, number: int) -> str:
    return f"{split}_{number:06d}.jpg"


def _refuse_another_collection(out: Path, counts: dict[str, int], settings: dict[str, Any]) -> None:
    remedy = "Name a new or an empty folder."
    if out.exists() and not out.is_dir():
        raise UserError("this is not a folder", file=out, remedy=remedy)
    if (out / NAME).exists():
        try:
            same = json.loads((out / NAME).read_text(encoding="utf-8"))["settings"] == settings
        except (ValueError, KeyError, TypeError):
            same = False
        if not same:
            raise UserError("a collection with other settings is here already", file=out / NAME, remedy=remedy)
    ours = {f"images/{_filename(split, number)}" for split, count in counts.items() for number in range(count)}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if not (name in ours or name in ("images", NAME) or name.startswith(f".{NAME}.")):
            raise UserError(f"it already holds '{name}', which is not of this collection", file=out, remedy=remedy)
