"""What a stream can't give, refused before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vsekit.errors import UserError
from vsekit.training.settings import RunSettings, StreamSettings

_REMEDY = "A stream is never there as a whole. Change the setting, or read the shards into memory: --data FOLDER."


def streamed_settings(settings: RunSettings, text_features: Path | None = None) -> RunSettings:
    """The settings, complete for a stream. UserError where they ask for what only a whole collection can give."""
    data, model = settings.data, settings.model_in(len(settings.stages) - 1)
    asked: list[tuple[Any, str, str]] = [
        (model.image.encoder.reads_features, "model.image.encoder", "a stream holds pictures, and no features"),
        (model.text.words, "model.text.words", "words beside an encoder are chosen among all captions"),
        (text_features, "--text-features", "states of captions are those of a collection in memory"),
        (settings.querybank, "querybank", "a querybank is a sample of the whole training set"),
        (data.crops, "data.crops", "crops that are encoded once are kept for a collection in memory"),
        (data.vocabulary == "all", "data.vocabulary", "words are counted in the training shards alone"),
    ]
    for name, stage in settings.stages.items():
        at, kind = f"stages.{name}", stage.loss.kind
        asked += [
            (stage.mine, f"{at}.mine", "mining ranks the whole training set"),
            (stage.teacher, f"{at}.teacher", "a teacher reads the whole training set first"),
            (stage.loss.counts_groups, f"{at}.loss", f"'{kind}' has a class for each group, and nobody knows how many"),
        ]
    for given, field, why in asked:
        if given:
            raise UserError(why, field=field, remedy=_REMEDY)
    stream = data.stream or StreamSettings()
    return settings.model_copy(update={"data": data.model_copy(update={"stream": stream})})
