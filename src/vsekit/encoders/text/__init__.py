"""Text encoders: sentences in, a set of vectors with a mask out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from vsekit.encoders.text.bow import BagOfWordsSettings
from vsekit.encoders.text.cnn import TextCNNSettings
from vsekit.encoders.text.gru import GRUSettings
from vsekit.encoders.text.transformer import TransformerSettings
from vsekit.parts import ONE_OF, settings_error

TextEncoderSettings = Annotated[GRUSettings | BagOfWordsSettings | TextCNNSettings | TransformerSettings, *ONE_OF]


def text_encoder_settings(value: Any) -> Any:
    """Settings of a text encoder from a mapping or a bare name; UserError when they are wrong."""
    try:
        return TypeAdapter(TextEncoderSettings).validate_python(value)
    except ValidationError as error:
        raise settings_error(error, "text encoder") from None
