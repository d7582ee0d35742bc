"""A teacher to distil from: its vectors of the training set, computed once and kept, looked up batch by batch.

    CACHE/teachers/NAME/images.npy      (pictures, D) float16
    CACHE/teachers/NAME/captions.npy    (captions, D) float16

NAME is a fingerprint of the teacher's weights and of what it read, one folder a run, so that ensembles share members. The
mean score of M runs is the inner product of their vectors end to end, each divided by √M; that is how a batch gets them.
Scores are plain: without querybanks, whose queries are the very captions and pictures that are scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vsekit.data.pairs import Pairs
from vsekit.data.text import Ragged
from vsekit.errors import UserError
from vsekit.evaluation.meeting import embedded, members_of
from vsekit.features.fingerprints import identities_of
from vsekit.features.texts import TextStates, stored_texts
from vsekit.files import cache_folder, fingerprint, write_npy
from vsekit.models.inputs import ImageInputs
from vsekit.models.model import VSE, load_model
from vsekit.progress import Progress
from vsekit.training.global_batch import share
from vsekit.training.step import TeacherBatch
from vsekit.training.world import World


class Teacher:
    """Runs whose mean score a student follows; a run folder of several members stands for them.

    Args:
        unlabelled: how many pictures without captions are added to each batch, drawn from all there are.
    """

    def __init__(self, runs: Sequence[Path], pairs: Pairs, unlabelled: int, progress: Progress) -> None:
        self.members = [_vectors(Path(one), pairs, progress) for run in runs for one in members_of(run)]
        self.dim = sum(images.shape[1] for images, _ in self.members)
        self.count = unlabelled
        self.uncaptioned = np.setdiff1d(np.arange(len(pairs.pictures)), pairs.caption_pictures)
        if unlabelled and not len(self.uncaptioned):
            raise UserError(
                "every training picture has a caption",
                file=pairs.root,
                field="unlabelled",
                remedy="Add pictures without captions to the training split, or leave `unlabelled` out.",
            )

    def batch(
        self,
        inputs: ImageInputs,
        pictures: np.ndarray,
        captions: np.ndarray,
        rng: np.random.Generator,
        world: World | None = None,
    ) -> TeacherBatch:
        """What the teacher makes of these pictures and captions, and of pictures without captions; of the latter, where
        there are several processes, this one's share."""
        of_images, of_captions = self._images(pictures), self._gathered([side for _, side in self.members], captions)
        if not self.count:
            return TeacherBatch(of_images, of_captions)
        own = share(self.count, world or World())
        loaded, shown = inputs.load(rng.choice(self.uncaptioned, self.count), rng, own or slice(None))
        return TeacherBatch(of_images, of_captions, loaded, self._images(shown), shared=own is not None)

    def _images(self, pictures: np.ndarray) -> Tensor:
        return self._gathered([side for side, _ in self.members], pictures)

    def _gathered(self, sides: list[np.ndarray], rows: np.ndarray) -> Tensor:
        """(B, E) float32."""
        vectors = np.concatenate([side[rows] for side in sides], axis=1).astype(np.float32)
        return torch.from_numpy(vectors / np.float32(len(sides) ** 0.5))


def _vectors(run: Path, pairs: Pairs, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """A run's vectors of the pictures and of the captions, from the cache where they are there."""
    model = load_model(run)
    if not model.similarity.inner_product:
        raise UserError(
            f"similarity '{model.settings.similarity.kind}' has no vectors whose product is the score",
            file=run,
            field="teacher",
            remedy="Give teachers with the similarity cosine or inner_product.",
        )
    if pairs.features is None and model.feature_source is not None:
        model.read_pictures()
    files = _files(model, pairs)
    if not all(file.is_file() for file in files):
        progress.say(f"The teacher {run} reads the training set.")
        images, captions = embedded(model, pairs, tokens=read_texts(model, pairs, progress), progress=progress)
        keep_vectors(model, pairs, images, captions)
    images, captions = (np.load(file, mmap_mode="r", allow_pickle=False) for file in files)
    return images, captions


def keep_vectors(model: VSE, pairs: Pairs, images: Tensor, captions: Tensor) -> None:
    """Puts a teacher's embeddings of the training set into the cache, where they were computed elsewhere."""
    files = _files(model, pairs)
    write_npy(files[0], model.similarity.prepare_images(images).half().numpy())
    write_npy(files[1], model.similarity.prepare_captions(captions).half().numpy())


def _files(model: VSE, pairs: Pairs) -> tuple[Path, Path]:
    folder = cache_folder() / "teachers" / _name(model, pairs)
    return folder / "images.npy", folder / "captions.npy"


def read_texts(model: VSE, pairs: Pairs, progress: Progress) -> Ragged | TextStates:
    """Tokens; or the states of an encoder from a pip package, which its runs share."""
    tokens = Ragged.of(model.tokenizer([caption.text for caption in pairs.captions]))
    encoder = model.text.encoder
    if not (encoder.weights_from and encoder.state_a_token):
        return tokens
    return stored_texts(encoder, tokens, progress, with_tokens=model.text.words is not None)


def _name(model: VSE, pairs: Pairs) -> str:
    read = [] if pairs.features is None else [pairs.features[np.array([p.row for p in pairs.pictures])]]
    return fingerprint(
        model.fingerprint(),
        model.view.model_dump(mode="json"),
        [[picture.id for picture in pairs.pictures], [[c.text, c.picture] for c in pairs.captions]],
        identities_of(pairs.pictures),
        *read,
    )
