"""What dual-path's text CNN needs to learn: single changes on generated scenes, and what it makes of sentences before it learns.

    vse data scenes --train 3000 --val 300 --test 300 --out scenes
    python -m studies.text_cnn --data scenes [RUN …] [--work runs/text_cnn] [--workers 1]
    python -m studies.text_cnn probe COLLECTION …

The matrix is studies/text_cnn.yaml; finished runs are skipped and interrupted ones go on. Each run writes
studies/results/text_cnn/RUN.SEED.json. `probe` takes seconds and writes studies/results/text_cnn-probe/COLLECTION.json.
docs/study.md shows both.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from studies.flickr8k import main
from vsekit.data.readers import read
from vsekit.data.text import Ragged
from vsekit.encoders.text.cnn import TextCNN, TextCNNSettings
from vsekit.files import write_json

PROBED = Path(__file__).parent / "results" / "text_cnn-probe"
#: Validation sentences that are read, one a picture, and how often each, at places drawn anew.
SENTENCES, READINGS = 200, 12


def shares(read_often: Tensor) -> tuple[float, float]:
    """(readings, sentences, d) → the shares of the variance that lie between sentences, and between readings of one."""
    between = read_often.mean(0).var(0, correction=0).sum()
    within = read_often.var(0, correction=0).mean(0).sum()
    return float(between / (between + within)), float(within / (between + within))


def explained(vectors: Tensor, groups: Tensor) -> float:
    """The share of the variance of (n, d) that the means of groups explain."""
    centre = vectors - vectors.mean(0)
    means = torch.stack([centre[groups == group].mean(0) for group in groups.tolist()])
    return float(means.square().sum() / centre.square().sum())


def found_again(once: Tensor, again: Tensor) -> float:
    """How often a sentence is nearest to itself (cosine, from the mean) among those of another reading."""
    a, b = (torch.nn.functional.normalize(side - side.mean(0), dim=1) for side in (once, again))
    return float(((a @ b.T).argmax(1) == torch.arange(len(a))).float().mean())


@torch.no_grad()
def probe(collection: Path) -> dict[str, float]:
    """What the output of the study's CNN depends on before it has learned anything."""
    pairs = read(collection).split("val")
    texts = [pairs.captions[i].text for i in range(0, len(pairs.captions), 5)][:SENTENCES]
    torch.manual_seed(0)
    settings = TextCNNSettings(word_dim=100, slots=24, depth=50, dim=256, min_count=1)
    tokenizer = settings.make_tokenizer(texts)
    tokens = Ragged.of(tokenizer(texts)).batch(range(len(texts)))
    shifted, left = settings.build(tokenizer), settings.model_copy(update={"position": "left"})
    readings = torch.stack([shifted(tokens).vectors[:, 0] for _ in range(READINGS)])
    fixed = TextCNN(left, shifted.words)
    fixed.load_state_dict(shifted.state_dict())
    between, within = shares(readings)
    return {
        "words": between,
        "place": within,
        "length_when_left": explained(fixed(tokens).vectors[:, 0], tokens.lengths),
        "found_again": found_again(readings[0], readings[1]),
        "sentences": len(texts),
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["probe"]:
        for name in map(Path, sys.argv[2:]):
            write_json(PROBED / f"{name.name}.json", probe(name))
    else:
        main("text_cnn", __doc__)
