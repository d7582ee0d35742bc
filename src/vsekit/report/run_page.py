"""The page of a run's report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from PIL import Image

from vsekit.data.decoding import PictureError
from vsekit.data.views import crops, resized
from vsekit.diagnostics.attention import draw_attention
from vsekit.diagnostics.correlation import draw_correlation
from vsekit.diagnostics.cross_retrieval import draw_cross_retrieval
from vsekit.diagnostics.curves import draw_curves
from vsekit.diagnostics.galleries import Gallery, Retrieval
from vsekit.diagnostics.overlap import draw_overlap
from vsekit.diagnostics.words import draw_words
from vsekit.drawing.page import (
    beside,
    cards,
    charts,
    folded,
    heading,
    listed,
    note,
    page,
    paragraph,
    query,
    row,
    section,
    shown,
    table,
    tiles,
    versus,
)
from vsekit.evaluation.metrics import Metrics
from vsekit.version import __version__

if TYPE_CHECKING:
    from vsekit.report.run import RunReport

NAMES = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "medr": "Med r", "meanr": "Mean r"}


def run_page(report: RunReport) -> str:
    """The HTML of a report."""
    pairs = report.pairs
    sections = [
        _headline(report),
        section("Training", charts(*draw_curves(report.curves))) if report.curves else "",
        _text_queries(report),
        _image_queries(report),
        _confusions(report),
        _measures(report),
        _explanations(report),
        section("Settings", folded("config.yaml", report.config)) if report.config else "",
        note(f"Made by vsekit {__version__}."),
    ]
    sample = f" (evenly spread over {report.of})" if report.of > len(pairs.pictures) else ""
    lead = f"{len(pairs.pictures)} pictures{sample} and {len(pairs.captions)} captions of {pairs.root.name}"
    return page(f"Report: {report.run.resolve().name}", f"{lead}, {', '.join(pairs.splits)}.", filter(None, sections))


def _headline(report: RunReport) -> str:
    m, chance = report.metrics, report.chance
    cells = []
    for way, name in (("t2i", "of captions find their picture"), ("i2t", "of pictures find a caption of theirs")):
        for k, place in (("r1", "first"), ("r10", "among the first ten")):
            interval = _interval(m, way, k)
            by_chance = f"by chance {getattr(chance, way)[k]:.2g} %"
            remark = f"95 %: {interval}; {by_chance}" if interval else by_chance
            cells.append((f"{getattr(m, way)[k]:.0f} %", f"{name} {place}", remark))
    keys = [key for key in NAMES if key in m.i2t]
    rows: list[Sequence[str]] = []
    main: set[int] = set()
    for way, name in (("i2t", "image → text"), ("t2i", "text → image")):
        main.add(len(rows))
        rows.append((name, *(f"{getattr(m, way)[key]:.1f}" for key in keys)))
        if m.ci is not None:
            rows.append(("95 % interval", *(_interval(m, way, key) for key in keys)))
        rows.append(("by chance", *(f"{getattr(chance, way)[key]:.1f}" for key in keys)))
    interval = f" (95 %: {_interval(m, 'rsum')})" if m.ci is not None else ""
    return section(
        "Results",
        tiles(cells),
        table(("", *(NAMES[key] for key in keys)), rows, main),
        note=f"rsum {m.rsum:.1f}{interval}, by chance {chance.rsum:.1f}. R@K: percentage of queries with a right "
        "answer among the first K. Intervals: bootstrap over pictures with their captions.",
    )


def _interval(metrics: Metrics, way: str, key: str | None = None) -> str:
    if metrics.ci is None:
        return ""
    low, high = metrics.ci[way][key] if key else metrics.ci[way]
    return f"{low:.1f}–{high:.1f}"


def _text_queries(report: RunReport) -> str:
    pairs, found = report.pairs, report.texts

    def answer(r: Retrieval) -> str:
        pictures = (pairs.pictures[p] for p in r.found)
        row_ = row(*(shown(p, f"{s:.2f}", good) for p, s, good in zip(pictures, r.scores, r.right)))
        return query(f"“{pairs.captions[r.query].text}”") + (
            row_ if r.right[0] else note(f"The right picture is number {r.rank}.") + row_
        )

    return section(
        "Pictures for words", *_right_and_wrong(found, answer), note="Numbers: the similarity. Green: right."
    )


def _image_queries(report: RunReport) -> str:
    pairs, found = report.pairs, report.images

    def answer(r: Retrieval) -> str:
        texts = listed((pairs.captions[c].text, good) for c, good in zip(r.found, r.right))
        place = "" if r.right[0] else note(f"The first right caption is number {r.rank}.")
        return beside(shown(pairs.pictures[r.query]), place + texts)

    return section("Words for pictures", *_right_and_wrong(found, answer), note="Green: the picture's own.")


def _right_and_wrong(found: Gallery, answer: Callable[[Retrieval], str]) -> list[str]:
    parts = []
    for title, share, chosen in (("right", found.share, found.right), ("wrong", 1 - found.share, found.wrong)):
        if chosen:
            parts += [heading(f"First answer {title} ({share:.0%})"), *map(answer, chosen)]
    return parts


def _confusions(report: RunReport) -> str:
    pairs, parts = report.pairs, []
    for found in report.confusions:
        caption = pairs.captions[found.caption]
        own = next(
            c.text for c, g in zip(pairs.captions, pairs.caption_groups) if g == pairs.picture_groups[found.picture]
        )
        why = f"{found.score:.2f} with a foreign caption, {found.positive_score:.2f} with its best own"
        left = shown(pairs.pictures[found.picture]) + paragraph(own)
        right = shown(pairs.pictures[caption.picture]) + paragraph(caption.text)
        parts.append(versus(why, left, right))
    text = (
        "Left: a picture and a caption of its own. Right: the foreign caption it prefers most, with its picture. "
        "Some of these are mistakes in the data: vse audit lists them."
    )
    return section("Hardest confusions", note(text), cards(parts)) if parts else ""


def _measures(report: RunReport) -> str:
    o, u = report.overlap, report.uniformity
    spreads = [f"γ_align {u.gamma_align:.3f}, γ_uniform {u.gamma_uniform:.3f} (VSE+2AD, Sec. 3.3)."]
    if u.align is not None:
        values = [f"{x:.2f}" for x in (u.align, u.uniform_images, u.uniform_captions) if x is not None]
        spreads.append(
            f"Alignment, uniformity of images and of captions by Wang & Isola: {', '.join(values)}; lower is better."
        )
    items = [
        heading(f"Overlap of right and wrong pairs: S = {o.overlap:.3f}")
        + draw_overlap(o)
        + note(
            f"0: fully apart; 1: the same. Mean similarity {o.positive_mean:.3f} of {o.n_positive} right pairs, "
            f"{o.negative_mean:.3f} of {o.n_negative} wrong ones. Dual-path, Eq. 10 and Fig. 5."
        ),
        heading(f"Good in both directions: {report.cross_retrieval.shares[0]:.0%}")
        + draw_cross_retrieval(report.cross_retrieval)
        + note("Cross-retrieval rank of right pairs, the worse of their two ranks. AOQ, Fig. 6."),
        heading("Correlation of different pictures")
        + (
            draw_correlation(report.correlation)
            if report.correlation
            else note(f"Not drawn: {report.correlation_missing}.")
        )
        + note("Pearson's r of image features before training and of embeddings after it. Dual-path, Fig. 4."),
        heading("Alignment and uniformity") + "".join(map(note, spreads)),
    ]
    return section("Measures of the common space", charts(*items))


def _explanations(report: RunReport) -> str:
    pairs, parts = report.pairs, []
    for (p, c), words in report.words.items():
        parts.append(beside(shown(pairs.pictures[p]), draw_words(words) + note(f"similarity {words.score:.2f}")))
        if (p, c) in report.attention:
            parts.append(draw_attention(report.attention[p, c], _view(report, p)))
    texts = "The deeper the colour, the more the similarity falls when the word is left out (dual-path, Fig. 11)."
    lights = " Below: where each word looks in the picture." if report.attention else ""
    return section("What words matter", note(texts + lights), *parts)


def _view(report: RunReport, picture: int) -> Image.Image | None:
    """What the encoder saw of a picture; None when there is no picture, or when several views were averaged."""
    item, view = report.pairs.pictures[picture], report.view
    if item.path is None or view.count > 1 or not view.deterministic:
        return None
    try:
        opened = item.open(view.resize)
    except PictureError:  # `shown` says what is wrong
        return None
    return Image.fromarray(crops(resized(opened, view), view)[0].transpose(1, 2, 0))
