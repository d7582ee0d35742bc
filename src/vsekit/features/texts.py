"""What a frozen text encoder makes of every sentence, computed once: one state a token, read like tokens ever after.

states.npy    (Σ lengths, d) float16, all sentences one after the other
offsets.npy   (n + 1,) where each starts
store.json    what made it, how many sentences are done (a kill costs the last few seconds), and checksums at the end
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from vsekit.data.pairs import Pairs
from vsekit.data.text import Ragged
from vsekit.encoders.base import TextEncoder
from vsekit.encoders.text.transformer import TransformerSettings
from vsekit.encoders.weights import weights_fingerprint
from vsekit.errors import UserError
from vsekit.features.writer import AGAIN, ResumableWriter
from vsekit.files import cache_folder, fingerprint, write_npy
from vsekit.parts import ReadTokens, Sets
from vsekit.progress import QUIET, Progress
from vsekit.seals import CHECKED, KEY, check_files


class TextStates:
    """States of sentences, with the face of the `Ragged` tokens they were made of: `batch` gives `Sets`.

    tokens: given, `batch` gives them too, as `ReadTokens`.
    """

    def __init__(self, states: np.ndarray, offsets: np.ndarray, tokens: Ragged | None = None) -> None:
        self.states, self.offsets, self.lengths, self.tokens = states, offsets, np.diff(offsets), tokens

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, indices: Any) -> Sets | ReadTokens:
        """The sentences at `indices`: (B, T, d) float32 with a mask, padded with 0 to the longest."""
        chosen = np.asarray(indices, dtype=np.int64)
        lengths = self.lengths[chosen]
        places = np.arange(lengths.max(initial=0))
        inside = places < lengths[:, None]
        vectors = np.zeros((*inside.shape, self.states.shape[1]), np.float32)
        vectors[inside] = self.states[(self.offsets[chosen, None] + places)[inside]]
        if self.tokens is not None:
            return ReadTokens(*self.tokens.batch(chosen), torch.from_numpy(vectors))
        return Sets(torch.from_numpy(vectors), torch.from_numpy(inside))


@torch.inference_mode()
def extract_texts(
    encoder: TextEncoder, tokens: Ragged, out: Path, *, batch_size: int = 64, progress: Progress = QUIET
) -> TextStates:
    """The states of all sentences in the folder `out`; goes on with an extraction that was stopped.

    For encoders that give one state a token. Sentences are read from short to long, so that little of a batch is padding.
    """
    made_by = {"fingerprint": _made_by(encoder, tokens)}
    encoder.eval()
    with ResumableWriter(out, "store.json", made_by, lambda *_: _other_states(out)) as writer:
        done = writer.state["done"] if writer.state else 0
        check_files(out, (writer.state or {}).get(KEY, {}), AGAIN, most=CHECKED)
        if not done:
            writer.reserve({"states": (np.float16, (int(tokens.offsets[-1]), encoder.dim))})
            write_npy(out / "offsets.npy", tokens.offsets)
        order = np.argsort(tokens.lengths, kind="stable")
        with progress.bar("Sentences", "sentences") as bar:
            for start in range(done, len(tokens), batch_size):
                chosen = order[start : start + batch_size]
                vectors, mask = encoder(tokens.batch(chosen))
                for sentence, states, real in zip(chosen, vectors.to(torch.float16), mask):
                    writer.write("states", int(tokens.offsets[sentence]), states[real].numpy())
                done = start + len(chosen)
                bar.update(done, len(tokens))
                if writer.due or done == len(tokens):
                    state = {**made_by, "done": done, "sentences": len(tokens), "dim": encoder.dim}
                    writer.mark(state, finished=done == len(tokens))
        return TextStates(writer.array("states"), tokens.offsets)


def _other_states(folder: Path) -> UserError:
    what = "these states were made by another encoder or of other sentences"
    return UserError(what, file=folder, remedy="Give a new folder.")


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


def stored_texts(
    encoder: TextEncoder, tokens: Ragged, progress: Progress, folder: Path | None = None, *, with_tokens: bool = False
) -> TextStates:
    """The same from `folder`, or from the cache, where they are there; in memory. with_tokens: see `TextStates`."""
    folder = folder or cache_folder() / "texts" / _made_by(encoder, tokens)
    stored = extract_texts(encoder, tokens, folder, progress=progress)
    return TextStates(np.array(stored.states), stored.offsets, tokens if with_tokens else None)


def _made_by(encoder: TextEncoder, tokens: Ragged) -> str:
    return fingerprint(weights_fingerprint(encoder), tokens.flat.tolist(), tokens.offsets.tolist())
