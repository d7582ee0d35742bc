"""A pattern names exactly its shards, and a slip of the hand is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from vsekit.data.stream.addresses import names_stream, shards
from vsekit.errors import UserError


def test_ranges_keep_their_zeros_and_braces_combine() -> None:
    assert shards("s3://b/{x,y}/t-{008..011}.tar") == [
        f"s3://b/{folder}/t-{number}.tar" for folder in "xy" for number in ("008", "009", "010", "011")
    ]
    assert shards("t-{9..11}.tar") == ["t-9.tar", "t-10.tar", "t-11.tar"]
    assert shards("http://host/one.tar") == ["http://host/one.tar"]


def test_patterns_on_disk_are_sorted_and_ranges_are_not_looked_up(tmp_path: Path) -> None:
    for name in ("b.tar", "a.tar", "c.txt"):
        (tmp_path / name).touch()
    assert shards(f"{tmp_path}/*.tar") == [f"{tmp_path}/a.tar", f"{tmp_path}/b.tar"]
    assert shards(f"{tmp_path}/gone-{{0..1}}.tar") == [f"{tmp_path}/gone-0.tar", f"{tmp_path}/gone-1.tar"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("t-{5..1}.tar", "{5..1}"),
        ("t-{}.tar", "can't read the range"),
        ("t-{0..99999999}.tar", "more than 1,000,000"),
        ("{a,a}.tar", "a.tar is named twice"),
        ("s3://bucket/*.tar", "listed first"),
        ("nothing-here-*.tar", "no file on disk"),
    ],
)
def test_what_names_no_shards_is_told(pattern: str, words: str) -> None:
    with pytest.raises(UserError, match=words.replace("{", r"\{").replace("(", r"\(")):
        shards(pattern)


def test_files_and_folders_are_collections_even_with_odd_names(tmp_path: Path) -> None:
    odd = tmp_path / "a [1].tar"
    assert names_stream(odd)
    odd.touch()
    assert not names_stream(odd)
    assert not names_stream(tmp_path / "missing.csv")
