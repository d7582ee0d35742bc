"""Karpathy's JSON: dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json (Karpathy and Fei-Fei, CVPR 2015).

    {"dataset": "coco", "images": [{"filename": "COCO_val2014_000000391895.jpg", "filepath": "val2014", "split": "test",
                                    "sentences": [{"raw": "A man with …", "tokens": ["a", …], "sentid": 770337}]}]}

On COCO the papers train on "train" and "restval" together (113,287 pictures).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from vsekit.data.pairs import Pairs
from vsekit.data.readers.base import Options, Reader, expect, files_in, parse_json, read_text, sniff
from vsekit.data.readers.build import Builder, Images
from vsekit.data.readers.problems import Place, Problems

_PICTURE_KEYS = {"filename", "filepath", "split", "sentences", "sentids"}
_SENTENCE_KEYS = {"raw", "tokens", "imgid"}


def find(path: Path, options: Options) -> list[Path]:
    heads = ((file, sniff(file)) for file in files_in(path, ".json"))
    return [file for file, head in heads if head.startswith("{") and '"sentences"' in head]


def read(path: Path, files: list[Path], options: Options, problems: Problems) -> Pairs:
    (file,) = files
    builder, images = Builder(path, options, problems), Images(file, options, problems)
    entries = expect(parse_json(read_text(file, problems), Place(file)), "images", list, Place(file), problems) or []
    names = Counter(str(entry.get("filename")) for entry in entries if isinstance(entry, dict))
    for i, entry in enumerate(entries):
        at = Place(file, field=f"images[{i}]")
        name = expect(entry, "filename", str, at, problems)
        split = expect(entry, "split", str, at, problems) if name else None
        sentences = expect(entry, "sentences", list, at, problems) if name else None
        if name is None or split is None or sentences is None:
            continue
        folder, named = str(entry.get("filepath") or ""), at._replace(field=f"images[{i}].filename")
        picture = builder.picture(
            f"{folder}/{name}" if names[name] > 1 and folder else name,
            images(name, named, folder),
            named,
            split=split,
            meta={key: value for key, value in entry.items() if key not in _PICTURE_KEYS},
        )
        for j, sentence in enumerate(sentences):
            where = Place(file, field=f"images[{i}].sentences[{j}].raw")
            if not isinstance(sentence, dict):
                builder.caption(sentence, picture, where)
                continue
            text = sentence.get("raw")
            if text is None and isinstance(sentence.get("tokens"), list):
                text = " ".join(map(str, sentence["tokens"]))
            meta = {key: value for key, value in sentence.items() if key not in _SENTENCE_KEYS}
            builder.caption(text, picture, where, meta)
    return builder.pairs()


READER = Reader("karpathy", 'a .json with {"images": [{"filename", "split", "sentences"}]}', find, read, single=True)
