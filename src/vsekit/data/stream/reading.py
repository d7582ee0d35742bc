"""A shard from any sample on: what fails is tried again, what stays broken is a problem, what stays away an error."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vsekit.data.readers.base import IMAGE_SUFFIXES, one_or_more, parse_json, split_name
from vsekit.data.readers.problems import Place, Problem
from vsekit.data.stream.fetching import Bytes, Failed
from vsekit.data.stream.tar import Damaged, Sample, samples_in
from vsekit.errors import UserError

#: Seconds before each further try. With `fetching.SILENCE` a shard that stays away is told within a minute.
WAITS = (1.0, 2.0)


def samples(shard: str, start: int = 0) -> Iterator[Sample | Problem]:
    """The samples of a shard from number `start` on, and what in it can't be used; a problem may be told twice.

    Raises UserError for a shard that can't be fetched, after some tries.
    """
    tries, damages = 0, 0
    while True:
        try:
            file = Bytes(shard)
            try:
                for item in samples_in(file, shard, start):
                    if isinstance(item, Sample):
                        start, tries = item.ordinal + 1, 0
                    yield item
                return
            finally:
                file.close()
        except Damaged as error:
            # Once more: a server that drops a connection may look like a shard that was cut off.
            damages += 1
            if damages > 1:
                yield Problem("damaged-shard", str(error), Place(shard), "What lies behind is lost; write it again.")
                return
        except Failed as error:
            if tries == len(WAITS):
                raise UserError(
                    f"this shard can't be read, tried {tries + 1} times: {error}",
                    file=shard,
                    remedy="Is it there, and may it be read? When it is, go on with --resume.",
                ) from None
            time.sleep(WAITS[tries])
            tries += 1


@dataclass(frozen=True)
class Described:
    """A sample as a picture with captions. split: as its .json names it; who names a shard means what is in it."""

    picture: bytes
    captions: list[str]
    group: str
    split: str | None
    picture_suffix: str


def described(sample: Sample, group_key: str | None = None) -> Described | Problem:
    """What the members of a sample say, by the rules of `readers.webdataset`.

    group_key: the field of the .json that names the group; else `group` or `person_id`, else each sample is its own.
    """
    image = next((suffix for suffix in sample.members if suffix in IMAGE_SUFFIXES), None)
    if image is None:
        return sample.problem("missing-image", f"the sample has no image, only {', '.join(sample.members)}")
    try:
        told: Any = parse_json(_text(sample, ".json"), Place(sample.shard, field=sample.key + ".json"))
    except UserError as error:
        return sample.problem("bad-field", error.what, ".json")
    if not isinstance(told, dict):
        return sample.problem("bad-field", "this is not an object", ".json", "Write {…}.")
    given = [text for name in ("caption", "captions") for _, text in one_or_more(told.get(name, []))]
    captions = [text.strip() for text in given or _text(sample, ".txt", "").split("\n") if isinstance(text, str)]
    captions = [text for text in captions if text]
    if not captions:
        return sample.problem("no-caption", "there is no caption in key.json or key.txt")
    split = told.get("split")
    keys = [group_key] if group_key else ["group", "person_id"]
    group = next((told[key] for key in keys if told.get(key) is not None), f"{sample.shard}/{sample.key}")
    return Described(sample.members[image], captions, str(group), split_name(str(split)) if split else None, image)


def _text(sample: Sample, suffix: str, missing: str = "{}") -> str:
    return sample.members[suffix].decode("utf-8-sig", errors="replace") if suffix in sample.members else missing
