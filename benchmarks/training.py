"""Pairs a second of `vsekit.training.loop.train` itself, VSE++ at the paper's sizes on precomputed features.

300-d words, 1,024-d GRU and space, batch 128, 1,280-d features, captions of Flickr8k's lengths. The yardstick is the
same step without any loop around it (`benchmarks.gru`, which in turn is measured beside its bare matrix products), so
the ratio says what reading batches, logging, watching and checkpoints cost. Where the processor multiplies 16-bit numbers,
the same with mixed precision beside 32 bits.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks import gru
from vsekit.data.pairs import Caption, Pairs, Picture
from vsekit.data.text import Vocabulary
from vsekit.recipes import load_settings, merged
from vsekit.training.loop import train
from vsekit.training.settings import RunSettings

CAPTIONS = 5


def collection(pictures: int) -> Pairs:
    """Random features with captions of made-up words, as long and as repetitive as Flickr8k's."""
    generator = np.random.default_rng(0)
    batches = gru.captions(-(-pictures * CAPTIONS // gru.BATCH))
    sentences = [row[1 : n - 1] for tokens in batches for row, n in zip(tokens.ids.numpy(), tokens.lengths.tolist())]
    items = [Picture(str(i), None, "train" if i < pictures - 10 else "val", str(i), row=i) for i in range(pictures)]
    captions = [Caption(" ".join(f"w{w}" for w in sentences[i]), i // CAPTIONS) for i in range(pictures * CAPTIONS)]
    features = generator.standard_normal((pictures, gru.FEATURES), dtype=np.float32)
    return Pairs(items, captions, Path("generated"), features)


def run(scale: float = 1.0) -> list[dict[str, object]]:
    """Rows of name, rate, yardstick, ratio and target."""
    pairs = collection(max(60, round(1200 * scale)))
    captions = sum(pairs.pictures[caption.picture].split == "train" for caption in pairs.captions)
    rate = _rate(pairs, captions)
    torch.manual_seed(0)
    encoder = gru.GRUSettings().build(Vocabulary(map(str, range(gru.WORDS))))
    step = gru.training_step(lambda tokens: encoder(tokens).vectors, encoder, fused=True)
    (tokens,) = gru.captions(1)
    features = torch.randn(gru.BATCH, gru.FEATURES)
    (best,) = gru.seconds(lambda: step(tokens, features), repeats=max(3, round(10 * scale)))
    name = f"vse train, VSE++ pairs/s (threads: {torch.get_num_threads()})"
    rows = [gru.row(f"{name}; yardstick: the bare training step", rate, gru.BATCH / best, 0.9)]
    if torch.cpu._is_avx512_bf16_supported():
        mixed = _rate(pairs, captions, "bf16-mixed")
        rows.append(gru.row(f"{name} --precision bf16-mixed; yardstick: 32-true", mixed, rate, 1.2))
    return rows


def _rate(pairs: Pairs, captions: int, precision: str = "32-true") -> float:
    """Pairs a second; what comes before and after the epochs cancels."""
    one, three = (_seconds(pairs, epochs, precision) for epochs in (1, 3))
    return 2 * captions / (three - one)


def _seconds(pairs: Pairs, epochs: int, precision: str) -> float:
    """Of a whole run; CPU time on one thread, as `gru.seconds` has it."""
    settings = load_settings("vsepp:1.6").model_dump(mode="json")
    change = {
        "model": {
            "image": {"encoder": {"kind": "precomputed"}},
            "text": {"head": "identity", "encoder": {"min_count": 1}},
        },
        "stages": {"fixed": {"epochs": epochs, "freeze": []}},
    }
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    with tempfile.TemporaryDirectory() as folder:
        start = clock()
        train(RunSettings.model_validate(merged(settings, change)), pairs, Path(folder) / "run", precision=precision)
        return clock() - start
