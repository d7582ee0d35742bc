"""What a frozen text encoder makes of every sentence, computed once: one state a token, read like tokens ever after.

states.npy    (Σ lengths, d) float16, all sentences one after the other
offsets.npy   (n + 1,) where each starts
store.json    what made it, and how many sentences are done: a kill costs the last few seconds
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsekit.data.pairs import Pairs
from vsekit.data.text import Ragged
from vsekit.encoders.base import TextEncoder
from vsekit.encoders.text.transformer import TransformerSettings
from vsekit.errors import UserError
from vsekit.features.cache import cache_folder
from vsekit.features.store import FLUSH_SECONDS, weights_fingerprint
from vsekit.files import fingerprint, write_json, write_npy
from vsekit.parts import Sets
from vsekit.progress import QUIET, Progress


class TextStates:
    """States of sentences, with the face of the `Ragged` tokens they were made of: `batch` gives `Sets`."""

    def __init__(self, states: np.ndarray, offsets: np.ndarray) -> None:
        self.states, self.offsets, self.lengths = states, offsets, np.diff(offsets)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, indices: Any) -> Sets:
        """The sentences at `indices`: (B, T, d) float32 with a mask, padded with 0 to the longest."""
        chosen = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[chosen]
        places = np.arange(lengths.max(initial=0))
        inside = places < lengths[:, None]
        vectors = np.zeros((*inside.shape, self.states.shape[1]), np.float32)
        vectors[inside] = self.states[(self.offsets[chosen, None] + places)[inside]]
        return Sets(torch.from_numpy(vectors), torch.from_numpy(inside))


@torch.inference_mode()
def extract_texts(
    encoder: TextEncoder, tokens: Ragged, out: Path, *, batch_size: int = 64, progress: Progress = QUIET
) -> TextStates:
    """The states of all sentences in the folder `out`; goes on with an extraction that was stopped.

    For encoders that give one state a token. Sentences are read from short to long, so that little of a batch is padding.
    """
    made_by = _made_by(encoder, tokens)
    header = out / "store.json"
    done = 0
    if header.is_file():
        found = json.loads(header.read_text(encoding="utf-8"))
        if found.get("fingerprint") != made_by:
            raise UserError(
                "these states were made by another encoder or of other sentences", file=out, remedy="Give a new folder."
            )
        done = int(found["done"])
    out.mkdir(parents=True, exist_ok=True)
    shape = (int(tokens.offsets[-1]), encoder.dim)
    if not done:
        write_npy(out / "offsets.npy", tokens.offsets)
        np.lib.format.open_memmap(out / "states.npy", "w+", np.float16, shape).flush()
    states = np.lib.format.open_memmap(out / "states.npy", "r+" if done < len(tokens) else "r")
    order = np.argsort(tokens.lengths, kind="stable")
    marked = time.monotonic()
    encoder.eval()
    with progress.bar("Sentences", "sentences") as bar:
        for start in range(done, len(tokens), batch_size):
            chosen = order[start : start + batch_size]
            vectors, mask = encoder(tokens.batch(chosen))
            places = np.concatenate([np.arange(*tokens.offsets[i : i + 2]) for i in chosen])
            states[places] = vectors[mask].to(torch.float16).numpy()
            done = start + len(chosen)
            bar.update(done, len(tokens))
            if time.monotonic() - marked > FLUSH_SECONDS or done == len(tokens):
                states.flush()
                write_json(header, {"fingerprint": made_by, "done": done, "sentences": len(tokens), "dim": encoder.dim})
                marked = time.monotonic()
    return TextStates(np.load(out / "states.npy", mmap_mode="r", allow_pickle=False), tokens.offsets)


def extract_splits(settings: TransformerSettings, pairs: Pairs, out: Path, progress: Progress) -> dict[str, int]:
    """The states of a collection's captions in OUT/SPLIT, for `vse train --text-features`; how many tokens each split has."""
    tokenizer = settings.make_tokenizer([])
    encoder = settings.build(tokenizer)
    tokens = {}
    for name in pairs.splits:
        sentences = [caption.text for caption in pairs.split(name).captions]
        states = extract_texts(encoder, Ragged.of(tokenizer(sentences)), out / name, progress=progress)
        tokens[name] = int(states.offsets[-1])
    return tokens


def stored_texts(encoder: TextEncoder, tokens: Ragged, progress: Progress, folder: Path | None = None) -> TextStates:
    """The same from `folder`, or from the cache, where they are there; in memory."""
    folder = folder or cache_folder() / "texts" / _made_by(encoder, tokens)
    stored = extract_texts(encoder, tokens, folder, progress=progress)
    return TextStates(np.array(stored.states), stored.offsets)


def _made_by(encoder: TextEncoder, tokens: Ragged) -> str:
    return fingerprint(weights_fingerprint(encoder), tokens.flat.tolist(), tokens.offsets.tolist())
