"""What data a row needs, where it comes from, and how to lay it out for `--data`.

None of these collections may be redistributed with the package; each paragraph names the source, the files and the
terms. The formats are those of docs/data-formats.md.
"""

from __future__ import annotations

from typing import Literal

from vsekit.recipes import Row, find

Form = Literal["pictures", "regions", "grid"]

_PICTURES = {
    "coco": (
        "COCO captions in Karpathy's split. Take the 2014 train and val images (123,287 photographs, 19 GB) from the "
        "COCO consortium's download page, and dataset_coco.json from Karpathy's caption_datasets.zip. Lay them out as "
        "DIR/dataset_coco.json, DIR/train2014/*.jpg and DIR/val2014/*.jpg. The captions are CC BY 4.0; the photographs "
        "stay their owners', under Flickr's terms."
    ),
    "flickr30k": (
        "Flickr30K in Karpathy's split. Ask the University of Illinois (Young et al. 2014) for flickr30k-images "
        "(31,783 photographs, 4.4 GB), given for non-commercial research and education, and take "
        "dataset_flickr30k.json from Karpathy's caption_datasets.zip. Lay them out as DIR/dataset_flickr30k.json and "
        "DIR/flickr30k-images/*.jpg."
    ),
    "flickr8k": (
        "Flickr8k in Karpathy's split. Ask the University of Illinois (Hodosh et al. 2013) for Flickr8k_Dataset.zip "
        "(8,091 photographs, 1 GB), given for non-commercial research and education, and take dataset_flickr8k.json "
        "from Karpathy's caption_datasets.zip. Lay them out as DIR/dataset_flickr8k.json and "
        "DIR/Flicker8k_Dataset/*.jpg."
    ),
    "cuhk-pedes": (
        "CUHK-PEDES (Li et al. 2017): 40,206 pictures of 13,003 persons, two descriptions each. Its authors at the "
        "Chinese University of Hong Kong send it on request, for academic use only. Lay it out as it comes: "
        "DIR/reid_raw.json, which holds the official split, and DIR/imgs/ with the folders CUHK01, CUHK03, Market, "
        "cam_a … in it."
    ),
    "scenes": "Drawn scenes, generated here: vse data scenes --out DIR.",
}

_REGIONS = (
    "{name} as features of 36 regions a picture, 2048 numbers each, by the bottom-up attention detector (Anderson et "
    "al. 2018, trained on Visual Genome). The authors of SCAN (Lee et al. 2018) published them as the folder {folder} "
    "of their data.zip; {size}. Lay them out as DIR/train_ims.npy of shape (pictures, 36, 2048) with "
    "DIR/train_caps.txt, five captions a picture and one a line, and the same for dev and {test}. They come from the "
    "{name} photographs, whose terms hold (research use). Regions of another detector, which give other numbers: vse "
    "features detector_regions on the photographs, and --features."
)
_REGION_FOLDERS = {
    "coco": {
        "name": "COCO",
        "folder": "coco_precomp",
        "size": "33 GB of them for training",
        "test": "testall (5,000 pictures)",
    },
    "flickr30k": {"name": "Flickr30K", "folder": "f30k_precomp", "size": "9 GB of them for training", "test": "test"},
}
_GRID = (
    "Then extract the grid of a CNN once, for example vse features timm_vision --set model=MODEL --set output=grid "
    "--data DIR --out FEATURES --dtype float16, and give --features FEATURES beside --data DIR."
)
_WORD2VEC = (
    "It also needs the word2vec vectors trained on GoogleNews (Mikolov et al. 2013): "
    "GoogleNews-vectors-negative300.bin.gz, 1.6 GB, from the word2vec project's page, read as it is: --set "
    "model.text.encoder.word_vectors=FILE."
)


def dataset(row: Row) -> str:
    """The collection's name, without the split that some rows are measured on (flickr30k-val)."""
    return row.dataset.removesuffix("-val")


def split(row: Row, available: dict[str, int]) -> str:
    """The split a row is measured on: test, or val; COCO's testall (5,000) where test is its first 1,000.

    A row without published numbers is measured on val where a collection comes without its test split.
    """
    if row.dataset.endswith("-val") or (not row.published and "test" not in available):
        return "val"
    return "testall" if row.protocol in ("1k", "5k") and "testall" in available else "test"


def form(row: Row) -> Form:
    """Whether a row reads pictures, or features of regions or of a grid."""
    encoder = row.settings["model"]["image"]["encoder"]
    if (encoder if isinstance(encoder, str) else encoder.get("kind")) != "precomputed":
        return "pictures"
    return "grid" if "grid" in row.needs.lower() else "regions"


def needs_word_vectors(row: Row) -> bool:
    return "word2vec" in row.needs


def explain(row: Row) -> str:
    """One paragraph: how to get the row's data and how to lay it out."""
    members = {form(member): member for member in [find(f"{row.recipe}:{name}") for name in row.ensemble] or [row]}
    parts = [_layout(member) for member in members.values()]
    if len(parts) > 1:
        parts.append("Give each by its form: " + " ".join(f"--data {kind}=DIR" for kind in members) + ".")
    parts += [_WORD2VEC] if needs_word_vectors(row) else []
    needs = "; ".join(member.needs or dataset(member) for member in members.values())
    return " ".join([f"{row.id} needs {needs}.", *parts, "Look at it with: vse data check DIR."])


def _layout(row: Row) -> str:
    name, kind = dataset(row), form(row)
    if kind == "regions" and name in _REGION_FOLDERS:
        return _REGIONS.format(**_REGION_FOLDERS[name])
    return _PICTURES[name] + (f" {_GRID}" if kind != "pictures" else "")
