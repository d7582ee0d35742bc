"""The model: two towers and a similarity, saved as one folder that needs nothing else.

config.json             settings, what rebuilding needs of the encoders, and checksums: its own, the weights', the tokenizer's
model.safetensors       weights; those of a pip package that were not changed are left out
vocab.json              or what else the tokenizer keeps
querybank.safetensors   see `querybank`; where training was told to make one
README.md               the model card (written by training)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from vsekit.data.views import ViewSettings
from vsekit.encoders.base import ImageEncoder, Tokenizer
from vsekit.encoders.image import encoder_settings
from vsekit.encoders.lora import adapter_weights
from vsekit.encoders.weights import weights_fingerprint
from vsekit.errors import UserError, nearest
from vsekit.files import fingerprint, write_tensors
from vsekit.models import STARTER, adapters, checksums
from vsekit.models.bits import Bits, packed, unpacked
from vsekit.models.querybank import Querybank, remove_querybank
from vsekit.models.settings import ModelSettings
from vsekit.models.tower import Tower
from vsekit.outside import trusting
from vsekit.parts import Sets, lacks_part, wrong_fields
from vsekit.seals import read_sealed, sums_of, write_sealed
from vsekit.similarity.base import Similarity

FORMAT = 1
WEIGHTS = "model.safetensors"
REPAIR = "Train it again, or fetch it whole."


class VSE(nn.Module):
    """A visual-semantic embedding model.

    Args:
        settings: which parts.
        tokenizer: of the text encoder.
        view: how pictures are shown when the model is used.
        image_dim: size of precomputed features, where the image encoder is `precomputed` and its settings leave it open.
        feature_source: what made those features, see `Pairs`; with it, the model can be made to `read_pictures`.
        initialise: load pretrained word vectors and encoder weights; False when saved weights follow.
        text_from_pip: the saved weights lack those of the text encoder, which a pip package brings.
    """

    def __init__(
        self,
        settings: ModelSettings,
        tokenizer: Tokenizer,
        view: ViewSettings,
        *,
        image_dim: int | None = None,
        feature_source: dict[str, Any] | None = None,
        initialise: bool = True,
        text_from_pip: bool = False,
    ) -> None:
        super().__init__()
        self.tokenizer, self.view, self.image_dim = tokenizer, view, image_dim
        image = _image_encoder(settings.image.encoder, image_dim, initialise)
        self.feature_source = feature_source if settings.image.encoder.reads_features else None
        text = settings.text.encoder.build(tokenizer, initialise=initialise or text_from_pip)
        self._pip_weights = {
            side: weights_fingerprint(encoder)
            for side, encoder in (("image", image), ("text", text))
            if encoder.weights_from
        }
        # Encoders from a hub fill in their architecture, so that the saved model is rebuilt without it.
        self.settings = _with_encoders(settings, getattr(image, "settings", None), getattr(text, "settings", None))
        self.image = Tower(settings.image, image, settings.dim)
        self.text = Tower(settings.text, text, settings.dim, len(tokenizer))
        self.similarity: Similarity = settings.similarity.build()
        self.bases = adapters.bases_of(self)
        self.querybank: Querybank | None = None
        self.trusted = False
        self.caption_branch = None
        if settings.caption_branch is not None:
            self.caption_branch = settings.caption_branch.build(self.image.regions_dim, len(tokenizer))

    def image_sets(self, inputs: Tensor | Sets) -> Sets:
        """Pixels (B, 3, H, W), views of each picture (B, V, 3, H, W), or features → `Sets`; see `Tower.encode`."""
        return self.image.encode(inputs)

    def embed_images(self, inputs: Tensor | Sets) -> Tensor | Sets:
        """Pixels, views or features → (B, D), or `Sets` of (B, N, D)."""
        return self.image.embed(self.image_sets(inputs))

    def read_pictures(self) -> VSE:
        """Puts the encoder that made the features before a model that was trained on features, so that it reads pictures.

        A model that reads them already stays as it is. Raises UserError where that encoder is not known, or can't be
        made again with the same weights.
        """
        if not self.settings.image.encoder.reads_features:
            return self
        source = self.feature_source
        if source is None:
            raise UserError(
                "this model was trained on features, and it is not known what made them",
                remedy="Train with features made by vse features, or with an image encoder (model.image.encoder).",
            )
        with trusting(self.trusted):
            settings = encoder_settings(source["encoder"])
        with torch.random.fork_rng():
            torch.manual_seed(0)  # as vse features does: an encoder that starts at random is the same one
            encoder = settings.build().eval()
        weights = weights_fingerprint(encoder)
        if weights != source["weights"]:
            raise UserError(
                f"the encoder '{settings.kind}' has other weights now than when the features were made",
                remedy="Install the version it was trained with, or extract the features anew and train again.",
            )
        view = ViewSettings.model_validate(source["view"])
        # Features of random crops are averaged in evaluation; the centre crop is the view that repeats.
        self.view = (
            view
            if view.deterministic
            else ViewSettings(
                kind="1C", resize=view.resize, pixels=view.pixels, flip=False, keep_aspect=view.keep_aspect
            )
        )
        self.image.encoder, self.image_dim, self.feature_source = encoder, None, None
        self._pip_weights |= {"image": weights} if encoder.weights_from else {}
        self.settings = _with_encoders(self.settings, getattr(encoder, "settings", settings), None)
        return self

    def kept_weights(self) -> dict[str, Tensor]:
        """What a saved model must hold: everything but weights that a pip package brings unchanged, and with adapters
        (`encoders.lora`) either the merged weights or the adapters alone."""
        encoders = {"image": self.image.encoder, "text": self.text.encoder}
        same = [side for side, weights in self._pip_weights.items() if weights_fingerprint(encoders[side]) == weights]
        adapters.check_bases(self)
        replaced = adapters.kept_of(self)
        skip = tuple(f"{side}.encoder." for side in (*same, *replaced))
        weights = {k: v for k, v in self.state_dict().items() if not k.startswith(skip)}
        return weights | {f"{side}.encoder.{k}": v for side, new in replaced.items() for k, v in new.items()}

    def save(self, folder: Path, *, bits: Bits = 32) -> None:
        """Writes the folder; an existing model there is replaced file by file, the weights and their checksum last.
        bits: of a weight, see `models.bits`."""
        folder.mkdir(parents=True, exist_ok=True)
        checksums.forget_all(folder)
        self.tokenizer.save(folder)
        write_sealed(
            folder / "config.json",
            {
                "vsekit": FORMAT,
                "model": adapters.without_merged(self.settings).model_dump(mode="json"),
                **({"adapter_of": self.bases} if self.bases else {}),
                "view": self.view.model_dump(mode="json"),
                "image_dim": self.image_dim,
                "features": self.feature_source,
            },
            sums_of(folder, _tokenizer_files(folder)),
        )
        remove_querybank(folder)
        self.save_weights(folder, bits=bits)
        if self.querybank is not None:
            self.querybank.save(folder)

    def save_weights(self, folder: Path, *, bits: Bits = 32) -> None:
        write_tensors(folder / WEIGHTS, packed(self.kept_weights(), bits))
        checksums.remember(folder, WEIGHTS)

    def fingerprint(self) -> str:
        """Changes when any weight or setting does."""
        return fingerprint(self.settings.model_dump(mode="json"), weights_fingerprint(self))


def _tokenizer_files(folder: Path) -> list[Path]:
    """The tokenizer's, as it saved them: vocab.json, or what is in tokenizer/."""
    found = [folder / "vocab.json", *sorted((folder / "tokenizer").rglob("*"))]
    return [file for file in found if file.is_file() and not file.name.startswith(".")]


def _with_encoders(settings: ModelSettings, image: Any, text: Any) -> ModelSettings:
    towers = {
        side: getattr(settings, side).model_copy(update={"encoder": encoder})
        for side, encoder in (("image", image), ("text", text))
        if encoder is not None
    }
    return settings.model_copy(update=towers)


def _image_encoder(settings: Any, dim: int | None, initialise: bool) -> ImageEncoder:
    if settings.reads_features:
        return settings.build(dim)
    return settings.build() if initialise else settings.build_untrained()


def model_folder(path: Path | str) -> Path:
    """The model folder of a run folder or of itself; that of the model that comes with vsekit for the name "starter"."""
    path = Path(path)
    if str(path) == STARTER:
        path = Path(__file__).parent / STARTER
        if not (path / "config.json").is_file():
            raise UserError(
                "this installation has no starter model",
                file=path,
                remedy="Install vsekit whole, or name another model.",
            )
    for folder in (path / "model", path):
        if (folder / "config.json").is_file() and (folder / WEIGHTS).is_file():
            return folder
    if not path.exists():
        raise UserError(f"no such folder: {path}", remedy="Give a run folder (made by vse train) or a model folder.")
    raise UserError(
        "no model here",
        file=path,
        remedy="A model folder holds config.json and model.safetensors; a run folder holds it as model/.",
    )


def check_model(folder: Path) -> None:
    """UserError where a model's files are not what was written; those of which that is known."""
    checksums.check(folder, remedy=REPAIR)
    _weights(folder)


def load_model(path: Path | str, *, trust: bool = False, merge: bool = True) -> VSE:
    """Loads a model folder, or the model of a run folder. Nothing is unpickled.

    trust: a part that the folder names as `module:Class` may be imported, see `outside`.
    merge: make a model that was saved as an adapter a plain one; otherwise it can be trained on.
    """
    folder = model_folder(path)
    config_file = folder / "config.json"
    try:
        config = read_sealed(config_file, REPAIR)
        checksums.check(folder, remedy=REPAIR)
        if config["vsekit"] != FORMAT:
            raise ValueError(f"format {config['vsekit']}, and this version reads format {FORMAT}")
        with trusting(trust):
            settings = ModelSettings.model_validate(config["model"])
        view = ViewSettings.model_validate(config["view"])
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        if isinstance(error, ValidationError) and lacks_part(error):
            raise UserError(
                "this model has parts that vsekit has not: " + "; ".join(wrong_fields(error)), file=folder
            ) from None
        raise UserError(f"not a vsekit model: {error}", file=folder, remedy=REPAIR) from None
    weights = _weights(folder)
    tokenizer = settings.text.encoder.load_tokenizer(folder)
    model = VSE(
        settings,
        tokenizer,
        view,
        image_dim=config.get("image_dim"),
        feature_source=config.get("features"),
        initialise=False,
        text_from_pip=not any(name.startswith("text.encoder.") for name in weights),
    )
    wanted = model.state_dict()
    encoders = (("image.encoder.", model.image.encoder), ("text.encoder.", model.text.encoder))
    from_pip = tuple(prefix for prefix, encoder in encoders if encoder.weights_from)
    wrong = [name for name in weights if name not in wanted or weights[name].shape != wanted[name].shape]
    apart = tuple(f"{side}.encoder." for side in model.bases)
    adapter = adapter_weights(model).keys()
    wrong += [
        n for n in wanted if (n not in weights and not n.startswith(from_pip + apart)) or n in adapter - weights.keys()
    ]
    if wrong:
        raise UserError(
            f"{len(wrong)} weights don't fit the settings, the first is {wrong[0]}", file=folder, remedy=REPAIR
        )
    adapters.check_loaded(model, config.get("adapter_of", {}), folder)
    model.load_state_dict(weights, strict=False)
    if merge:
        adapters.merge_adapters(model)
    model.querybank, model.trusted = Querybank.load(folder), trust
    return model.eval()


def _weights(folder: Path) -> dict[str, Tensor]:
    """UserError where the file holds none."""
    try:
        weights: dict[str, Tensor] = load_file(folder / WEIGHTS)
        return unpacked(weights)
    except (ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise UserError(f"no weights can be read: {error}", file=folder / WEIGHTS, remedy=REPAIR) from None


def module_at(model: nn.Module, path: str) -> list[nn.Module]:
    """The modules a dotted path names; `image.encoder[:-2]` names all pieces of the encoder but the last two."""
    dotted, _, piece = path.partition("[")
    try:
        module = model.get_submodule(dotted)
    except AttributeError:
        names = [name for name, _ in model.named_modules() if name.count(".") == 1]
        what = f"the model has no part '{dotted}'{nearest(dotted, names)}"
        raise UserError(what, remedy=f"It has: {', '.join(names)}.") from None
    if not piece:
        return [module]
    start, _, stop = piece.rstrip("]").partition(":")
    try:
        return module.parts()[slice(int(start) if start else None, int(stop) if stop else None)]  # type: ignore[operator]
    except (ValueError, AttributeError):
        raise UserError(f"can't read '{path}'", remedy="Write for example image.encoder[:-2].") from None


def set_frozen(model: nn.Module, frozen: tuple[str, ...]) -> list[nn.Module]:
    """Freezes the named parts and thaws all others; returns the frozen modules, to be kept in eval mode."""
    adapters.thaw(model)
    modules = [module for path in frozen for module in module_at(model, path)]
    for module in modules:
        module.requires_grad_(False)
    return modules


def take_weights(model: VSE, source: VSE) -> int:
    """Copies weights of equal name and shape; word embeddings go by word. Returns how many tensors were taken."""
    mine, theirs = model.state_dict(), adapters.weights_for(model, source)
    old, new = (getattr(m.tokenizer, "all_words", None) for m in (source, model))
    if old is not None and new is not None and old != new:
        rows = {word: row for row, word in enumerate(old)}
        known = [(row, rows[word]) for row, word in enumerate(new) if word in rows]
        for name in [n for n in mine if n in theirs and (len(mine[n]), len(theirs[n])) == (len(new), len(old))]:
            table = mine[name].clone()
            to, fro = (torch.tensor(side) for side in zip(*known))
            table[to] = theirs[name][fro]
            theirs[name] = table
    same = {name: value for name, value in theirs.items() if name in mine and mine[name].shape == value.shape}
    model.load_state_dict(same, strict=False)
    return len(same)
