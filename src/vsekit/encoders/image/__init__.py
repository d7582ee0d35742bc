"""Image encoders: pixels, or features made before, to a set of vectors."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from vsekit.encoders.image.detector_regions import DetectorRegionsSettings
from vsekit.encoders.image.efficientnet_lite import EfficientNetLiteSettings
from vsekit.encoders.image.precomputed import PrecomputedSettings
from vsekit.encoders.image.several import SeveralSettings
from vsekit.encoders.image.small_cnn import SmallCNNSettings
from vsekit.encoders.image.timm_vision import TimmVisionSettings
from vsekit.encoders.image.transformers_vision import TransformersVisionSettings
from vsekit.parts import ONE_OF, settings_error

ImageEncoderSettings = Annotated[
    DetectorRegionsSettings
    | EfficientNetLiteSettings
    | PrecomputedSettings
    | SeveralSettings
    | SmallCNNSettings
    | TimmVisionSettings
    | TransformersVisionSettings,
    *ONE_OF,
]


def encoder_settings(value: Any) -> Any:
    """Settings of an image encoder from a mapping or a bare name; UserError when they are wrong."""
    try:
        return TypeAdapter(ImageEncoderSettings).validate_python(value)
    except ValidationError as error:
        raise settings_error(error, "image encoder") from None
