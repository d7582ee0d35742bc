"""Text encoders: sentences in, a set of vectors with a mask out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from vsekit.encoders.base import TextEncoderPart
from vsekit.parts import OneOf, settings_error

#: The files of the folder; a new encoder is one more line.
TEXT_ENCODERS = [
    "gru",
    "bow",
    "cnn",
    "transformer",
]
TextEncoderSettings = Annotated[TextEncoderPart, OneOf(TextEncoderPart, __name__, "encoders.text", TEXT_ENCODERS)]


def text_encoder_settings(value: Any) -> Any:
    """Settings of a text encoder from a mapping or a bare name; UserError when they are wrong."""
    try:
        return TypeAdapter(TextEncoderSettings).validate_python(value)
    except ValidationError as error:
        raise settings_error(error, "text encoder") from None
