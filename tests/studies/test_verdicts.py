from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from studies.claims import Difference
from studies.matrix import Study
from studies.verdicts import converged_table, ended

from vsekit.files import write_json

STUDIES = Path(__file__).parents[2] / "studies"
PICTURES = 40
CLAIM = {"paper": "VSE++", "claim": "Max wins", "bold": True, "better": "max", "than": "sum"}


def study(
    folder: Path, claims: list[dict[str, Any]], rsums: dict[str, list[float]], needs: dict[str, str] | None = None
) -> Study:
    """Runs with these results, a seed each. needs: the run that one of them goes on from."""
    runs: dict[str, Any] = {name: {"about": name, "seeds": [0, 1, 2]} for name in ("max", "sum", "base", "other")}
    for name, needed in (needs or {}).items():
        runs[name]["needs"] = needed
    folder.mkdir()
    content = {"features": {}, "base": {"model": {}}, "variants": {}, "runs": runs, "claims": claims}
    (folder / "study.yaml").write_text(yaml.safe_dump(content))
    made = Study(folder / "study.yaml", folder, folder)
    first, none = np.zeros(PICTURES, np.uint8), np.full(5 * PICTURES, 255, np.uint8)
    for name, values in rsums.items():
        for seed, rsum in enumerate(values):
            run = made.runs[f"{name}.{seed}"]
            ranks = {"i2t": {"ranks": first.tobytes().hex()}, "t2i": {"ranks": none.tobytes().hex()}}
            about = {"settings": run.settings, "features": run.features, "seed": seed, "rsum": rsum}
            write_json(folder / f"{run.id}.json", about | ranks)
    return made


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_converged_verdict_stands_beside_the_short_one_and_the_papers_own_difference(tmp_path: Path) -> None:
    published = CLAIM | {"published": ["vsepp:3.11", "vsepp:3.9"]}
    short = study(tmp_path / "short", [published], {"max": [200.0, 200.0], "sum": [220.0, 220.0]})
    long = study(tmp_path / "long", [CLAIM], {"max": [260.0], "sum": [240.0]})
    row = cells(converged_table(short, long, pooled=4.0)[2])
    # VSE++, Table 3: 38.6 + 64.6 + 74.6 + 26.8 + 54.9 + 66.8 = 326.3, and 31.6 + 59.3 + 71.7 + 21.6 + 50.7 + 63.8 = 298.7
    assert row[:5] == ["VSE++", "**Max wins**", "+27.6 (flickr30k)", "-20.0: does not", "+20.0"]
    # Every picture is ranked alike on both sides, so the seeds alone count: SE² = 4 + 4, and t of 20 degrees of freedom is 2.086.
    assert row[5] == "+14.1 … +25.9"
    assert row[6:] == ["1/1", "holds; the interval leaves 0 out"]


def test_smaller_models_stand_in_for_missing_ones_and_are_called_so(tmp_path: Path) -> None:
    larger = CLAIM | {"better": "huge", "smaller": {"better": "max", "than": "sum", "at": "256"}}
    short = study(tmp_path / "short", [CLAIM], {"max": [200.0], "sum": [220.0]})
    long = study(tmp_path / "long", [larger], {"max": [260.0], "sum": [240.0]})
    row = cells(converged_table(short, long, pooled=4.0)[2])
    assert row[4:] == ["+20.0", "+14.1 … +25.9", "1/1", "at 256: holds; the interval leaves 0 out"]
    middle = {"better": "max", "than": "large", "at": "512", "smaller": larger["smaller"]}
    nested = study(tmp_path / "nested", [larger | {"smaller": middle}], {"max": [260.0], "sum": [240.0]})
    assert cells(converged_table(short, nested, pooled=4.0)[2]) == row
    both = study(tmp_path / "both", [larger | {"better": "max", "than": "sum"}], {"max": [260.0], "sum": [240.0]})
    assert cells(converged_table(short, both, pooled=4.0)[2])[7] == "holds; the interval leaves 0 out"


def test_runs_that_go_on_from_the_same_one_are_compared_seed_by_seed(tmp_path: Path) -> None:
    rsums = {"max": [110.0, 150.0, 131.0], "sum": [105.0, 144.0, 127.0]}
    short = study(tmp_path / "short", [CLAIM], {"max": [200.0], "sum": [220.0]})

    def verdict(name: str, rsums: dict[str, list[float]], **needs: str) -> list[str]:
        long = study(tmp_path / name, [CLAIM], rsums, needs)
        return cells(converged_table(short, long, pooled=4.0)[2])[4:]

    # Differences of 5, 6 and 4 have a variance of 1: SE² = 1/3, and t of 2 degrees of freedom is 4.303.
    same = verdict("same", rsums, max="base", sum="base")
    assert same[:3] == ["+5.0", "+2.5 … +7.5", "3/3"]
    # The sides alone have variances of 400.3 and 382.3: SE² = 782.7 / 3 = 16.15², and t of 4.0 degrees of freedom is 2.78.
    assert same[3] == "holds; the interval leaves 0 out; seed by seed (otherwise -39.9 … +49.9: can't tell)"
    for name, needs in {"alone": {}, "two": {"max": "base", "sum": "other"}, "one": {"max": "base"}}.items():
        assert verdict(name, rsums, **needs)[1] == "-39.9 … +49.9"
    fewer = verdict("fewer", rsums | {"sum": [105.0, 144.0]}, max="base", sum="base")
    assert "seed by seed" not in fewer[3]


def test_a_claim_without_converged_runs_says_so(tmp_path: Path) -> None:
    other = CLAIM | {"claim": "Another"}
    short = study(tmp_path / "short", [CLAIM, other], {"max": [200.0], "sum": [220.0]})
    long = study(tmp_path / "long", [CLAIM], {"max": [260.0]})
    lines = converged_table(short, long, pooled=4.0)[2:]
    assert [cells(line)[4:] for line in lines] == [
        ["", "", "", "no converged run yet of `sum`"],
        ["", "", "", "no converged run yet"],
    ]


@pytest.mark.parametrize(
    ("value", "half", "seeds", "rule"),
    [
        (5.0, 4.0, (1, 1), "the interval leaves 0 out"),
        (-5.0, 4.0, (3, 3), "the interval leaves 0 out"),
        (8.0, 9.0, (1, 3), "open: more seeds may tell"),
        (8.0, 9.0, (3, 3), "3 seeds"),
        # s² = 12 and q² = 8: three seeds a side reach 1.96·√(2·12/3 + 8) = 7.84.
        (7.8, 9.0, (1, 1), "3 seeds would tell 7.8 and more"),
        (-7.9, 9.0, (1, 1), "open: more seeds may tell"),
    ],
)
def test_seeds_are_added_only_while_the_interval_holds_0_and_could_leave_it(
    value: float, half: float, seeds: tuple[int, int], rule: str
) -> None:
    assert ended(Difference(value, value - half, value + half, seeds, of_pictures=8.0), pooled=12.0) == rule


def test_a_claim_whose_paper_has_less_than_seeds_can_show_is_not_run(tmp_path: Path) -> None:
    published = CLAIM | {"published": ["vsepp:3.11", "vsepp:3.9"]}  # +27.6, see above
    short = study(tmp_path / "short", [published], {"max": [200.0], "sum": [220.0]})
    long = study(tmp_path / "long", [CLAIM], {"max": [260.0]})
    # Three seeds a side reach 1.96·√(2 s²/3) at the least: 27.61 with s² = 297.6, 27.58 with 297.
    told = [cells(converged_table(short, long, pooled)[2])[7] for pooled in (297.6, 297.0)]
    assert told == ["not run: 3 seeds tell 27.6 and more, the paper has +27.6", "no converged run yet of `sum`"]


def test_every_converged_claim_is_one_of_the_short_study() -> None:
    short, long = (yaml.safe_load((STUDIES / f"{name}.yaml").read_text()) for name in ("flickr8k", "converged"))
    asked = {(claim["paper"], claim["claim"]) for claim in short["claims"]}
    assert {(claim["paper"], claim["claim"]) for claim in long["claims"]} <= asked
