"""#OIPs of VSE+2AD's Table 4: items (pictures and captions) embedded a second with each aggregator, one thread.

From 36 regions of 2,048 numbers and from captions of twelve words to 1,024-d points, with the parts of rows
vse_2ad:4.*; `oips` is the multiple of the slowest, `published` the paper's. The yardstick is the slowest rate.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from vsekit import recipes
from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.evaluation.throughput import items_per_second, multiples_of_slowest
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings
from vsekit.parts import Sets, Tokens

PICTURES, CAPTIONS, REGIONS, FEATURES, WORDS, LENGTH = 64, 5, 36, 2048, 10_000, 12


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: of the number of pictures, 1 for 64."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        pictures = max(2, round(PICTURES * scale))
        rows = [row for row in recipes.rows("vse_2ad") if row.table == "4"]
        rates = {row.name: _rate(row.settings["model"], pictures) for row in rows}
    finally:
        torch.set_num_threads(threads)
    slowest = min(rates.values())
    return [
        {
            "name": row.name,
            "items_per_s": rates[row.name],
            "yardstick": slowest,
            "oips": multiple,
            "published": row.published["oips"][0],
        }
        for row, multiple in zip(rows, multiples_of_slowest(rates).values())
    ]


def _rate(settings: dict[str, Any], pictures: int) -> float:
    torch.manual_seed(0)
    words, view = Vocabulary(map(str, range(WORDS))), ViewSettings.model_validate("1C")
    model = VSE(ModelSettings.model_validate(settings), words, view, image_dim=FEATURES).eval()
    regions = Sets(torch.randn(pictures, REGIONS, FEATURES), torch.ones(pictures, REGIONS, dtype=torch.bool))
    captions = pictures * CAPTIONS
    tokens = Tokens(torch.randint(4, WORDS, (captions, LENGTH)), torch.full((captions,), LENGTH))

    @torch.inference_mode()
    def embed() -> None:
        model.embed_images(regions)
        model.text(tokens)

    return items_per_second(pictures + captions, embed, clock=time.process_time)
