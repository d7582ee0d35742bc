"""A line on what a row is, made of its settings, so that rows can be told apart and found by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from vsekit.recipes import Row, find, names, paper, rows
from vsekit.recipes.datasets import dataset

#: What people call the losses, beside the papers' names.
LOSSES = {
    "max_of_hinges": "hard negatives (max of hinges)",
    "sum_of_hinges": "all negatives (sum of hinges)",
    "sum_to_max": "a curriculum from all negatives to hard negatives",
    "info_nce": "contrastive (InfoNCE)",
    "max_of_negatives": "contrastive with hard negatives (ConVSE++)",
    "mvn": "contrastive (ConVSE)",
    "instance": "instance loss",
    "offline_triplet": "offline hard negatives (triplets)",
    "offline_quintuplet": "offline hard negatives (quintuplets)",
    "adaptive_offline_quintuplet": "offline hard negatives (adaptive quintuplets)",
    "adaptive_objective": "adaptive objective (AdOpt)",
}
#: "VSE++" is one word, and so is "1.11"; "max_of_hinges" is three.
_TOKEN = re.compile(r"\d+(?:\.\d+)+|[^\W_]+\+*")


def description(row: Row) -> str:
    """One line: pictures, words, similarity and losses; for an ensemble, whose scores are averaged."""
    if row.ensemble:
        members = [find(f"{row.recipe}:{name}") for name in row.ensemble]
        losses = list(dict.fromkeys(_losses(member) for member in members))
        return f"{_title(row)}: the scores of {', '.join(row.ensemble)} averaged; {' or '.join(losses)}"
    model = row.settings["model"]
    parts = [f"pictures by {_encoder(model['image'])}", f"words by {_encoder(model['text'])}"]
    parts += [f"{_kind(model.get('similarity', 'cosine')).replace('_', ' ')} similarity", _losses(row)]
    return f"{_title(row)}: {', '.join(parts)}"


def _title(row: Row) -> str:
    note = f" ({row.note})" if row.note else ""
    return f"{row.method} {row.trainset}".strip() + note


def _encoder(tower: dict[str, Any]) -> str:
    encoder = tower["encoder"]
    if _kind(encoder) == "several":
        return " + ".join(_encoder({"encoder": member}) for member in encoder["members"])
    name = "" if isinstance(encoder, str) else encoder.get("model") or encoder.get("version", "")
    words = _kind(encoder).replace("_", " ")
    return f"{words} {name}".strip()


def _losses(row: Row) -> str:
    return " then ".join(dict.fromkeys(_loss(stage["loss"]) for stage in row.settings["stages"].values()))


def _loss(loss: Any) -> str:
    kind = _kind(loss)
    inner = [] if isinstance(loss, str) else [_loss(part) for part in _inside(loss)]
    return " + ".join(inner) or LOSSES.get(kind, kind.replace("_", " "))


def _inside(loss: dict[str, Any]) -> list[Any]:
    """The losses a loss is made of."""
    found: list[Any] = []
    for value in loss.values():
        some = value if isinstance(value, list) else value.values() if isinstance(value, dict) else []
        found += [value] if isinstance(value, dict) and "kind" in value else []
        found += [part for part in some if isinstance(part, dict) and "kind" in part]
        found += [part["loss"] for part in some if isinstance(part, dict) and "loss" in part]
    return found


def _kind(part: Any) -> str:
    return part if isinstance(part, str) else str(part["kind"])


def search(words: Sequence[str] = (), recipe: str | None = None, collection: str | None = None) -> list[Row]:
    """Rows that hold every word somewhere: in their name, method, note, dataset, description, or the paper's title.

    Args:
        words: whole words or their beginnings, whatever their case. The name of a recipe alone means all of its rows.
        recipe: only this paper's.
        collection: only rows of this dataset.
    """
    if len(words) == 1 and words[0] in names() and recipe is None:
        recipe, words = words[0], ()
    return [
        row
        for row in rows(recipe)
        if (collection is None or collection.lower() in (dataset(row).lower(), row.dataset.lower()))
        and _holds(row, words)
    ]


def _holds(row: Row, words: Sequence[str]) -> bool:
    text = " ".join([row.id, f"table {row.table}", row.dataset, row.needs, description(row), paper(row.recipe)])
    there = set(_tokens(text))
    return all(any(token.startswith(word) for token in there) for word in _tokens(" ".join(words)))


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())
