"""docs/study.md and its charts, from a study's result files alone.

In the template, `<!-- name -->` is a table or chart; `{{rsum RUN}}` is the mean rsum of a run of the matrix and `{{diff A B}}` the
difference of two with its interval. Of a row of the recipe, `{{minutes ROW}}` are the CPU-minutes, `{{model ROW}}` is the rsum,
`{{plain ROW}}` that without querybanks (`{{plain_r1 ROW}}`: R@1 both ways), and `{{weights ROW}}` lists it with other weights of
the bank.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from studies.claims import difference, epochs_to, mean_curve, overtaking, seed_variance
from studies.matrix import Study
from vsekit.drawing import charts
from vsekit.files import write_text

COLOURS = {"var(--one)": "#2f6db3", "var(--two)": "#c2571a", "var(--good)": "#3b8a4a", "var(--bad)": "#a8324a"}
COLOURS |= {"var(--soft)": "#777777", "var(--line)": "#bbbbbb", "currentColor": "#555555"}
#: Charts: file name → title, x axis and the configurations whose curves it shows.
CURVES = {
    "study-hinges": ("Sum against max of hinges (VSE++, Fig. 2)", ["sh", "vsepp", "curriculum", "vse0"]),
    "study-adopt": ("AdOpt against hardest-negative triplets (VSE+2AD)", ["ad-pool", "ad-pool-triplet"]),
    "study-dual": ("Stage I of dual-path: instance against ranking loss", ["instance", "ranking"]),
    "study-aoq": ("AOQ on VSRN", ["vsrn", "vsrn-offtri", "vsrn-offquin", "vsrn-adap"]),
    "study-convse": ("On the same base (ConVSE)", ["convse", "convsepp", "mvn", "vsepp-heads"]),
}


def render(study: Study, docs: Path) -> None:
    """Writes docs/study.md and docs/images/study-*.svg."""
    found = {name: results for name in study.content["runs"] if (results := study.of(name))}
    text = (Path(__file__).parent / "flickr8k.md").read_text(encoding="utf-8")
    models = _read_models(study.results.parent / "flickr8k-models")
    pooled = seed_variance(list(found.values()))
    filled = {
        "claims": "\n".join(_claims(study, found, pooled)),
        "runs": "\n".join(_runs(found)),
        "footing": "\n".join(_runs({name: found[name] for name in study.content["footing"] if name in found})),
        "curves": "\n\n".join(_curves(found, docs)),
        "finished": f"{sum(map(len, found.values()))} of {len(study.runs)}",
        "cpu_hours": _shown(sum(r["cpu_seconds"] for results in found.values() for r in results) / 3600),
        "models": "\n".join(_models(models)),
        "without": "\n".join(_without(models["best"])) if "best" in models else "",
        "gallery": "\n".join(_gallery(models["best"])) if "best" in models else "",
        "seed_sd": _shown(pooled**0.5),
    }
    for key, value in filled.items():
        text = text.replace(f"<!-- {key} -->", value)
    text = re.sub(
        r"\{\{(\w+) ([^}]+)\}\}", lambda match: _number(match[1], match[2].split(), found, models, pooled), text
    )
    write_text(docs / "study.md", text)


def _number(kind: str, names: list[str], found: dict[str, Any], models: dict[str, Any], pooled: float) -> str:
    """What a placeholder of the template stands for; see above."""
    have: dict[str, Any] = found if kind in ("rsum", "diff") else models
    if any(name not in have for name in names):
        return "(not run yet)"
    results = [have[name] for name in names]
    if kind == "rsum":
        return _shown(np.mean([r["rsum"] for r in results[0]]))
    if kind == "minutes":
        return _shown(results[0]["cpu_minutes"], 0)
    if kind == "weights":
        return ", ".join(f"{_shown(rsum)} at {weight}" for weight, rsum in results[0]["by_weight"].items())
    if kind == "plain_r1":
        return " and ".join(_shown(results[0]["plain"][way]["r1"]) for way in ("i2t", "t2i"))
    if kind in ("model", "plain"):
        return _shown(results[0]["metrics" if kind == "model" else "plain"]["rsum"])
    d = difference([(1.0, results[0]), (-1.0, results[1])], pooled)
    return f"{_signed(d.value)} ({_signed(d.low)} … {_signed(d.high)})"


def _shown(value: float, digits: int = 1, sign: str = "") -> str:
    """Rounded to nine digits first: a mean that lies between two shown numbers gives the same one on every processor."""
    return f"{round(float(value), 9):{sign}.{digits}f}"


def _signed(value: float) -> str:
    return _shown(value, sign="+")


def _claims(study: Study, found: dict[str, Any], pooled: float) -> list[str]:
    lines = ["| paper | claim | difference of rsum | 95 % interval | seeds | verdict |", "|---|---|---|---|---|---|"]
    for claim in study.content["claims"]:
        lines.append("| " + " | ".join(_claim(claim, found, pooled)) + " |")
    return lines


def _claim(claim: dict[str, Any], found: dict[str, Any], pooled: float) -> list[str]:
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
        return [
            claim["paper"],
            title,
            _signed(d.value),
            f"{_signed(d.low)} … {_signed(d.high)}",
            seeds,
            verdict,
        ]
    sides = [(1.0, found[claim["better"]]), (-1.0, found[claim["than"]])]
    if "beyond" in claim:
        sides += [(-1.0, found[claim["beyond"][0]]), (1.0, found[claim["beyond"][1]])]
    d = difference(sides, pooled)
    return [
        claim["paper"],
        title,
        _signed(d.value),
        f"{_signed(d.low)} … {_signed(d.high)}",
        seeds,
        d.verdict,
    ]


def _runs(found: dict[str, Any]) -> list[str]:
    lines = ["| run | what | features | i→t R@1 | R@5 | R@10 | t→i R@1 | R@5 | R@10 | rsum | seeds | CPU-min | MiB |"]
    lines.append("|" + "---|" * 13)
    for name, results in sorted(found.items(), key=lambda item: -float(np.mean([r["rsum"] for r in item[1]]))):
        cells = [_shown(np.mean([r[way][k] for r in results])) for way in ("i2t", "t2i") for k in ("r1", "r5", "r10")]
        rsum = [r["rsum"] for r in results]
        spread = f" ± {_shown(np.std(rsum, ddof=1))}" if len(rsum) > 1 else ""
        minutes = _shown(np.mean([r["cpu_seconds"] for r in results]) / 60)
        memory = f"{max(r['peak_mib'] for r in results)}"
        what = [
            f"`{name}`",
            results[0]["about"],
            results[0]["features"],
            *cells,
            f"**{_shown(np.mean(rsum))}**{spread}",
        ]
        lines.append("| " + " | ".join([*what, str(len(results)), minutes, memory]) + " |")
    return lines


def _read_models(folder: Path) -> dict[str, Any]:
    """The models of recipes/flickr8k.yaml, as studies.models found them."""
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")]
    return {row["row"]: row for row in rows}


def _models(rows: dict[str, Any]) -> list[str]:
    lines = ["| row | what | i→t R@1 | R@5 | R@10 | t→i R@1 | R@5 | R@10 | rsum | without bank | CPU-min |"]
    lines.append("|" + "---|" * 11)
    for row in sorted(rows.values(), key=lambda row: -row["metrics"]["rsum"]):
        metrics = row["metrics"]
        cells = [_shown(metrics[way][k]) for way in ("i2t", "t2i") for k in ("r1", "r5", "r10")]
        low, high = metrics["ci"]["rsum"]
        rsum = f"**{_shown(metrics['rsum'])}** ({_shown(low, 0)}–{_shown(high, 0)})"
        ending = f"{rsum} | {_shown(row['plain']['rsum'])} | {_shown(row['cpu_minutes'])}"
        lines.append(f"| `{row['row']}` | {row['method']} | {' | '.join(cells)} | {ending} |")
    return lines


def _without(best: dict[str, Any]) -> list[str]:
    lines = ["| left out | rsum of the rest | change |", "|---|---|---|"]
    whole = best["metrics"]["rsum"]
    for name, rsum in sorted(best["without"].items(), key=lambda item: item[1]):
        lines.append(f"| `{name}` | {_shown(rsum)} | {_signed(rsum - whole)} |")
    return lines


def _gallery(best: dict[str, Any]) -> list[str]:
    lines = []
    for way, title in (("t2i", "A sentence looks for its picture"), ("i2t", "A picture looks for its captions")):
        lines += [f"### {title}", ""]
        for kind, said in (("right", "The first answer is right"), ("wrong", "The first answer is wrong")):
            lines += [f"{said}:", ""]
            for shown in best["gallery"][way][kind]:
                lines.append(f"- **{shown['query']}** (first right answer at rank {shown['rank']})")
                marks = ("✓" if right else "✗" for right in shown["right"])
                lines += [f"    {n}. {mark} {item}" for n, (mark, item) in enumerate(zip(marks, shown["found"]), 1)]
            lines.append("")
    return lines


def _curves(found: dict[str, Any], docs: Path) -> list[str]:
    shown = []
    for file, (title, names) in CURVES.items():
        series = {name: list(enumerate(mean_curve(found[name]), 1)) for name in names if name in found}
        if len(series) < len(names):
            continue
        _write_svg(docs / "images" / f"{file}.svg", charts.lines(series, "epoch", "rsum"))
        shown.append(f"![{title}](images/{file}.svg)\n\n*{title}: validation rsum after each epoch, mean over seeds.*")
    adopt = [r["adopt"] for r in found.get("ad-pool", []) if "adopt" in r]
    if adopt:
        points = [(float(step), float(k)) for step, k, *_ in adopt[0]]
        _write_svg(docs / "images" / "study-k.svg", charts.lines({"K": points}, "step", "K"))
        shown.append(
            "![K over time](images/study-k.svg)\n\n*How many negatives AdOpt keeps (VSE+2AD, Fig. C-2), seed 0.*"
        )
    return shown


def _write_svg(file: Path, svg: str) -> None:
    """A chart of the report pages as a file of its own: fixed colours, and a white ground for dark pages."""
    svg = svg[svg.index("<svg") : svg.rindex("</svg>") + 6]
    for name, colour in COLOURS.items():
        svg = svg.replace(name, colour)
    opening = svg.index(">") + 1
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    namespace = "" if "xmlns" in svg[:opening] else ' xmlns="http://www.w3.org/2000/svg"'
    write_text(file, svg[:4] + namespace + svg[4:opening] + ground + svg[opening:])
