"""A vsekit model inside sentence-transformers: `vse export MODEL --to sentence-transformers OUT`.

    modules.json   names `VSEModule`, so `SentenceTransformer(OUT, trust_remote_code=True)` loads it where vsekit is
                   installed; from version 6 on the package wants that word for every module that is not its own
    model/         the model folder, as vse train wrote it

>>> from sentence_transformers import SentenceTransformer                    # doctest: +SKIP
>>> model = SentenceTransformer("out", trust_remote_code=True)           # doctest: +SKIP
>>> model.encode(["a dog on a beach"]), model.encode([Image.open("dog.jpg")])  # doctest: +SKIP

A string is a sentence; a picture is a PIL picture, an (H, W, 3) uint8 array or a `Path`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vsekit.data.text import Ragged
from vsekit.data.views import normalised
from vsekit.errors import UserError
from vsekit.export.folder import UNFINISHED, empty_folder
from vsekit.export.preparation import View
from vsekit.export.sources import VSESource, read_source
from vsekit.files import write_json, write_text
from vsekit.models.model import VSE, load_model
from vsekit.parts import Tokens

#: What sentence-transformers calls the similarities it has.
SIMILARITIES = {"cosine": "cosine", "inner_product": "dot"}

README = """# A vsekit model for sentence-transformers

Needs `pip install sentence-transformers vsekit`. The module that reads this folder is in the installed vsekit, and no code is
here or is fetched; sentence-transformers asks for `trust_remote_code` because it is not its own.

A string is a sentence; a picture is a PIL picture, an array or a `Path`.

```python
from PIL import Image
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("this/folder", trust_remote_code=True)
words = model.encode(["a dog on a beach"])
pictures = model.encode([Image.open("photo.jpg")])
print(model.similarity(words, pictures))
```
"""


class VSEModule(nn.Module):
    """The one module of such a model: inputs of either kind in, `sentence_embedding` out."""

    modalities = ("text", "image")

    def __init__(self, model: VSE) -> None:
        super().__init__()
        self.model = model

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **options: Any) -> dict[str, Tensor]:
        """Sentences → ids and lengths; pictures → pixels (B, V, 3, P, P), normalised."""
        if isinstance(inputs[0], str):
            sentences = [f"{prompt or ''}{sentence}" for sentence in inputs]
            ids, lengths = Ragged.of(self.model.tokenizer(sentences)).batch(range(len(sentences)))
            return {"ids": ids, "lengths": lengths}
        encoder, view = self.model.image.encoder, View(self.model.view)
        crops = torch.from_numpy(np.stack([view.read(image) for image in inputs])).permute(0, 1, 4, 2, 3)
        return {"pixels": normalised(crops, encoder.mean, encoder.std)}

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        if "pixels" in features:
            return features | {"sentence_embedding": self.model.embed_images(features["pixels"])}
        return features | {"sentence_embedding": self.model.text(Tokens(features["ids"], features["lengths"]))}

    def get_embedding_dimension(self) -> int:
        return self.model.settings.dim

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        self.model.save(Path(output_path))

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **options: Any) -> VSEModule:
        """From a folder, or from a hub's name, through sentence-transformers."""
        from sentence_transformers.util import load_dir_path

        where = {k: options[k] for k in ("token", "cache_folder", "revision", "local_files_only") if k in options}
        folder = load_dir_path(model_name_or_path=model_name_or_path, subfolder=subfolder, **where)
        return cls(load_model(Path(str(folder))))


def export_sentence_transformers(model: str | Path, out: Path | str) -> None:
    """Writes the folder `out`, which must be new or empty."""
    source, out = read_source(model), Path(out)
    if not isinstance(source, VSESource):
        raise UserError(
            "sentence-transformers loads this model as it is", file=source.name, remedy="SentenceTransformer(name)"
        )
    if source.similarity not in SIMILARITIES:
        raise UserError(
            f"sentence-transformers has no similarity '{source.similarity}'",
            file=source.name,
            remedy="Export it --to onnx, and score with vsekit.",
        )
    if source.feature_dim is not None:
        raise UserError(
            "this model was trained on features whose encoder is not known, and can't read pictures",
            file=source.name,
            remedy="Train with features made by vse features, or export it --to onnx, which takes features.",
        )
    empty_folder(out)
    source.model.save(out / "model")
    write_text(out / "README.md", README)
    write_json(out / "config_sentence_transformers.json", {"similarity_fn_name": SIMILARITIES[source.similarity]})
    module = {"idx": 0, "name": "0", "path": "model", "type": f"{VSEModule.__module__}.{VSEModule.__name__}"}
    write_json(out / "modules.json", [module])
    (out / UNFINISHED).unlink()
