from __future__ import annotations

from pathlib import Path

import pytest
import torch

from vsekit.data.text import Vocabulary
from vsekit.encoders.text.gru import GRUSettings
from vsekit.errors import UserError


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("dog 5 6\nunk 8 8\n")
    return path


def test_found_words_start_from_the_file_and_the_others_at_random(vectors: Path) -> None:
    settings = GRUSettings(word_dim=2, dim=3, word_vectors=vectors)
    encoder = settings.build(Vocabulary(["okapi", "dog"]))
    assert encoder.words.weight[5].tolist() == [5, 6]
    assert encoder.words.weight[:5].abs().max() <= 0.1
    assert encoder.found_share == 0.5


def test_a_saved_model_is_built_without_the_word_vector_file(vectors: Path) -> None:
    settings = GRUSettings(word_dim=2, dim=3, word_vectors=vectors)
    vectors.unlink()
    with pytest.raises(UserError, match="no such file"):
        settings.build(Vocabulary(["dog"]))
    assert settings.build(Vocabulary(["dog"]), initialise=False).words.weight.shape == (5, 2)


def test_vectors_of_another_size_name_the_setting_to_change(vectors: Path) -> None:
    with pytest.raises(UserError, match="Set word_dim to 2"):
        GRUSettings(dim=3, word_vectors=vectors).build(Vocabulary(["dog"]))


def test_the_tokenizer_is_built_from_the_sentences_and_loaded_again(tmp_path: Path) -> None:
    settings = GRUSettings(min_count=2)
    tokenizer = settings.make_tokenizer(["a dog", "a cat", "a dog"])
    assert tokenizer.words("a dog cat") == ["<start>", "a", "dog", "<unk>", "<end>"]
    tokenizer.save(tmp_path)
    assert settings.load_tokenizer(tmp_path).words("a dog cat") == tokenizer.words("a dog cat")


def test_an_encoder_over_words_refuses_another_tokenizer() -> None:
    with pytest.raises(TypeError, match="reads a Vocabulary"):
        GRUSettings().build(torch)  # type: ignore[arg-type]
