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
    pictures, captions = settings.sample(len(data.train.pictures)), settings.sample(len(data.train.captions))
    images: Any = embed_images(model, inputs, pictures)
    texts: Any = embed_captions(model, data.train_texts, chosen=captions)
    bank = Querybank(images, texts, settings.temperature, settings.weight)
    if settings.fitted and settings.fitted < min(len(images), len(texts)):
        bank = fitted(bank, settings.fitted, model.similarity)
    bank.save(folder)
