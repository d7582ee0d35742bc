"""docs/coco.md, made of studies/results/coco-models and studies/results/both.

python -m studies.models --recipe coco --data coco [ROW …]
python -m studies.curve --coco coco
python -m studies.coco
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from vsekit import recipes
from vsekit.files import write_text

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "coco.md"
HEAD = "| i→t R@1 | R@5 | R@10 | t→i R@1 | R@5 | R@10 | rsum |"
RULE = "|---|---|---|---|---|---|---|"
#: VSE++ (Faghri et al. 2018), Table 1 and 2, on 1,000 test pictures at a time; trained on 82,783 to 113,287 pictures.
PUBLISHED = {
    "VSE++ (VGG19, 1C)": ([43.6, 74.8, 84.6], [33.7, 68.8, 81.0]),
    "VSE++ (ResNet-152)": ([58.3, 86.1, 93.3], [43.6, 77.6, 87.8]),
    "VSE++ (ResNet-152, fine-tuned)": ([64.6, 90.0, 95.7], [52.0, 84.3, 92.0]),
}
#: Rows that say how much is data, encoder and method.
MODELS = {"vsepp", "bow", "minilm", "minilm-wide", "best-frozen", "started-wide", "started-wide-crops", "best"}
ENCODERS = {1: "lite0", 2: "lite0 and lite2"}
TOLD = {
    "starter-first": "the first starter: MiniLM, Flickr8k alone",
    "starter-second": "the second: MiniLM, both collections",
    "bow": "a bag of words, a teacher",
    "words": "`words`: MiniLM with learned words beside it, a teacher",
    "student-teachers": "the teachers together",
    "taught": "the passes of `words` with the teachers' scores",
    "student": "`student`: from `words`, with the teachers' scores, and the last half of its image encoders learns",
    "longer": "`longer`: that with two passes more",
    "longer-together": "`longer` and its teachers together",
    "starter-third": "the third starter: the mean of the weights of both, in 8 bits",
    "bow-again": "the bag of words, trained again on another machine, for the next student",
    "words-again": "`words`, trained again likewise",
    "further-teachers": "these two and the third starter together: the next teachers",
    "further": "`further`: from the third starter, taught by it and its teachers, three passes more",
    "further-together": "`further` and all its teachers together",
    "further-together-bank": "the same, with the querybanks of those that have one",
    "starter-fourth": "the fourth starter: the mean of the weights of the third and of `further`, in 8 bits",
    "starter-fourth-bank": "the same, with the querybank that came with it",
    "heads-wide": "`heads-wide`: new heads of 2048 on the fourth's image encoders, which stay as they are, a teacher",
    "heads-bow": "`heads-bow`: a bag of words on them, a teacher",
    "heads-teachers": "these teachers together",
    "heads": "`heads`: the fourth starter's own heads go on, with every caption and these teachers' scores",
    "heads-together": "`heads` and its teachers together",
    "heads-together-bank": "the same, with their querybanks",
    "starter": "the starter in the package: `heads` in 8 bits; plain",
    "starter-bank-192": "the same, with its first querybank: 192 vectors in all directions, fitted to the 8,192 they stand for",
    "starter-bank": "the same, with the querybank that comes with it: 512 in 128 directions, as large, fitted to 24,576",
}
TEXT = """# COCO

Written by `python -m studies.coco` from `studies/results`. COCO's validation split here has 894 pictures of Karpathy's 5,000, with
five captions each, ranked all at once: a little easier than the papers' folds of 1,000. Models are trained on 29,536 pictures with
72,311 captions, a quarter of the papers'; `best` and rows named started begin with the starter, which has learned from Flickr8k's
6,000 as well. Snapshots are chosen on the split they are measured on, so figures lean to the good side. One seed each.

## Models
`python -m studies.models --recipe coco --data coco --precision bf16-mixed`. With a querybank where the row has one; `plain rsum`
is without.

{models}

{papers}

### With fewer pictures
`python -m studies.curve`: the bag of words, plain, with the same twelve passes over the captions of a part of the pictures.

{curve}

{shares}

### With pictures that have no captions
`python -m studies.curve --pictures 7000 --teachers bow bow-adopt`, and with `--alone --pictures 29536 --teachers bow-adopt minilm
--more FOLDER`: the bag of words follows the mean score of two models that were trained on the same captions: on these pictures
alone, and in each batch on as many others, which have no captions. Plain.

{unlabelled}

## One student for several teachers
`python -m studies.starter`: trained on Flickr8k and COCO together, measured on the validation pictures of each,
without a querybank unless it is said.

{both}

{told}

`heads-wide`, `heads-bow` and `heads` were trained twice, and the figures are of the second time, on another machine;
the starter in the package is of the first. Their rsums differ by 0.2 at most.

The features behind these runs were computed with ONNX Runtime, which differed
from torch by at most 7e-6 on 64 pictures of each collection.

Before training on both, `python -m studies.both` looked for pictures that stand twice (cosine ≥ {threshold:g}, as seen from the
mean):
{counted}. Training pictures that stood beside a validation picture and were left out: {left_out}.
"""


def numbers(metrics: dict[str, Any]) -> str:
    values = [metrics[way][key] for way in ("i2t", "t2i") for key in ("r1", "r5", "r10")] + [metrics["rsum"]]
    return " | ".join(f"{value:.1f}" for value in values)


def results(folder: str) -> dict[str, Any]:
    files = sorted((HERE / "results" / folder).glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def models() -> list[str]:
    found = results("coco-models")
    lines = [f"| `coco:ROW` | {HEAD[2:]} plain rsum | CPU-min |", f"|---{RULE}---|---|"]
    for row in recipes.rows("coco"):
        if row.name in found:
            one = found[row.name]
            plain = f"{one['plain']['rsum']:.1f} | {one['cpu_minutes']:.1f}"
            lines.append(f"| `{row.name}`: {row.method} | {numbers(one['metrics'])} | {plain} |")
    for name, sides in PUBLISHED.items():
        values = [value for side in sides for value in side]
        lines.append(f"| published: {name} | " + " | ".join(f"{v:.1f}" for v in [*values, sum(values)]) + " | | |")
    open_rows = [f"`{row.name}`" for row in recipes.rows("coco") if row.name not in found]
    return [*lines, "", f"Not measured yet: {', '.join(open_rows)}." if open_rows else ""]


def papers() -> list[str]:
    """What the papers' own methods make of the same pictures; nothing while a run is missing."""
    found = {name: one["plain"]["rsum"] for name, one in results("coco-models").items()}
    if not found.keys() >= {"vsepp", "vse0", "convsepp", "bow"}:
        return []
    vsepp = found["vsepp"]
    told = [
        "The papers' own methods learn their words from these captions alone, with a GRU, in at most twelve passes (VSE++ has "
        "thirty, over more captions). Plain rsum:",
        f"- Max of hinges (VSE++) is {vsepp - found['vse0']:+.1f} against the sum (VSE0).",
        f"- ConVSE++ is {found['convsepp'] - vsepp:+.1f} against the VSE++ it starts from.",
        f"- A bag of words with InfoNCE and two-layer heads is {found['bow'] - vsepp:+.1f} against VSE++, at a tenth of its cost.",
    ]
    if "ad_pool" in found:
        told.append(
            f"- VSE+2AD has {found['ad_pool']:.1f}, with a quarter of its paper's size, on the smaller of the two encoders."
        )
    if {"ad_pool", "scan"} <= found.keys():
        told.append(
            f"- SCAN, at the same size on the same places, with a caption a picture an epoch, has {found['scan']:.1f} "
            f"({found['scan'] - found['ad_pool']:+.1f})."
        )
    if {"scan", "scan-aoq", "scan-rate", "vsrn"} <= found.keys():
        told.append(
            f"- AOQ changes SCAN by {found['scan-aoq'] - found['scan']:+.1f}, by the lists of VSRN ({found['vsrn']:.1f} without "
            f"its caption branch). It is its rate, 2.5 times SCAN's as in the paper: at that rate SCAN with max of hinges has "
            f"{found['scan-rate']:.1f} after as many epochs, and {found['scan-aoq'] - found['scan-rate']:+.1f} is the loss's."
        )
    if "dual_path" in found:
        told.append(
            f"- Dual-path, with a bag of words and a class for each of the 29,536 pictures, has {found['dual_path']:.1f}."
        )
    return [told[0], "", *told[1:]]


def curve() -> list[str]:
    """The rows of studies.curve, by their number of pictures, and the whole row of `models`."""
    lines = [f"| pictures | captions | encoders | {HEAD[2:]} CPU-min |", f"|---|---|---{RULE}---|"]
    parts = [one for one in results("coco-curve").values() if one["row"] == "bow" and not taught_by(one)]
    for one in sorted(parts, key=lambda one: (-one["encoders"], one["pictures"])):
        told = f"{one['pictures']:,} | {one['captions']:,} | {ENCODERS[one['encoders']]} | {numbers(one['metrics'])}"
        lines.append(f"| {told} | {one['cpu_minutes']:.1f} |")
    whole = results("coco-models")["bow"]
    told = f"29,536 | 72,311 | {ENCODERS[2]} | {numbers(whole['plain'])} | {whole['cpu_minutes']:.1f}"
    return [*lines, f"| {told} |"]


def taught_by(one: dict[str, Any]) -> bool:
    return one.get("how", "").endswith(("taught", "unlabelled"))


def unlabelled() -> list[str]:
    """Students of teachers with the same captioned pictures, without and with others that have no captions."""
    found = results("coco-curve")
    students = [one for one in found.values() if taught_by(one)]
    if not students:
        return []
    lines = [f"| | encoders | captioned | without captions | {HEAD[2:]} CPU-min |", f"|---|---|---|---{RULE}---|"]
    said = {"": "alone", "taught": "taught", "unlabelled": "taught, and by what the teachers say of the others"}
    kinds = {(one["pictures"], one["encoders"]) for one in students}
    rows = {one["row"] for one in students}
    shown = [one for one in found.values() if (one["pictures"], one["encoders"]) in kinds]
    for one in sorted(shown, key=lambda one: (one["pictures"], one["row"] in rows, one["metrics"]["rsum"])):
        told = f"`{one['row']}`, {said[one.get('how', '').removeprefix('alone').lstrip('-')]} | {ENCODERS[one['encoders']]}"
        told += f" | {one['pictures']:,} | {one.get('without_captions', 0):,}"
        lines.append(f"| {told} | {numbers(one['metrics'])} | {one['cpu_minutes']:.1f} |")
    gains = [_gain(found, count, f"bow-{part}{{}}{count}") for count, part in ((7000, ""), (29536, "alone-"))]
    if all(gains):
        more = results("coco-models")["bow"]["plain"]["rsum"] - found["bow-7000"]["metrics"]["rsum"]
        lines += [
            "",
            f"{' '.join(gains)} So pictures without captions add less than another seed changes. The captions of those beside "
            f"7,000, where they may be read, add {more:+.1f}. The encoders are frozen; teachers that know no more than the "
            "student's own captions have little to say of other pictures.",
        ]
    return lines


def _gain(found: dict[str, Any], count: int, name: str) -> str:
    """What a student gains from its teachers, and from pictures without captions; nothing while a run is missing."""
    names = [name.format(how) for how in ("", "taught-", "unlabelled-")]
    if not found.keys() >= set(names):
        return ""
    alone, taught, others = (found[name]["metrics"]["rsum"] for name in names)
    return (
        f"With {count:,} captioned pictures the teachers' scores add {taught - alone:+.1f}, and what they say of "
        f"{found[names[-1]]['without_captions']:,} others {others - taught:+.1f}."
    )


def shares() -> list[str]:
    """How much is data, encoder and method, of plain scores; nothing while a run is missing."""
    part, found = results("coco-curve"), results("coco-models")
    if not {"bow-15000", "bow-alone-29536"} <= part.keys() or not found.keys() >= MODELS:
        return []
    plain = {name: found[name]["plain"]["rsum"] for name in MODELS}
    half, alone = (part[name]["metrics"]["rsum"] for name in ("bow-15000", "bow-alone-29536"))
    steps = [
        ("data", "29,536 pictures for 15,000 (a bag of words)", plain["bow"] - half),
        ("encoder", "a second encoder, lite2 (a bag of words)", plain["bow"] - alone),
        ("encoder", "MiniLM for a bag of words", plain["minilm"] - plain["bow"]),
        ("encoder, views", "the starter's encoders, whose last halves learned, and ten crops of what is measured (`-wide`)",
         plain["started-wide"] - plain["minilm-wide"]),
        ("views", "three crops of each training picture (`started-wide`)", plain["started-wide-crops"] - plain["started-wide"]),
        ("method", "a bag of words with InfoNCE for VSE++", plain["bow"] - plain["vsepp"]),
        ("method", "five models averaged, on frozen encoders", plain["best-frozen"] - plain["minilm"]),
        ("method", "three models averaged, on the starter's encoders", plain["best"] - plain["started-wide-crops"]),
    ]  # fmt: skip
    return [
        "What each step adds to the rsum, plain, one seed each. The papers have three to four times these pictures and a larger "
        "network.",
        "",
        "| | step | rsum |",
        "|---|---|---|",
        *(f"| {kind} | {step} | {more:+.1f} |" for kind, step, more in steps),
    ]


def both() -> list[str]:
    found, lines = results("both"), []
    for collection, title in (("flickr8k", "Flickr8k, 1,000 pictures"), ("coco", "COCO, 894 pictures")):
        lines += [f"### {title}", "", f"| | {HEAD[2:]}", f"|---{RULE}"]
        lines += [f"| {said} | {numbers(found[name][collection])} |" for name, said in TOLD.items() if name in found]
        lines.append("")
    return lines


def clean() -> str:
    """What there is without MiniLM, whose own training read captions of both collections' kind."""
    found = results("both")
    frozen, tuned = (
        " and ".join(f"{found[run][collection]['rsum']:.1f}" for collection in ("flickr8k", "coco"))
        for run in ("bow", "heads-bow")
    )
    return (
        f"Without MiniLM, which was trained on captions of such pictures too, the bag of words has {frozen} (Flickr8k and COCO) "
        f"on image encoders as pip brings them, and `heads-bow` {tuned} on those of the starter, which learned beside MiniLM. "
        "Encoders that learned without it were not tried."
    )


def unmeasured() -> str:
    """The runs of studies/starter.yaml without a result."""
    study = yaml.safe_load((HERE / "starter.yaml").read_text(encoding="utf-8"))
    names = [*study.pop("teachers"), *(name for name in study if name != "means")]
    missing = [f"`{name}` ({TOLD[name]})" for name in names if name not in results("both")]
    return f"Of studies/starter.yaml not measured yet: {', '.join(missing)}." if missing else ""


def taught() -> str:
    """What the teachers' scores add, where the same passes without them were measured."""
    found = results("both")
    if not {"taught", "words"} <= found.keys():
        return "What distillation adds is not shown: `taught` and `words`, the same passes without it, were not both run yet."
    more = [found["taught"][name]["rsum"] - found["words"][name]["rsum"] for name in ("flickr8k", "coco")]
    return (
        f"Where the encoders stay frozen, the teachers' scores add {more[0]:+.1f} on Flickr8k and {more[1]:+.1f} on COCO to the "
        "same passes without them; another seed changes the rsum by a standard deviation of 4.6 in [the study](study.md)."
    )


def everyday() -> str:
    """What a person counted on the contact sheets of `studies.everyday`."""
    judged = json.loads((HERE / "results" / "everyday.json").read_text(encoding="utf-8"))
    second, before, after = (judged["right"][name] for name in ("starter-second", "starter-third", "starter"))
    moved = [sum(a > b for a, b in pairs) for pairs in (list(zip(after, before)), list(zip(before, after)))]
    return (
        f"Looked at, there is no difference: of the {judged['best']} best pictures of {len(after)} everyday queries "
        "(`python -m studies.everyday`, both validation splits as one album), one person called "
        f"{sum(second)} right with the second starter, {sum(before)} with the third and {sum(after)} with the one in the "
        f"package ({sum(judged['right']['starter-bank-192'])} with its first querybank); from the third to it {moved[0]} queries "
        f"have more right ones, {moved[1]} fewer. None of them knows a "
        "wedding, a glass of wine or a campfire from what looks like one."
    )


def page() -> str:
    twice = results("both")["duplicates"]
    counted = "; ".join(f"{pairs}: {n}" for pairs, n in twice["pairs"].items())
    return TEXT.format(
        models="\n".join(models()).rstrip(),
        papers="\n".join(papers()),
        curve="\n".join(curve()),
        shares="\n".join(shares()),
        unlabelled="\n".join(unlabelled()) or "Not measured yet.",
        both="\n".join(both()).rstrip(),
        told="\n\n".join(filter(None, (unmeasured(), clean(), taught(), everyday()))),
        threshold=twice["threshold"],
        counted=counted,
        left_out=len(twice["left_out"]),
    )


def main() -> None:
    write_text(PAGE, page())


if __name__ == "__main__":
    main()
