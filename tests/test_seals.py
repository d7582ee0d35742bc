from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsekit.errors import UserError
from vsekit.seals import check_files, read_sealed, sums_of, write_sealed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(max_size=5).filter(lambda key: key != "sha256"), JSON, max_size=4))
def test_what_was_sealed_is_read_again(value: dict, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("sealed") / "about.json"
    write_sealed(path, value)
    assert read_sealed(path, "") == value


def test_numbers_as_keys_and_tuples_are_sealed_as_json_has_them(tmp_path: Path) -> None:
    write_sealed(tmp_path / "a.json", {"by": {10: (1, 2), 9: None}})
    assert read_sealed(tmp_path / "a.json", "") == {"by": {"10": [1, 2], "9": None}}


def test_every_other_value_and_every_other_checksum_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "a.json", tmp_path / "rows.npy"
    other.write_bytes(b"rows")
    write_sealed(path, {"rows": 12, "by": "me"}, sums_of(tmp_path, [other]))
    text = path.read_text()
    assert json.loads(text)["sha256"]["rows.npy"] == hashlib.sha256(b"rows").hexdigest()
    for was, now in (("12", "13"), ("me", "mf"), ("rows.npy", "rowz.npy"), ("}", ""), ("{", "["), (text, "7")):
        path.write_text(text.replace(was, now, 1))
        with pytest.raises(UserError, match=r"a\.json.*damaged[\s\S]*Make it again"):
            read_sealed(path, "Make it again.")
    path.write_bytes(b"\xff" + text.encode()[1:])
    with pytest.raises(UserError, match="damaged"):
        read_sealed(path, "Make it again.")


def test_a_file_of_before_seals_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"rows": 3}')
    assert read_sealed(tmp_path / "a.json", "") == {"rows": 3}


def test_a_file_that_is_gone_or_another_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    file = tmp_path / "b" / "a.npy"
    file.write_bytes(b"1234")
    sums = sums_of(tmp_path, [file])
    check_files(tmp_path, sums, "Again.")
    file.write_bytes(b"1235")
    with pytest.raises(UserError, match=rf"{file}.*damaged[\s\S]*Again"):
        check_files(tmp_path, sums, "Again.")
    check_files(tmp_path, sums, "Again.", most=3)  # too large to be read each time
    file.unlink()
    with pytest.raises(UserError, match=rf"{file}.*missing[\s\S]*Again"):
        check_files(tmp_path, sums, "Again.", most=3)
