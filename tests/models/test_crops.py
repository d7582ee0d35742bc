from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from tests.training.conftest import TINY, write_precomputed

from vsekit.data.readers import read
from vsekit.evaluation.meeting import embedded
from vsekit.models.model import VSE
from vsekit.parts import merged
from vsekit.training.settings import RunSettings


def test_a_picture_is_embedded_as_the_mean_of_all_its_crops(tmp_path: Path) -> None:
    # With a linear head and no norm it does not matter where the mean is taken.
    change = {"model": {"similarity": "inner_product", "image": {"head": "linear", "normalise": False}}}
    settings = RunSettings.model_validate(merged(TINY, change))
    pairs = read(write_precomputed(tmp_path / "data"))
    assert pairs.features is not None
    crops = np.random.default_rng(0).normal(size=(len(pairs.features), 3, 16)).astype(np.float32)
    tokenizer = settings.model.text.encoder.make_tokenizer([caption.text for caption in pairs.captions])
    model = VSE(settings.model, tokenizer, settings.data.eval_view, image_dim=16).eval()

    images, _ = embedded(model, replace(pairs, features=crops, feature_crops=True))
    rows = np.array([picture.row for picture in pairs.pictures])
    head = model.image.head
    one_by_one = [np.stack([crop @ head.weight.detach().numpy().T for crop in crops[row]]) for row in rows]
    expected = torch.from_numpy(np.stack([each.mean(0) for each in one_by_one])) + head.bias.detach()
    torch.testing.assert_close(images, expected, atol=1e-5, rtol=1e-4)
