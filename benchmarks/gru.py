"""Training pairs a second of VSE++ with precomputed features: this GRU, `torch.nn.GRU`, and the bare matrix products.

Sizes of the paper: words of 300, states of 1,024, image features of 1,280, batches of 128 captions as long as
Flickr8k's, max of hinges, gradients clipped at 2, Adam. The published code (Faghri et al. 2018) was measured at 237
pairs a second on two threads of one machine, 146 on one; what it does, `torch.nn.GRU` over packed sequences with
torch's default Adam, is the yardstick on every machine.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.profiler_util import FunctionEvent
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile, record_function

from vsekit.data.text import END, START, Ragged, Vocabulary
from vsekit.encoders.base import Tokens
from vsekit.encoders.text.gru import GRU, GRUSettings, beginnings, pieces_of

BATCH, FEATURES, WORDS = 128, 1280, 2929
# How many of Flickr8k's 30,000 training captions have 4, 5, … tokens, start and end included (longer ones left out).
LENGTHS = [8, 28, 177, 401, 972, 2004, 2573, 2879, 3220, 3181, 3063, 2695, 2304, 1831, 1331, 952, 702, 536, 374, 243]


def captions(batches: int) -> list[Tokens]:
    """Batches of made-up captions with the figures of Flickr8k's: 1,760 words each, of which 440 different ones, and
    1,480 different beginnings (Flickr8k: 1,761, 418 and 1,448)."""
    generator = np.random.default_rng(0)
    ranks = np.arange(1.0, WORDS + 1)
    first, later = ranks**-2 / (ranks**-2).sum(), ranks**-1.1 / (ranks**-1.1).sum()
    lengths = 4 + generator.choice(len(LENGTHS), BATCH * batches, p=np.array(LENGTHS) / sum(LENGTHS))
    sentences = []
    for length in lengths:
        words = [generator.choice(WORDS, 1, p=first), generator.choice(WORDS, length - 3, p=later)]
        sentences.append(np.concatenate([[START], 4 + np.concatenate(words), [END]]))
    ragged = Ragged.of(sentences)
    return [ragged.batch(range(start, start + BATCH)) for start in range(0, len(ragged), BATCH)]


def training_step(states: Callable[[Tokens], Tensor], encoder: GRU, fused: bool) -> Callable[[Tokens, Tensor], None]:
    """One step of VSE++ with `states` in place of the encoder's forward pass."""
    image_fc = nn.Linear(FEATURES, encoder.dim)
    parameters = [*encoder.parameters(), *image_fc.parameters()]
    adam = torch.optim.Adam(parameters, 2e-4, fused=fused)

    def step(tokens: Tokens, features: Tensor) -> None:
        text = F.normalize(states(tokens)[torch.arange(len(tokens.ids)), tokens.lengths - 1])
        scores = F.normalize(image_fc(features)) @ text.T
        own = scores.diag()
        cost = torch.stack([0.2 + scores - own[:, None], 0.2 + scores.T - own[:, None]]).clamp(min=0)
        loss = cost.masked_fill(torch.eye(len(own), dtype=torch.bool), 0).amax(2).sum()
        adam.zero_grad()
        loss.backward()
        with record_function("optimiser"):
            nn.utils.clip_grad_norm_(parameters, 2.0)
            adam.step()

    return step


def bare_products(encoder: GRU, tokens: Tokens) -> Callable[[], None]:
    """The matrix products of one step and nothing else, of the sizes they have for `tokens`."""
    tree = beginnings(tokens.ids.numpy(), tokens.lengths.numpy())
    weight_ih, weight_hh, *_ = (p.detach() for p in encoder.gru.all_weights[0])
    image = torch.randn(FEATURES, encoder.dim)
    different = torch.randn(len(tokens.ids.unique()), weight_ih.shape[1])
    rows = torch.randn(max(sum(tree.going_on), BATCH, len(different)), 3 * encoder.dim)
    states = torch.randn(len(rows), encoder.dim)
    pieces = pieces_of(weight_hh)
    forward = weight_hh.unflatten(0, (3 * pieces, -1)).mT
    backward = weight_hh.unflatten(1, (pieces, -1)).transpose(0, 1)

    def products() -> None:
        for count in tree.going_on:
            torch.bmm(states[:count].expand(3 * pieces, -1, -1), forward)
            torch.bmm(rows[:count].expand(pieces, -1, -1), backward)
        rows[: sum(tree.going_on)].T @ states[: sum(tree.going_on)]
        projected = rows[: len(different)]
        different @ weight_ih.T, projected @ weight_ih, projected.T @ different
        rows[:BATCH, :FEATURES] @ image, rows[:BATCH, :FEATURES].T @ states[:BATCH]

    return products


def seconds(*calls: Callable[[], object], repeats: int) -> list[float]:
    """The best time of each call; they take turns, so that a busy machine slows all of them.

    On one thread it is CPU time, which what else runs disturbs less; on more it has to be wall time.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best = [float("inf")] * len(calls)
    for _ in range(repeats):
        for i, call in enumerate(calls):
            start = clock()
            call()
            best[i] = min(best[i], clock() - start)
    return best


def split(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Share of the time in matrix products, in the GRU's other operations, in clipping and Adam, and in the rest: loss,
    word embeddings, Python between operations. Over all repeats, since what else runs interrupts all parts alike."""
    with profile(activities=[ProfilerActivity.CPU]) as record:
        for _ in range(repeats):
            with record_function("step"):
                call()
    times: Counter[str] = Counter()
    for event in record.events():
        times[_part(event)] += event.self_cpu_time_total
    return {part: times[part] / times.total() for part in ("products", "elementwise", "optimiser", "rest")}


def _part(event: FunctionEvent) -> str:
    if event.name in {"aten::mm", "aten::bmm", "aten::addmm"}:
        return "products"
    within = set()
    parent = event.cpu_parent
    while parent is not None:
        within.add(parent.name)
        parent = parent.cpu_parent
    if "optimiser" in within or event.name == "optimiser":
        return "optimiser"
    return "elementwise" if within & {"_States", "_StatesBackward"} else "rest"


def run(scale: float = 1.0) -> list[dict[str, object]]:
    """Rows of name, rate, yardstick (the rate to compare with), ratio and target. `scale` times ten repeats."""
    torch.manual_seed(0)
    repeats = max(2, round(10 * scale))
    (tokens,) = captions(1)
    features = torch.randn(BATCH, FEATURES)
    encoder = GRUSettings().build(Vocabulary(map(str, range(WORDS))))
    ours = training_step(lambda tokens: encoder(tokens).vectors, encoder, fused=True)
    library = training_step(encoder.library_states, encoder, fused=False)
    step, step_library, products = seconds(
        lambda: ours(tokens, features),
        lambda: library(tokens, features),
        bare_products(encoder, tokens),
        repeats=repeats,
    )
    shares = split(lambda: ours(tokens, features), repeats)
    where = f"threads: {torch.get_num_threads()}"
    return [
        row(f"VSE++ pairs/s ({where}); yardstick: torch.nn.GRU", BATCH / step, BATCH / step_library, 2.0),
        row(f"VSE++ pairs/s ({where}); yardstick: its bare matrix products", BATCH / step, BATCH / products, 0.85),
        row(f"VSE++ share of time outside matrix products ({where})", 1 - shares["products"], 0.15, 1.0),
        *({"name": f"VSE++ share of time in {name} ({where})", "rate": share} for name, share in shares.items()),
    ]


def row(name: str, rate: float, yardstick: float, target: float) -> dict[str, object]:
    return {"name": name, "rate": rate, "yardstick": yardstick, "ratio": rate / yardstick, "target": target}


if __name__ == "__main__":
    for result in run():
        print(result)
