"""Settings of a model: two towers that meet in one space, and the similarity that compares what they give.

    tower: encoder → (l2 norm) → projection (every vector of the set) → pooling (or none) → head → abs → l2 norm

VSE++ (Sec. 2.1) is: image = CNN feature → linear → l2 norm; text = GRU → last state → linear → l2 norm; cosine.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from vsekit.encoders.image import ImageEncoderSettings
from vsekit.encoders.text import TextEncoderSettings
from vsekit.heads import CaptionDecoderSettings, HeadSettings
from vsekit.heads.identity import IdentitySettings
from vsekit.heads.linear import LinearSettings
from vsekit.models.token_bag import TokenBagSettings
from vsekit.parts import Settings
from vsekit.pooling import PoolingSettings
from vsekit.similarity import SimilaritySettings
from vsekit.similarity.cosine import CosineSettings


class TowerSettings(Settings):
    """What follows the encoder.

    average_views: where the views of one item are averaged: the crops and mirror images of a picture, the positions of a
        sentence in a text CNN. `before_head` takes the mean of the encoder's features (10C of VSE++), `after_head` that of
        what comes out of the head, before abs and l2 norm (dual-path). With a head that is not linear the two differ.
    normalise_features: l2-normalise what the encoder gives, vector by vector, as VSE++'s published code does to images.
    projection: a head applied to every vector of the set; `identity` keeps the encoder's size.
    projection_dim: the size it projects to; None takes the model's D.
    pooling: `none` keeps the set, for similarities between sets.
    head: applied to the pooled vector (or to every vector when nothing pools).
    normalise: l2-normalise what comes out. VSE0 as published leaves the image side as it is.
    absolute: take absolute values first (order embeddings as first published).
    """

    average_views: Literal["before_head", "after_head"] = "before_head"
    normalise_features: bool = False
    projection: HeadSettings = IdentitySettings()
    projection_dim: int | None = Field(default=None, ge=1)
    pooling: PoolingSettings
    head: HeadSettings = LinearSettings()
    normalise: bool = True
    absolute: bool = False

    @model_validator(mode="after")
    def _one_vector_to_average(self) -> TowerSettings:
        if self.average_views == "after_head" and self.pooling.keeps_sets:
            raise ValueError("average_views: after_head averages one vector a view, but pooling is 'none'")
        return self


class ImageTowerSettings(TowerSettings):
    encoder: ImageEncoderSettings


class TextTowerSettings(TowerSettings):
    """words: a learned bag of the encoder's tokens beside the pooled vector; see `token_bag`."""

    encoder: TextEncoderSettings
    words: TokenBagSettings | None = None

    @model_validator(mode="after")
    def _one_vector_beside_the_bag(self) -> TextTowerSettings:
        if self.words and (self.pooling.keeps_sets or self.average_views == "after_head"):
            raise ValueError("words stand beside one pooled vector a sentence: choose a pooling, and views before_head")
        return self

    @model_serializer(mode="wrap")
    def _as_before_without_words(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Models made before there were words keep their fingerprint, by which indexes know them."""
        written = handler(self)
        return written if self.words else {key: value for key, value in written.items() if key != "words"}


class ModelSettings(Settings):
    """dim: the size D of the common space.

    caption_branch: VSRN's second task in training: the caption must be sayable from the regions.
    """

    dim: int = Field(default=1024, ge=1)
    image: ImageTowerSettings
    text: TextTowerSettings
    similarity: SimilaritySettings = CosineSettings()
    caption_branch: CaptionDecoderSettings | None = None

    @model_validator(mode="after")
    def _branch_has_regions(self) -> ModelSettings:
        if self.caption_branch is not None and not self.image.pooling.gives_regions:
            raise ValueError(
                f"caption_branch reads the regions of pooling 'vsrn', but image.pooling is '{self.image.pooling.kind}'"
            )
        if self.caption_branch is not None and self.image.average_views == "after_head":
            raise ValueError("caption_branch reads the regions of one view, but image.average_views is 'after_head'")
        return self

    @model_validator(mode="after")
    def _sets_meet_sets(self) -> ModelSettings:
        on_sets = self.similarity.build().on_sets
        for side, tower in (("image", self.image), ("text", self.text)):
            if on_sets != tower.pooling.keeps_sets:
                have = f"{side}.pooling is '{tower.pooling.kind}'"
                want = (
                    "compares sets, so pooling must be 'none'"
                    if on_sets
                    else "compares single vectors, so a set must be pooled"
                )
                raise ValueError(f"similarity '{self.similarity.kind}' {want}, but {have}")
        return self
