"""Image encoders: pixels, or features made before, to a set of vectors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from vsekit.encoders.base import ImageEncoderPart
from vsekit.parts import OneOf, settings_error

#: The files of the folder; a new encoder is one more line. Those of pictures can be part of others.
OF_PICTURES = [
    "efficientnet_lite",
    "small_cnn",
    "timm_vision",
    "transformers_vision",
]
IMAGE_ENCODERS = [
    *OF_PICTURES,
    "detector_regions",
    "several",
    "precomputed",
]
PictureEncoderSettings = Annotated[ImageEncoderPart, OneOf(ImageEncoderPart, __name__, "encoders.image", OF_PICTURES)]
ImageEncoderSettings = Annotated[ImageEncoderPart, OneOf(ImageEncoderPart, __name__, "encoders.image", IMAGE_ENCODERS)]


def encoder_settings(value: Any) -> Any:
    """Settings of an image encoder from a mapping or a bare name; UserError when they are wrong."""
    try:
        return TypeAdapter(ImageEncoderSettings).validate_python(value)
    except ValidationError as error:
        raise settings_error(error, "image encoder") from None
