"""Exported models beside torch: pictures a second of an image encoder, and what a sentence costs from a cold start."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.features import generated
from benchmarks.search import sentence
from vsekit.data.pairs import Caption, Pairs
from vsekit.data.text import Ragged
from vsekit.data.views import normalised
from vsekit.encoders.image.efficientnet_lite import EfficientNetLiteSettings
from vsekit.encoders.text.transformer import TransformerSettings
from vsekit.engines.graphs import write_graph
from vsekit.engines.images import compiled
from vsekit.engines.session import start_session
from vsekit.engines.twins import exportable
from vsekit.export.folder import export_onnx
from vsekit.export.int8 import export_int8
from vsekit.parts import Tokens

BATCH = 8
ONNX = "from vsekit.export.runtime import open_exported as load"
TORCH = "from vsekit import load"


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """CPU time on one thread of EfficientNet-lite0 at 224 px, batches of 8, through the engine and through torch;
    sentences in bulk through MiniLM; the starter in 8 bits; CPU seconds of a process that encodes one sentence with the
    starter, exported and with torch."""
    with tempfile.TemporaryDirectory() as folder:
        return [_encoder(scale), _sentences(Path(folder), scale), _int8(Path(folder)), _cold(Path(folder))]


def _encoder(scale: float) -> dict[str, Any]:
    encoder = EfficientNetLiteSettings().build().eval()
    crops = np.random.default_rng(0).integers(0, 256, (BATCH, 1, 224, 224, 3), dtype=np.uint8)
    engine = compiled(encoder)
    pixels = torch.from_numpy(crops[:, 0]).permute(0, 3, 1, 2)
    rounds, threads = max(2, int(20 * scale)), torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.inference_mode():
        reference = _seconds(lambda: encoder(normalised(pixels, encoder.mean, encoder.std)), rounds)
        ours = _seconds(lambda: engine(crops[:, 0]), rounds)
    torch.set_num_threads(threads)
    return {
        "name": "EfficientNet-lite0, 224 px, batches of 8, through ONNX Runtime, one thread",
        "cpu_s": ours,
        "rate": rounds * BATCH / ours,
        "yardstick": f"torch, {rounds * BATCH / reference:.1f} pictures a second",
        "ratio": ours / reference,
    }


class _States(torch.nn.Module):
    """ids and lengths → the states of MiniLM, as a graph."""

    def __init__(self, encoder: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = exportable(encoder)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.encoder(Tokens(ids, lengths)).vectors
        return states


def _sentences(folder: Path, scale: float) -> dict[str, Any]:
    """Sentences in batches of 32, sorted by their length."""
    settings = TransformerSettings()
    tokenizer = settings.make_tokenizer([])
    encoder = settings.build(tokenizer).eval()
    count = max(64, int(1024 * scale))
    tokens = Ragged.of(tokenizer([sentence(997 * i) for i in range(count)]))
    order = np.argsort(tokens.lengths, kind="stable")
    batches = [tokens.batch(order[start : start + 32]) for start in range(0, count, 32)]
    example = {"ids": torch.ones(3, 5).long(), "lengths": torch.tensor([5, 3, 2])}
    write_graph(_States(encoder), example, ["states"], folder / "minilm.onnx", {})
    session, threads = start_session(folder / "minilm.onnx", 1, ""), torch.get_num_threads()
    given = [{"ids": batch.ids.long().numpy(), "lengths": batch.lengths.long().numpy()} for batch in batches]
    torch.set_num_threads(1)
    with torch.inference_mode():
        reference = _seconds(lambda: [encoder(batch) for batch in batches], 2) / 2
    ours = _seconds(lambda: [session.run(None, one) for one in given], 2) / 2
    torch.set_num_threads(threads)
    return {
        "name": f"MiniLM, sentences of {tokens.lengths.mean():.0f} pieces, through ONNX Runtime, one thread",
        "cpu_ms": 1e3 * ours / count,
        "yardstick": f"torch, {1e3 * reference / count:.2f} ms a sentence",
        "ratio": ours / reference,
    }


def _seconds(call: Callable[[], Any], rounds: int) -> float:
    call()
    before = time.process_time()
    for _ in range(rounds):
        call()
    return time.process_time() - before


def _int8(folder: Path) -> dict[str, Any]:
    """The starter's image tower in 8 bits; the recall it loses is measured by vse export itself, on your pictures."""
    pictures = generated(folder / "photos", 32)
    pairs = Pairs(pictures, [Caption("a dog on a beach", i) for i in range(len(pictures))], folder)
    measured = export_int8("starter", folder / "int8", pairs, "train")
    whole, small = measured.speed
    return {
        "name": "the starter's image tower in int8",
        "rate": small,
        "yardstick": f"fp32, {whole:.1f} pictures per CPU-second",
        "ratio": small / whole,
        "size": f"{measured.size[1] / 1e6:.1f} of {measured.size[0] / 1e6:.1f} MB",
    }


def _cold(folder: Path) -> dict[str, Any]:
    export_onnx("starter", folder / "starter")
    ours, reference = _process(ONNX, str(folder / "starter")), _process(TORCH, "starter")
    return {
        "name": "a process that encodes one sentence with the exported starter",
        "cpu_s": ours,
        "rate": 1 / ours,
        "yardstick": f"the same with torch, {reference:.2f} CPU-s",
        "ratio": ours / reference,
    }


def _process(load: str, name: str) -> float:
    """CPU seconds of a Python that loads a model and encodes a sentence."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = f"{load}; load({name!r}).encode_texts(['a dog on a beach'])"
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
