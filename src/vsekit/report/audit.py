"""The page of an audit: what is likely mislabelled, pictures side by side."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from vsekit.diagnostics.audit import Audit
from vsekit.diagnostics.duplicates import Duplicate
from vsekit.drawing.page import cards, note, page, paragraph, section, shown, tiles, versus
from vsekit.files import write_text

OWN_SHOWN = 3  # own captions under a picture


def write_audit(found: Audit, path: Path, top: int = 100) -> None:
    """Writes the page with the first `top` findings of each kind."""
    write_text(path, audit_page(found, top))


def audit_page(found: Audit, top: int = 100) -> str:
    pairs, s = found.pairs, found.settings
    splits = ", ".join(pairs.splits)
    lead = f"{pairs.root.name}, {splits}: {len(pairs.pictures)} pictures and {len(pairs.captions)} captions."
    labels = ("captions of others fit better", "captions don't fit", "captions stand twice", "pictures look alike")
    cells = [(str(n), label, "") for n, label in zip(found.counts.values(), labels)]
    sections = [
        section(
            "What was found",
            tiles(cells),
            note="These are a model's suspicions, for a person to look at; of a weak model, most are unfounded.",
        ),
        _section(
            "Captions of others that fit better than the picture's own",
            found.counts["false_negatives"],
            [_preferred(found, i) for i in range(len(found.false_negatives[:top]))],
            f"The foreign caption scores more than {s['margin']:g} above the picture's best own one. Either it is true "
            "of both pictures (a false negative: give them one group), or the picture's own captions are wrong.",
        ),
        _section(
            "Captions that don't fit their picture",
            found.counts["low_captions"],
            [_low(found, i) for i in range(len(found.low_captions[:top]))],
            f"The caption scores more than {s['gap']:g} below the median of the picture's other captions.",
        ),
        _section(
            "Captions that stand at different pictures",
            found.counts["duplicate_captions"],
            [_captions(found, d) for d in found.captions[:top]],
            f"The same caption, or {s['jaccard']:.0%} of the words in common.",
        ),
        _section(
            "Pictures that stand twice",
            found.counts["duplicate_pictures"],
            [_pictures(found, d) for d in found.pictures[:top]],
            f"The same file, or a cosine of at least {s['cosine']:g} between the model's embeddings.",
        ),
    ]
    return page("Audit", lead, sections)


def _section(title: str, count: int, items: list[str], text: str) -> str:
    more = [note(f"… and {count - len(items)} more.")] if count > len(items) else []
    return section(f"{title} ({count})", note(text), cards(items), *more)


def _preferred(found: Audit, i: int) -> str:
    f = found.false_negatives[i]
    caption = found.pairs.captions[f.caption]
    more = f"; {f.captions - 1} more captions of others also do" if f.captions > 1 else ""
    why = f"{f.score:.3f} with a caption of another picture, {f.positive_score:.3f} with its best own{more}"
    return versus(why, _with_own(found, f.picture), _with_texts(found, caption.picture, [caption.text], good=True))


def _low(found: Audit, i: int) -> str:
    low = found.low_captions[i]
    own = [c for c in _own(found, low.picture) if c != low.caption][:OWN_SHOWN]
    why = f"{low.score:.3f}; the others have a median of {low.positive_score:.3f}"
    text = note("The caption") + paragraph(found.pairs.captions[low.caption].text)
    return versus(why, _with_texts(found, low.picture, [found.pairs.captions[c].text for c in own]), text)


def _captions(found: Audit, d: Duplicate) -> str:
    both = [found.pairs.captions[i] for i in (d.first, d.second)]
    why = "the same caption" if d.exact else f"words in common: {d.score:.0%}"
    return versus(why, *(_with_texts(found, caption.picture, [caption.text]) for caption in both))


def _pictures(found: Audit, d: Duplicate) -> str:
    why = "the same file" if d.exact else f"cosine {d.score:.3f}"
    return versus(why, *(_with_own(found, picture) for picture in (d.first, d.second)))


def _own(found: Audit, picture: int) -> Iterable[int]:
    """Captions of the picture's group."""
    return np.flatnonzero(found.pairs.caption_groups == found.pairs.picture_groups[picture]).tolist()


def _with_own(found: Audit, picture: int) -> str:
    own = list(_own(found, picture))[:OWN_SHOWN]
    return _with_texts(found, picture, [found.pairs.captions[c].text for c in own])


def _with_texts(found: Audit, picture: int, texts: list[str], good: bool = False) -> str:
    item = found.pairs.pictures[picture]
    return shown(item, item.id) + "".join(paragraph(text, good) for text in texts)
