"""The claims of a study as tables: what was claimed, the difference that was found, and the verdict.

`converged_table` puts runs at the papers' own settings beside the paper's own difference and beside the short runs they
replace.
"""

from __future__ import annotations

from typing import Any

from studies.claims import Difference, difference, epochs_to, mean_curve, overtaking, reach
from studies.matrix import Study
from vsekit import recipes

#: With so many seeds a side a claim is closed, whatever its interval says.
ENOUGH_SEEDS = 3


def shown(value: float, digits: int = 1, sign: str = "") -> str:
    """Rounded to nine digits first: a mean that lies between two shown numbers gives the same one on every processor."""
    return f"{round(float(value), 9):{sign}.{digits}f}"


def signed(value: float) -> str:
    return shown(value, sign="+")


def claims_table(study: Study, found: dict[str, Any], pooled: float) -> list[str]:
    lines = ["| paper | claim | difference of rsum | 95 % interval | seeds | verdict |", "|---|---|---|---|---|---|"]
    for claim in study.content["claims"]:
        lines.append("| " + " | ".join(claim_row(claim, found, pooled)) + " |")
    return lines


def claim_row(claim: dict[str, Any], found: dict[str, Any], pooled: float) -> list[str]:
    title = f"**{claim['claim']}**" if claim.get("bold") else claim["claim"]
    names = [claim[key] for key in ("better", "than", "overtakes", "first", "faster", "same", "as") if key in claim]
    names += claim.get("beyond", [])
    missing = [name for name in names if name not in found]
    if missing:
        return [claim["paper"], title, "", "", "", "not run yet: " + ", ".join(f"`{name}`" for name in missing)]
    seeds = "/".join(str(len(found[name])) for name in names)
    if "overtakes" in claim:
        epoch = overtaking(mean_curve(found[claim["first"]]), mean_curve(found[claim["overtakes"]]))
        answer = "does not: never overtakes" if epoch is None else f"ahead from pass {epoch} on"
        verdict = answer if epoch is None else ("does not: ahead from the start" if epoch == 1 else f"holds: {answer}")
        return [claim["paper"], title, "", "", seeds, verdict]
    if "faster" in claim:
        fast, slow = mean_curve(found[claim["faster"]]), mean_curve(found[claim["than"]])
        level = 0.95 * max(slow)
        a, b = epochs_to(fast, level), epochs_to(slow, level)
        said = f"{a if a else 'never'} against {b} epochs to 95 % of the other's best"
        return [claim["paper"], title, "", "", seeds, f"{'holds' if a and b and a < b else 'does not'}: {said}"]
    if "same" in claim:
        d = difference([(1.0, found[claim["same"]]), (-1.0, found[claim["as"]])], pooled)
        verdict = "holds: no difference seen" if d.verdict == "can't tell" else "does not: they differ"
        return [claim["paper"], title, *_measured(d), seeds, verdict]
    sides = [(1.0, found[claim["better"]]), (-1.0, found[claim["than"]])]
    if "beyond" in claim:
        sides += [(-1.0, found[claim["beyond"][0]]), (1.0, found[claim["beyond"][1]])]
    d = difference(sides, pooled)
    return [claim["paper"], title, *_measured(d), seeds, d.verdict]


def _measured(d: Difference) -> tuple[str, str]:
    """A difference, and its interval."""
    return signed(d.value), f"{signed(d.low)} … {signed(d.high)}"


def converged_table(short: Study, long: Study, pooled: float) -> list[str]:
    """Every claim of `long`, and every bold claim of `short`, with the paper's difference and both verdicts.

    Args:
        pooled: s² of the short runs, for sides with a single seed.
    """
    lines = [
        "| paper | claim | the paper's difference | short runs | converged | 95 % interval | seeds | verdict, and why it ended |"
    ]
    lines.append("|" + "---|" * 8)
    before, now = short.found(), long.found()
    asked = {(claim["paper"], claim["claim"]): claim for claim in long.content["claims"]}
    for claim in short.content["claims"]:
        key = claim["paper"], claim["claim"]
        if key in asked or claim.get("bold"):
            was = claim_row(claim, before, pooled)
            published, recalls = _published(claim)
            cells = [was[0], was[1], recalls, f"{was[2]}: {was[5]}".lstrip(": ")]
            lines.append("| " + " | ".join([*cells, *_converged(asked.get(key), long, now, pooled, published)]) + " |")
    return lines


def _converged(
    claim: dict[str, Any] | None, study: Study, found: dict[str, Any], pooled: float, published: float | None
) -> list[str]:
    """The difference of converged runs, its interval, seeds, and the verdict with the rule that ended it; of smaller models
    where those of the paper's size are not trained. published: the paper's own difference. Where a comparison is seed by seed,
    the interval without that is shown as well."""
    if claim is None:
        return ["", "", "", "no converged run yet"]
    sizes = [claim]
    while "smaller" in sizes[-1]:
        sizes.append(sizes[-1]["smaller"])
    for size in sizes:
        if {size["better"], size["than"]} <= found.keys():
            sides = [(1.0, found[size["better"]]), (-1.0, found[size["than"]])]
            d = plain = difference(sides, pooled)
            at, how = f"at {size['at']}: " if "at" in size else "", ""
            if have_seeds_in_common(study, size["better"], size["than"], found):
                d = difference(sides, pooled, by_seed=True)
                how = f"; seed by seed (otherwise {_measured(plain)[1]}: {plain.verdict})"
            return [*_measured(d), "/".join(str(n) for n in d.seeds), f"{at}{d.verdict}; {ended(d, pooled)}{how}"]
    least = reach(ENOUGH_SEEDS, pooled)
    if published is not None and abs(published) < least:
        return [
            "",
            "",
            "",
            f"not run: {ENOUGH_SEEDS} seeds tell {shown(least)} and more, the paper has {signed(published)}",
        ]
    missing = [f"`{name}`" for name in (claim["better"], claim["than"]) if name not in found]
    return ["", "", "", f"no converged run yet of {', '.join(missing)}"]


def have_seeds_in_common(study: Study, a: str, b: str, found: dict[str, Any]) -> bool:
    """Whether two runs go on from the same third one, or learn from its lists, with the same seeds, several of them."""
    needs = [study.content["runs"][name].get("needs") for name in (a, b)]
    seeds = [sorted(result["seed"] for result in found[name]) for name in (a, b)]
    return needs[0] is not None and needs[0] == needs[1] and seeds[0] == seeds[1] and len(seeds[0]) > 1


def ended(found: Difference, pooled: float) -> str:
    """Which rule ended the claim, or that none has: seeds are added while the interval holds 0 and could still leave it."""
    if found.verdict != "can't tell":
        return "the interval leaves 0 out"
    if min(found.seeds) >= ENOUGH_SEEDS:
        return f"{ENOUGH_SEEDS} seeds"
    enough = reach(ENOUGH_SEEDS, pooled, found.of_pictures)
    if abs(found.value) < enough:
        return f"{ENOUGH_SEEDS} seeds would tell {shown(enough)} and more"
    return "open: more seeds may tell"


def _published(claim: dict[str, Any]) -> tuple[float | None, str]:
    """The paper's own difference, of the recalls that both of its rows print, added up; and as it is shown."""
    rows = [recipes.find(name) for name in claim.get("published", ())]
    if not rows:
        return None, ""
    better, than = (row.published for row in rows)
    pairs = [(a, b) for way in ("i2t", "t2i") for a, b in zip(better.get(way, [])[:3], than.get(way, [])[:3])]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    if not both:
        return None, ""
    value = sum(a - b for a, b in both)
    recalls = "" if len(both) == 6 else f", {len(both)} recalls"
    return value, f"{signed(value)} ({rows[0].dataset}{recalls})"
