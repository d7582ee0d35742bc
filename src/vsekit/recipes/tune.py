"""Settings that go on training a model that is there, on a collection it has not seen: `vse train starter --data …`.

The encoders that pip packages bring stay as they are, and with them a tail that was tuned before; heads, and encoders that were
trained, go on at a third of the rate that heads are trained at from nothing. The best snapshot on the collection's validation
split is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from vsekit.models.model import STARTER, load_model, model_folder
from vsekit.parts import apply_sets, settings_error
from vsekit.training.settings import RunSettings


def names_a_model(recipe: str) -> bool:
    """Whether what stands where a recipe may stand is a model to go on from: "starter", or a folder."""
    return recipe == STARTER or Path(recipe).is_dir()


def tuning(model: str, sets: Sequence[str] = ()) -> RunSettings:
    """The settings of a run that goes on from a model.

    Args:
        model: "starter", a run or a model folder.
        sets: key.path=value assignments laid over the settings.
    """
    source = load_model(model)
    towers = {"image": source.image, "text": source.text}
    view = source.view.model_dump(mode="json")
    freeze = [f"{name}.encoder" for name, tower in towers.items() if tower.encoder.weights_from]
    stage = {
        "start": str(model_folder(model).resolve()),
        "epochs": 12,
        "early_stop": 3,
        "batch_size": 256,
        "loss": {"kind": "info_nce", "temperature": 0.05},
        "optimiser": {"kind": "adamw", "lr": 0.0003, "weight_decay": 0.01},
        "schedule": {"warm_up": 1, "cosine": True},
        "clip": 2.0,
        "freeze": freeze + (["image.tail"] if source.image.tail is not None else []),
    }
    settings = {
        "model": source.settings.model_dump(mode="json"),
        "data": {"view": view, "eval_view": view},
        "stages": {"tune": stage},
    }
    try:
        return RunSettings.model_validate(apply_sets(settings, sets))
    except ValidationError as error:
        raise settings_error(error, f"{model}, tuned") from None
