"""Keeping a querybank with the trained model: embeddings of training pictures and captions, see `models.querybank`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from vsekit.models.embed import embed_captions, embed_images
from vsekit.models.inputs import ImageInputs
from vsekit.models.model import load_model
from vsekit.models.querybank import Querybank, QuerybankSettings, fitted
from vsekit.training.collection import Collection


def keep_querybank(
    settings: QuerybankSettings, folder: Path, data: Collection, inputs: ImageInputs, device: torch.device
) -> None:
    """Embeds a sample of the training set with the model in `folder`, and saves it there, or what is fitted to it."""
    model = load_model(folder).to(device)
    some, sentences = len(data.train.pictures), len(data.train.captions)
    count = settings.fitted if settings.fitted and settings.fitted < min(settings.size, some, sentences) else None
    more = settings.items if count else settings.sample  # those of the bank come first
    images: Any = embed_images(model, inputs, more(some))
    texts: Any = embed_captions(model, data.train_texts, chosen=more(sentences))
    m, n = min(settings.size, some), min(settings.size, sentences)
    bank = Querybank(images[:m], texts[:n], settings.temperature, settings.weight)
    if count:
        bank = fitted(bank, count, model.similarity, settings.rank, (images[m:], texts[n:]))
    bank.save(folder)
