"""docs/study.md and its charts, from a study's result files alone.

In the template, `<!-- name -->` is a table or chart; `{{rsum RUN}}` is the mean rsum of a run of the matrix and `{{diff A B}}` the
difference of two with its interval; `{{long_rsum RUN}}` and `{{long_diff A B}}` are of runs at convergence, `{{cnn_rsum RUN}}` of
the text CNN on scenes. Of a row of the recipe, `{{minutes ROW}}` are the CPU-minutes, `{{model ROW}}` is the rsum,
`{{plain ROW}}` that without querybanks (`{{plain_r1 ROW}}`: R@1 both ways), and `{{weights ROW}}` lists it with other weights of
the bank.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from studies.claims import difference, mean_curve, seed_variance
from studies.matrix import Study
from studies.verdicts import claims_table, converged_table, shown, signed
from vsekit.drawing import charts
from vsekit.files import write_text

HERE = Path(__file__).parent
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
#: The same, of the runs at convergence.
LONG_CURVES = {
    "study-long-hinges": ("Sum against max of hinges at VSE++'s own settings", ["vsepp", "sh", "vse0"]),
}


def render(study: Study, docs: Path) -> None:
    """Writes docs/study.md and docs/images/study-*.svg."""
    found = study.found()
    converged, text_cnn = (
        Study(HERE / f"{name}.yaml", study.results.parent / name, study.work) for name in ("converged", "text_cnn")
    )
    text, long, scenes = (HERE / "flickr8k.md").read_text(encoding="utf-8"), converged.found(), text_cnn.found()
    models = _read_models(study.results.parent / "flickr8k-models")
    pooled = seed_variance(list(found.values()))
    filled = {
        "claims": "\n".join(claims_table(study, found, pooled)),
        "converged": "\n".join(converged_table(study, converged, pooled)),
        "probe": "\n".join(_probe(study.results.parent / "text_cnn-probe")),
        "converged_runs": "\n".join(_runs(long)),
        "converged_curves": "\n\n".join(_charts(LONG_CURVES, long, docs)),
        "text_cnn": "\n".join(_runs(scenes)),
        "runs": "\n".join(_runs(found)),
        "footing": "\n".join(_runs({name: found[name] for name in study.content["footing"] if name in found})),
        "curves": "\n\n".join(_curves(found, docs)),
        "finished": f"{sum(map(len, found.values()))} of {len(study.runs)}",
        "cpu_hours": shown(sum(r["cpu_seconds"] for results in found.values() for r in results) / 3600),
        "models": "\n".join(_models(models)),
        "without": "\n".join(_without(models["best"])) if "best" in models else "",
        "gallery": "\n".join(_gallery(models["best"])) if "best" in models else "",
        "seed_sd": shown(pooled**0.5),
    }
    for key, value in filled.items():
        text = text.replace(f"<!-- {key} -->", value)

    def number(match: re.Match[str]) -> str:
        prefix, of = next(
            (prefix, of)
            for prefix, of in {"long_": long, "cnn_": scenes, "": found}.items()
            if match[1].startswith(prefix)
        )
        return _number(match[1].removeprefix(prefix), match[2].split(), of, models, pooled)

    text = re.sub(r"\{\{(\w+) ([^}]+)\}\}", number, text)
    write_text(docs / "study.md", text)


def _number(kind: str, names: list[str], found: dict[str, Any], models: dict[str, Any], pooled: float) -> str:
    """What a placeholder of the template stands for; see above."""
    have: dict[str, Any] = found if kind in ("rsum", "diff") else models
    if any(name not in have for name in names):
        return "(not run yet)"
    results = [have[name] for name in names]
    if kind == "rsum":
        return shown(np.mean([r["rsum"] for r in results[0]]))
    if kind == "minutes":
        return shown(results[0]["cpu_minutes"], 0)
    if kind == "weights":
        return ", ".join(f"{shown(rsum)} at {weight}" for weight, rsum in results[0]["by_weight"].items())
    if kind == "plain_r1":
        return " and ".join(shown(results[0]["plain"][way]["r1"]) for way in ("i2t", "t2i"))
    if kind in ("model", "plain"):
        return shown(results[0]["metrics" if kind == "model" else "plain"]["rsum"])
    d = difference([(1.0, results[0]), (-1.0, results[1])], pooled)
    return f"{signed(d.value)} ({signed(d.low)} … {signed(d.high)})"


def _runs(found: dict[str, Any]) -> list[str]:
    lines = ["| run | what | features | i→t R@1 | R@5 | R@10 | t→i R@1 | R@5 | R@10 | rsum | seeds | CPU-min | MiB |"]
    lines.append("|" + "---|" * 13)
    for name, results in sorted(found.items(), key=lambda item: -float(np.mean([r["rsum"] for r in item[1]]))):
        cells = [shown(np.mean([r[way][k] for r in results])) for way in ("i2t", "t2i") for k in ("r1", "r5", "r10")]
        rsum = [r["rsum"] for r in results]
        spread = f" ± {shown(np.std(rsum, ddof=1))}" if len(rsum) > 1 else ""
        minutes = shown(np.mean([r["cpu_seconds"] for r in results]) / 60)
        memory = f"{max(r['peak_mib'] for r in results)}"
        what = [
            f"`{name}`",
            results[0]["about"],
            results[0]["features"],
            *cells,
            f"**{shown(np.mean(rsum))}**{spread}",
        ]
        lines.append("| " + " | ".join([*what, str(len(results)), minutes, memory]) + " |")
    return lines


def _probe(folder: Path) -> list[str]:
    lines = ["| sentences of | what they say | where they stand | nearest to itself elsewhere | left-aligned: length |"]
    lines.append("|" + "---|" * 5)
    for file in sorted(folder.glob("*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        cells = [found[key] for key in ("words", "place", "found_again", "length_when_left")]
        lines.append(f"| {file.stem} | " + " | ".join(f"{shown(100 * cell, 0)} %" for cell in cells) + " |")
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
        cells = [shown(metrics[way][k]) for way in ("i2t", "t2i") for k in ("r1", "r5", "r10")]
        low, high = metrics["ci"]["rsum"]
        rsum = f"**{shown(metrics['rsum'])}** ({shown(low, 0)}–{shown(high, 0)})"
        ending = f"{rsum} | {shown(row['plain']['rsum'])} | {shown(row['cpu_minutes'])}"
        lines.append(f"| `{row['row']}` | {row['method']} | {' | '.join(cells)} | {ending} |")
    return lines


def _without(best: dict[str, Any]) -> list[str]:
    lines = ["| left out | rsum of the rest | change |", "|---|---|---|"]
    whole = best["metrics"]["rsum"]
    for name, rsum in sorted(best["without"].items(), key=lambda item: item[1]):
        lines.append(f"| `{name}` | {shown(rsum)} | {signed(rsum - whole)} |")
    return lines


def _gallery(best: dict[str, Any]) -> list[str]:
    lines = []
    for way, title in (("t2i", "A sentence looks for its picture"), ("i2t", "A picture looks for its captions")):
        lines += [f"### {title}", ""]
        for kind, said in (("right", "The first answer is right"), ("wrong", "The first answer is wrong")):
            lines += [f"{said}:", ""]
            for answer in best["gallery"][way][kind]:
                lines.append(f"- **{answer['query']}** (first right answer at rank {answer['rank']})")
                marks = ("✓" if right else "✗" for right in answer["right"])
                lines += [f"    {n}. {mark} {item}" for n, (mark, item) in enumerate(zip(marks, answer["found"]), 1)]
            lines.append("")
    return lines


def _curves(found: dict[str, Any], docs: Path) -> list[str]:
    blocks = _charts(CURVES, found, docs)
    adopt = [r["adopt"] for r in found.get("ad-pool", []) if "adopt" in r]
    if adopt:
        points = [(float(step), float(k)) for step, k, *_ in adopt[0]]
        _write_svg(docs / "images" / "study-k.svg", charts.lines({"K": points}, "step", "K"))
        blocks.append(
            "![K over time](images/study-k.svg)\n\n*How many negatives AdOpt keeps (VSE+2AD, Fig. C-2), seed 0.*"
        )
    return blocks


def _charts(wanted: dict[str, tuple[str, list[str]]], found: dict[str, Any], docs: Path) -> list[str]:
    """Those whose runs are all there, one line a configuration."""
    blocks = []
    for file, (title, names) in wanted.items():
        series = {name: list(enumerate(mean_curve(found[name]), 1)) for name in names if name in found}
        if len(series) < len(names):
            continue
        _write_svg(docs / "images" / f"{file}.svg", charts.lines(series, "epoch", "rsum"))
        blocks.append(f"![{title}](images/{file}.svg)\n\n*{title}: validation rsum after each epoch, mean over seeds.*")
    return blocks


def _write_svg(file: Path, svg: str) -> None:
    """A chart of the report pages as a file of its own: fixed colours, and a white ground for dark pages."""
    svg = svg[svg.index("<svg") : svg.rindex("</svg>") + 6]
    for name, colour in COLOURS.items():
        svg = svg.replace(name, colour)
    opening = svg.index(">") + 1
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    namespace = "" if "xmlns" in svg[:opening] else ' xmlns="http://www.w3.org/2000/svg"'
    write_text(file, svg[:4] + namespace + svg[4:opening] + ground + svg[opening:])
