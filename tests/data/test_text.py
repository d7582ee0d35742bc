from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize import NLTKWordTokenizer

from vsekit.data.text import END, START, UNK, Ragged, Vocabulary, tokenize
from vsekit.errors import UserError


@given(st.text(alphabet="ab01 ,.-'\"`:;$(\n\té“", max_size=30))
@example("we cannot , gonna go")
@example("a,b , 1,000 dogs,")
@example("a dog - - and--a cat...")
@example(" x. ")
@example(".")
@settings(max_examples=300, deadline=None)
def test_tokenize_equals_nltk_on_the_lower_cased_sentence(sentence: str) -> None:
    assert tokenize(sentence.upper()) == NLTKWordTokenizer().tokenize(sentence.upper().lower())


def test_flickr8k_train_and_val_have_the_published_3178_words(flickr8k: Path) -> None:
    images = json.loads((flickr8k / "dataset_flickr8k.json").read_text())["images"]
    sentences = [s["raw"] for image in images if image["split"] in ("train", "val") for s in image["sentences"]]
    assert len(Vocabulary.build(sentences)) == 3178  # 3,174 words and four specials
    plain = NLTKWordTokenizer()
    assert all(tokenize(s) == plain.tokenize(s.lower()) for s in sentences[::7])


def test_vocabulary_counts_from_min_count_and_orders_by_count_then_alphabet() -> None:
    vocabulary = Vocabulary.build(["b b b a a c", "a C d"], min_count=2)
    assert vocabulary.all_words == ["<pad>", "<start>", "<end>", "<unk>", "a", "b", "c"]
    assert len(vocabulary) == 7


def test_sentences_are_framed_and_unknown_words_marked() -> None:
    vocabulary = Vocabulary(["dog", "a"])
    first, empty = vocabulary(["A zebra, dog", ""])
    assert first.dtype == np.int32
    assert first.tolist() == [START, 5, UNK, UNK, 4, END]
    assert empty.tolist() == [START, END]
    assert vocabulary.words("A zebra, dog") == ["<start>", "a", "<unk>", "<unk>", "dog", "<end>"]


def test_a_saved_vocabulary_loads_equal(tmp_path: Path) -> None:
    vocabulary = Vocabulary(["dog", "naïve", "'s"])
    vocabulary.save(tmp_path)
    assert Vocabulary.load(tmp_path).all_words == vocabulary.all_words


@pytest.mark.parametrize("text", ["{", "{}", '["dog"]', '["<pad>", "<start>", "<end>", "<unk>", 3]'])
def test_a_broken_vocabulary_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "vocab.json").write_text(text)
    with pytest.raises(UserError, match=r"vocab\.json"):
        Vocabulary.load(tmp_path)


def test_a_missing_or_doubled_vocabulary_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing"):
        Vocabulary.load(tmp_path)
    with pytest.raises(UserError, match="'a' stands twice"):
        Vocabulary(["a", "b", "a"])


@given(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=6), st.data())
@settings(max_examples=30, deadline=None)
def test_ragged_batches_equal_padding_one_by_one(sentences: list[list[int]], data: st.DataObject) -> None:
    ragged = Ragged.of([np.array(s, dtype=np.int32) for s in sentences])
    chosen = data.draw(st.lists(st.integers(0, len(sentences) - 1), min_size=1, max_size=8))
    ids, lengths = ragged.batch(chosen)
    longest = max(len(sentences[i]) for i in chosen)
    assert ids.tolist() == [sentences[i] + [0] * (longest - len(sentences[i])) for i in chosen]
    assert lengths.tolist() == [len(sentences[i]) for i in chosen]
    assert len(ragged) == len(sentences)
