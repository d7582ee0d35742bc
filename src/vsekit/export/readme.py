"""The README of an exported folder, with a program that needs neither vsekit nor torch."""

from __future__ import annotations

from typing import Any

from vsekit.data.views import ViewSettings, chosen_crops

_WORDS = """from nltk.tokenize import NLTKWordTokenizer

vocabulary = {word: i for i, word in enumerate(json.loads(open("vocab.json", encoding="utf-8").read()))}

def ids_of(sentence):
    words = NLTKWordTokenizer().tokenize(sentence.lower())
    return [1, *(vocabulary.get(word, 3) for word in words), 2]  # <start>, words (3: unknown), <end>
"""

_PIECES = """from tokenizers import Tokenizer

tokenizer = Tokenizer.from_file("tokenizer.json")
tokenizer.enable_truncation({max_length})
tokenizer.no_padding()

def ids_of(sentence):
    return tokenizer.encode(sentence).ids
"""

_TEXTS = """
def encode_text(sentence):
    ids = np.array([ids_of(sentence)], np.int64)
    return text.run(None, {"ids": ids, "lengths": np.array([ids.shape[1]])})[0][0]
"""

_VIEW = """
def encode_image(path):
    picture = Image.open(path)
    picture.draft("RGB", ({double}, {double}))  # a large JPEG need not be decoded at its full size
    picture = ImageOps.exif_transpose(picture).convert("RGB")
{box}    square = np.asarray(picture.resize(({resize}, {resize}), Image.Resampling.BILINEAR{with_box}))
    crops = [square[top : top + {pixels}, left : left + {pixels}][:, ::step] for top, left, step in {crops}]
    return image.run(None, {{"pixels": np.stack(crops)[None]}})[0][0]
"""

_STEPS = """
def encode_image(path):
    picture = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    width, height = picture.size
    {size}
    resized = np.asarray(picture.resize((width, height), {resample}))
    {crop}
    return image.run(None, {{"pixels": resized[None, None]}})[0][0]
"""

_FEATURES = """
def encode_features(features):  # (N, {dim}) float32
    return image.run(None, {{"features": features[None], "lengths": np.array([len(features)])}})[0][0]
"""

_HEAD = """import json

import numpy as np
import onnxruntime
from PIL import Image, ImageOps
"""

_SESSIONS = """
image, text = onnxruntime.InferenceSession("image.onnx"), onnxruntime.InferenceSession("text.onnx")
"""


def program(config: dict[str, Any]) -> str:
    """Some twenty lines of Python that encode a sentence and a picture with the files of the folder."""
    return _HEAD + _tokenizer(config["text"]) + _SESSIONS + _TEXTS + _pictures(config["image"])


def _tokenizer(text: dict[str, Any]) -> str:
    if text["tokenizer"] == "words":
        return _WORDS
    return _PIECES.format(max_length=text["max_length"])


def _pictures(image: dict[str, Any]) -> str:
    if image["reads"] == "features":
        return _FEATURES.format(dim=image["feature_dim"])
    if "steps" in image:
        return _of_steps(image["steps"])
    view = ViewSettings.model_validate(image["view"])
    crops = [(crop.top, crop.left, -1 if crop.mirrored else 1) for crop in chosen_crops(view)]
    sizes = {"resize": view.resize, "double": 2 * view.resize, "pixels": view.pixels, "crops": crops}
    box = (
        "    width, height = picture.size\n"
        "    side = min(width, height)\n"
        "    left, top = (width - side) / 2, (height - side) / 2\n"
        "    box = (left, top, left + side, top + side)\n"
    )
    return _VIEW.format(**sizes, box=box if view.keep_aspect else "", with_box=", box=box" if view.keep_aspect else "")


def _of_steps(steps: dict[str, Any]) -> str:
    crop = ""
    if steps.get("size"):
        size = f"height, width = {tuple(steps['size'])}"
    else:
        short = steps["shortest"]
        size = (
            f"width, height = (int({short} * width / height), {short}) if width >= height "
            f"else ({short}, int({short} * height / width))"
        )
    if steps.get("crop"):
        high, wide = steps["crop"]
        crop = (
            f"top, left = (height - {high}) // 2, (width - {wide}) // 2\n"
            f"    resized = resized[top : top + {high}, left : left + {wide}]"
        )
    return _STEPS.format(size=size, resample=steps["resample"], crop=crop)


def readme(config: dict[str, Any]) -> str:
    sections = [
        "# A vsekit model as ONNX graphs",
        f"Embeds pictures and sentences in one space of {config['dim']} dimensions; what belongs together has a high "
        f"{config['similarity'].replace('_', ' ')} similarity. Model {config['fingerprint']}; the SHA-256 of each file "
        "stands in `config.json`.",
        "`vsekit.export.runtime.open_exported` reads this folder without torch. So does this program, run in the folder:",
        f"```python\n{program(config)}```",
    ]
    if config.get("querybank"):
        sections.append(
            "`querybank.safetensors` holds embeddings of training pictures and captions (or vectors that are `fitted` to "
            "stand for many of them), and two numbers, a temperature τ "
            "and a weight w. Scores are better less w·h of the picture and w·h of the caption, h being τ·log of the mean "
            "of exp(score / τ) over the bank of the other side."
        )
    if config.get("calibration"):
        sections.append("`calibration.json` says how unrelated pairs score; vsekit's search judges scores by it.")
    return "\n\n".join(sections) + "\n"
