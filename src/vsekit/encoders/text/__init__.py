"""Text encoders: sentences in, a set of vectors with a mask out."""

from __future__ import annotations

from typing import Annotated

from vsekit.encoders.text.bow import BagOfWordsSettings
from vsekit.encoders.text.cnn import TextCNNSettings
from vsekit.encoders.text.gru import GRUSettings
from vsekit.encoders.text.transformer import TransformerSettings
from vsekit.parts import ONE_OF

TextEncoderSettings = Annotated[GRUSettings | BagOfWordsSettings | TextCNNSettings | TransformerSettings, *ONE_OF]
