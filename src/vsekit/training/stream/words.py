"""The vocabulary of a stream: given, or counted in one pass over all captions before training.

A text encoder with a tokenizer of its own (transformers) needs neither. The leader counts and tells the others, and keeps the
words with the run, so that a run that goes on need not count again.
"""

from __future__ import annotations

from collections.abc import Sequence

from vsekit.data.stream.words import over_captions
from vsekit.data.text import SPECIALS, Vocabulary
from vsekit.encoders.base import Tokenizer
from vsekit.errors import UserError
from vsekit.progress import Progress
from vsekit.seals import read_sealed, write_sealed
from vsekit.training.run import RunFolder
from vsekit.training.settings import RunSettings
from vsekit.training.world import World

KEPT = "vocabulary.json"


def stream_tokenizer(
    settings: RunSettings, shards: Sequence[str], folder: RunFolder, world: World, progress: Progress
) -> Tokenizer:
    data, encoder = settings.data, settings.model.text.encoder
    assert data.stream is not None
    given = data.stream.vocabulary
    if encoder.reads_pieces:
        if given:
            what = f"the text encoder '{encoder.kind}' has a tokenizer of its own"
            raise UserError(what, field="data.stream.vocabulary", remedy="Leave it out.")
        return encoder.make_tokenizer([])
    if given:
        return Vocabulary.read(given)
    splits = [data.train, *(["restval"] if data.restval else [])]

    def counted() -> list[str]:
        kept = folder.path / KEPT
        if kept.is_file():
            return list(read_sealed(kept, "Start anew in another folder.")["words"])
        folder.create()
        progress.say(
            f"Reading the captions of {len(shards)} shards once, to count words. To do without the next time: "
            "vse data vocab, and data.stream.vocabulary."
        )
        made = over_captions(encoder.make_tokenizer, shards, splits, data.captions_per_picture, progress)
        if not isinstance(made, Vocabulary):
            what = f"the text encoder '{encoder.kind}' makes no vocabulary of words"
            raise UserError(what, field="model.text.encoder", remedy="Choose one of words, or of transformers.")
        write_sealed(kept, {"words": made.all_words})
        return made.all_words

    return Vocabulary(world.told(counted)[len(SPECIALS) :])
