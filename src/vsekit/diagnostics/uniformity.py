"""Alignment and uniformity: do right pairs meet, and do all others spread?

On scores, as VSE+2AD defines them (Zhang et al. 2023, Sec. 3.3; both grow, up to 1, as its K falls):

    γ_align = E[s(t, v)] over right pairs            γ_uniform = log E[exp s(t, v)] over all pairs

On the unit sphere, as Wang & Isola define them (ICML 2020; lower is better for both):

    align = E‖v − t‖² over right pairs               uniform = log E[exp(−2‖x − x′‖²)] over pairs of one side
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsekit.diagnostics.scores import ROWS

SAMPLE = 2000  # vectors of a side whose distances to each other are taken


@dataclass(frozen=True)
class Uniformity:
    """gamma_*: VSE+2AD's, of any similarity; the others Wang & Isola's, None where embeddings are not unit vectors."""

    gamma_align: float
    gamma_uniform: float
    align: float | None = None
    uniform_images: float | None = None
    uniform_captions: float | None = None


def gammas(scores: np.ndarray, image_groups: np.ndarray, caption_groups: np.ndarray) -> tuple[float, float]:
    """γ_align and γ_uniform of scores (n_images, n_captions)."""
    total = pairs = powers = 0.0
    top = float(scores.max())  # taken out of the sum of exponentials, which would overflow for large inner products
    for start in range(0, len(scores), ROWS):
        rows = scores[start : start + ROWS].astype(np.float64)
        own = image_groups[start : start + ROWS, None] == caption_groups
        total, pairs = total + rows[own].sum(), pairs + own.sum()
        powers += np.exp(rows - top).sum()
    return float(total / pairs), top + float(np.log(powers / scores.size))


def on_sphere(vectors: np.ndarray) -> bool:
    return vectors.ndim == 2 and bool(np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3))


def uniform(vectors: np.ndarray) -> float | None:
    """Wang & Isola's uniformity of unit vectors (n, D), evenly spread `SAMPLE` of them; None of fewer than two."""
    chosen = vectors[np.linspace(0, len(vectors) - 1, min(len(vectors), SAMPLE)).astype(int)].astype(np.float64)
    if len(chosen) < 2:
        return None
    squares = np.maximum(2 - 2 * (chosen @ chosen.T), 0)[np.triu_indices(len(chosen), 1)]
    return float(np.log(np.exp(-2 * squares).mean()))


def alignment_uniformity(
    scores: np.ndarray,
    image_groups: np.ndarray,
    caption_groups: np.ndarray,
    vectors: tuple[np.ndarray, np.ndarray] | None = None,
) -> Uniformity:
    """All of them.

    Args:
        scores: (n_images, n_captions); groups: as everywhere.
        vectors: embeddings (n_images, D) and (n_captions, D), for Wang & Isola's.
    """
    gamma = gammas(scores, image_groups, caption_groups)
    if vectors is None or not all(on_sphere(side) for side in vectors):
        return Uniformity(*gamma)
    cosines = np.concatenate(
        [captions @ image for image, captions in zip(vectors[0], _own(vectors[1], image_groups, caption_groups))]
    )
    return Uniformity(*gamma, float((2 - 2 * cosines).mean()), uniform(vectors[0]), uniform(vectors[1]))


def _own(captions: np.ndarray, image_groups: np.ndarray, caption_groups: np.ndarray) -> list[np.ndarray]:
    order = np.argsort(caption_groups, kind="stable")
    ends = [np.searchsorted(caption_groups[order], image_groups, side=side) for side in ("left", "right")]
    return [captions[order[a:b]] for a, b in zip(*ends)]
