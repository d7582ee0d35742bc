"""Discriminative words, by leaving one out (dual-path, Sec. 5.5, Fig. 11).

The picture stays; each word of the caption is removed in turn. How far the score falls says how much the word matters:

    drop(w) = s(picture, caption) − s(picture, caption without w)
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import torch

from vsekit.data.text import Ragged
from vsekit.models.embed import embed_captions
from vsekit.models.model import VSE

MARKED = 3  # words the paper prints in red


@dataclass(frozen=True)
class Words:
    """words: of the caption, split at spaces; drops: what the score loses without each. score: of the whole caption."""

    words: list[str]
    drops: list[float]
    score: float

    @property
    def top(self) -> set[int]:
        """Places of the words that matter most."""
        order = sorted(range(len(self.words)), key=lambda i: -self.drops[i])
        return {i for i in order[:MARKED] if self.drops[i] > 0}


@torch.inference_mode()
def discriminative_words(model: VSE, image: Any, text: str) -> Words:
    """Args: image: the embedding of one picture, (1, D), or `Sets` of (1, N, D); text: a caption."""
    words = text.split()
    texts = [text, *(" ".join(words[:i] + words[i + 1 :]) for i in range(len(words)))]
    scores = model.similarity(image, embed_captions(model, Ragged.of(model.tokenizer(texts))))[0].tolist()
    return Words(words, [scores[0] - without for without in scores[1:]], scores[0])


def draw_words(found: Words) -> str:
    """The caption, each word as deep in colour as its removal costs; the three that matter most are bold."""
    deepest = max([*found.drops, 1e-9])
    marked = []
    for i, (word, drop) in enumerate(zip(found.words, found.drops)):
        share = round(100 * max(drop, 0) / deepest)
        tag = "b" if i in found.top else "span"
        colour = f"color-mix(in srgb,var(--two) {share // 2}%,transparent)"
        marked.append(f'<{tag} title="{drop:+.3f}" style="background:{colour}">{escape(word)}</{tag}>')
    return f'<p class="words">{" ".join(marked)}</p>'
