"""Run in each of several processes: a step on shares of a batch against the same step on the whole of it, in one process.

python -m tests.training.same_gradients [--chunk N]
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import torch
from torch import Tensor

from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.losses import LossSettings
from vsekit.losses.base import LossContext
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings
from vsekit.parts import Sets, Tokens, kinds
from vsekit.training.chunks import rows
from vsekit.training.global_batch import average_gradients, normalise_globally, share
from vsekit.training.settings import StageSettings
from vsekit.training.shards import Rows, shards_of
from vsekit.training.step import Batch, OfflineBatch, Step, TeacherBatch
from vsekit.training.world import World, join

DIM, GROUPS, WORDS, REGIONS = 6, 9, 12, 4
#: In float64: what differs is not rounding.
CLOSE = {"rtol": 1e-7, "atol": 1e-7}

LOSSES: list[dict[str, Any]] = [
    {"kind": "sum_of_hinges"},
    {"kind": "max_of_hinges"},
    {"kind": "max_of_hinges", "mask": "diagonal"},
    {"kind": "sum_to_max", "epochs": 1},
    {"kind": "sum_to_max", "epochs": 0},
    {"kind": "info_nce"},
    {"kind": "max_of_negatives"},
    {"kind": "mvn"},
    {"kind": "instance"},
    {"kind": "instance", "dropout": 0.5},
    {"kind": "instance", "classes": "sampled", "samples": 2},
    {"kind": "quadruple_ranking", "pool": 2},
    {"kind": "adaptive_objective"},
    {"kind": "adaptive_objective", "variant": "published"},
    {"kind": "distillation", "regression": 1.0},
    {"kind": "offline_triplet"},
    {"kind": "offline_quintuplet"},
    {"kind": "adaptive_offline_quintuplet"},
    {"kind": "switch", "epochs": 1, "first": "info_nce", "then": "instance"},
    {
        "kind": "weighted_sum",
        "terms": [{"loss": "instance"}, {"loss": "offline_triplet"}, {"loss": "quadruple_ranking"}],
    },
]
#: Those that read scores alone.
ON_SETS = ["sum_of_hinges", "max_of_hinges", "info_nce", "adaptive_offline_quintuplet", "adaptive_objective"]


def model(similarity: str) -> VSE:
    sets = similarity in ("scan", "bfan")
    settings: dict[str, Any] = {
        "dim": DIM,
        "image": {
            "encoder": "precomputed",
            "projection": {"kind": "residual_mlp", "batch_norm": True},
            "pooling": "none" if sets else "mean",
            "head": "identity" if sets else {"kind": "fc_bn_relu_fc", "hidden": 5, "dropout": 0.0},
        },
        "text": {"encoder": {"kind": "gru", "word_dim": 4, "dim": DIM}, "pooling": "none" if sets else "mean"},
        "similarity": similarity,
    }
    torch.manual_seed(1)
    words = Vocabulary(map(str, range(WORDS)))
    return VSE(ModelSettings.model_validate(settings), words, ViewSettings.model_validate("1C"), image_dim=5)


def batch(pairs: int) -> Batch:
    """Some images twice, sets and sentences of different lengths."""
    torch.manual_seed(2)

    def images(n: int) -> Sets:
        return Sets(torch.randn(n, REGIONS, 5), torch.arange(REGIONS) < torch.randint(1, REGIONS + 1, (n, 1)))

    def captions() -> Tokens:
        return Tokens(torch.randint(4, WORDS, (pairs, 5)), torch.randint(2, 6, (pairs,)))

    groups = torch.arange(pairs) * 4 % GROUPS
    if pairs > 3:
        groups[2] = groups[0]
    offline = OfflineBatch(images(pairs), images(pairs), captions(), captions())
    teacher = TeacherBatch(torch.randn(pairs, DIM), torch.randn(pairs, DIM), images(4), torch.randn(4, DIM))
    return Batch(images(pairs), captions(), groups, 0.5, offline, teacher)


def share_of(whole: Batch, world: World) -> Batch:
    own, further = share(len(whole), world), share(4, world)
    if own is None:
        return whole
    offline, teacher = whole.offline, whole.teacher
    assert offline is not None
    assert teacher is not None
    assert further is not None
    parts = (offline.image, offline.image_of_caption, offline.caption, offline.caption_of_image)
    return Batch(
        rows(whole.images, own),
        rows(whole.captions, own),
        whole.groups[own],
        whole.epoch,
        OfflineBatch(*(rows(part, own) for part in parts)),
        TeacherBatch(
            teacher.images[own],
            teacher.captions[own],
            rows(teacher.unlabelled, further),
            teacher.unlabelled_images[further],  # type: ignore[index]
            shared=True,
        ),
        len(whole),
    )


def step(similarity: str, loss: dict[str, Any], world: World, chunk: int | None) -> Step:
    settings = StageSettings.model_validate({"loss": loss})
    vse = model(similarity)
    torch.manual_seed(3)
    built = settings.loss.build(LossContext(GROUPS, DIM, teacher_dim=DIM, shards=shards_of(world)))
    if not world.alone:
        normalise_globally(vse)
    return Step(vse, built, chunk=chunk, world=world).train()


def outcome(one: Step, given: Batch) -> tuple[Tensor, dict[str, Tensor], dict[str, Any]]:
    """The loss, every gradient as it is on the whole of its parameter, and the logs."""
    torch.manual_seed(4)
    loss, logs = one(given)
    loss.backward()
    rows = Rows.of(one.loss, one.world)
    if not one.world.alone:
        average_gradients(one.parameters(), rows.parameters, one.world)
    gradients = {n: p.grad.to_dense() for n, p in one.named_parameters() if p.grad is not None}
    parameters = dict(one.named_parameters())
    whole = {name: rows.whole(parameters[name], grad) for name, grad in gradients.items()}
    statistics = {name: value for name, value in one.named_buffers() if "running" in name}
    return loss.detach(), whole | statistics, logs


def compare(similarity: str, loss: dict[str, Any], pairs: int, world: World, chunk: int | None) -> None:
    whole = batch(pairs)
    expected, gradients, logs = outcome(step(similarity, loss, World(), None), copy.deepcopy(whole))
    found, theirs, their_logs = outcome(step(similarity, loss, world, chunk), share_of(whole, world))
    case = f"{similarity}, {loss}, {pairs} pairs, chunk {chunk}, rank {world.rank} of {world.size}"
    torch.testing.assert_close(found, expected, **CLOSE, msg=f"{case}: loss")
    assert theirs.keys() == gradients.keys(), case
    for name, gradient in gradients.items():
        torch.testing.assert_close(theirs[name], gradient, **CLOSE, msg=f"{case}: {name}")
    for name, value in logs.items():
        torch.testing.assert_close(torch.as_tensor(their_logs[name]), torch.as_tensor(value), **CLOSE)


def main() -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    missing = set(kinds(LossSettings)) - {loss["kind"] for loss in LOSSES}
    assert not missing, f"losses that are not compared: {missing}"
    world, chunk = join(), int(sys.argv[1]) if len(sys.argv) > 1 else None
    for loss in LOSSES:
        compare("cosine", loss, 8, world, chunk)
    compare("order", {"kind": "sum_of_hinges"}, 7, world, chunk)
    compare("cosine", {"kind": "instance"}, 2, world, chunk)  # fewer pairs than three processes
    compare("cosine", {"kind": "info_nce"}, 2, world, chunk)
    for similarity in ("scan", "bfan"):
        for kind in ON_SETS:
            compare(similarity, {"kind": kind}, 7, world, chunk)
    print("same")


if __name__ == "__main__":
    main()
