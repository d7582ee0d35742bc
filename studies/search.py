"""How far an answer's judgement can be trusted, and what re-ranking gains; the figures of docs/search.md.

python -m studies.search calibration RUN --data flickr8k --split val [--features DIR] [--topics dog,snow,bik,climb]
python -m studies.search rerank RUN RERANKER --data scenes --split val
python -m studies.search silence MODEL --flickr8k DIR --coco DIR [--learn]        (studies/silence.py)
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch

from studies import silence
from vsekit.data.pairs import Pairs
from vsekit.data.scenes import holds
from vsekit.data.text import tokenize
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.features.reading import Reading
from vsekit.models.model import load_model
from vsekit.search.calibration import Calibration, calibrate
from vsekit.search.items import Item
from vsekit.search.models import VSEModel
from vsekit.search.rerank import standardised
from vsekit.search.sentences import SENTENCES
from vsekit.search.stores import open_store

HELD_OUT = 5  # one caption in so many asks; the others may be in the index
QUERIES = 1000


def judged(
    model: VSEModel,
    pairs: Pairs,
    images: np.ndarray,
    captions: np.ndarray,
    kept: np.ndarray,
    vectors: np.ndarray,
    gone: np.ndarray | None = None,
) -> list[str | None] | None:
    """The match of each query's best picture, in an index of `images` with the captions `kept` (none: sentences).

    gone: (queries, pictures) what is left out for a single query, which leaves the index as it is.
    """
    with tempfile.TemporaryDirectory() as folder, open_store(Path(folder) / "index", create=images.shape[1]) as store:
        owner = pairs.caption_pictures
        store.write([Item(f"p{i}", "image", picture=f"p{i}") for i in range(len(images))], images)
        items = [Item(f"p{owner[i]}#{i}", "caption", text=pairs.captions[i].text, picture=f"p{owner[i]}") for i in kept]
        if items:
            store.write(items, captions[kept])
        written = calibrate(store, model, SENTENCES[1::2])
        if "text-image" not in written["tables"]:
            return None
        found, matches = Calibration(written, store), []
        for q, vector in enumerate(vectors):
            scores = images @ vector if gone is None else np.where(gone[q], -np.inf, images @ vector)
            n = int(np.isfinite(scores).sum())
            matches += found.judge(vector, scores.max(keepdims=True), n, "text", "image").matches
        return matches


def calibration(run: Path, pairs: Pairs, topics: list[str]) -> None:
    vse = load_model(run)
    model = VSEModel(load_model(run), str(run))  # its own: it makes a model read pictures
    images, captions = (np.asarray(side) for side in embedded(vse, pairs))
    owner, n = pairs.caption_pictures, len(pairs.pictures)
    asking = np.arange(len(captions))[HELD_OUT - 1 :: HELD_OUT][:QUERIES]
    rest = np.setdiff1d(np.arange(len(captions)), asking)
    everything = captions[asking]
    own = owner[asking][:, None] == np.arange(n)
    words = [tokenize(caption.text) for caption in pairs.captions]
    others = [text for text in SENTENCES[::2] if "<unk>" not in model.words(text)]
    print(f"{n} pictures\n| known negatives | asked | strong | likely | weak | none | queries |")
    print("|---|" + "---|" * 6)
    for negatives, kept in (("sentences", rest[:0]), ("captions", rest)):

        def row(label: str, matches: list[str | None] | None, negatives: str = negatives) -> None:
            if matches:
                shares = [100 * matches.count(match) / len(matches) for match in ("strong", "likely", "weak", "none")]
                cells = " | ".join(f"{share:.0f}" for share in shares)
                print(f"| {negatives} | {label} | {cells} | {len(matches)} |")

        whole = (model, pairs, images, captions, kept)
        matches = judged(*whole, everything)
        if matches is None:
            print(f"| {negatives} | (the model knows too few words of the sentences) | | | | | |")
            continue
        row("captions of pictures in the index", matches)
        row("their own picture removed", judged(*whole, everything, own))
        if "facts" in pairs.captions[0].meta:
            scenes = [picture.meta["scene"] for picture in pairs.pictures]
            true = np.array([[holds(pairs.captions[c].meta["facts"], scene) for scene in scenes] for c in asking])
            row("all pictures they are true of removed", judged(*whole, everything, true))
        for topic in topics:
            about = np.array([any(word.startswith(topic) for word in caption) for caption in words])
            chosen = captions[asking[about[asking]]]
            row(f"captions with {topic}…", judged(*whole, chosen))
            with_topic = np.bincount(owner, about, n) > 0
            left = pairs.take(np.flatnonzero(~with_topic).tolist())
            left_captions = captions[~with_topic[owner]]
            left_kept = np.flatnonzero(~np.isin(np.flatnonzero(~with_topic[owner]), asking)) if len(kept) else kept
            without = judged(model, left, images[~with_topic], left_captions, left_kept, chosen)
            row(f"the same in an index without the {with_topic.sum()} pictures of it", without)
        if others:
            row("sentences about other things", judged(*whole, model.encode_texts(others)))
        right = (everything @ images.T).argmax(1) == owner[asking]
        found = np.array([match in ("strong", "likely") for match in matches])
        print(
            f"R@1 {100 * right[found].mean():.0f} where a hit is strong or likely, {100 * right[~found].mean():.0f} where none is"
        )


def rerank(run: Path, second: Path, pairs: Pairs) -> None:
    fast, slow = (load_model(path) for path in (run, second))
    scores = []
    for model in (fast, slow):
        scorer = model_scorer(model, *embedded(model, pairs))
        blocks = [
            scorer.block(slice(0, len(pairs.pictures)), slice(c, c + 200)).numpy().copy()
            for c in range(0, len(pairs.captions), 200)
        ]
        scores.append(np.concatenate(blocks, axis=1).T)
    first, again = scores
    owner = pairs.caption_pictures
    print("| re-ranked | weight of the first | R@1 | R@5 | R@10 |\n|---|---|---|---|---|")
    for n, weights in ((0, [1.0]), (20, [0, 0.25, 0.5]), (50, [0, 0.25, 0.5]), (100, [0, 0.25, 0.5])):
        order = np.argsort(-first, axis=1, kind="stable")
        for weight in weights:
            ranks = []
            for row in range(len(first)):
                best = order[row, :n]
                fused = (1 - weight) * standardised(again[row, best]) + weight * standardised(first[row, best])
                new = np.concatenate([best[np.argsort(-fused, kind="stable")], order[row, n:]])
                ranks.append(int(np.flatnonzero(new == owner[row])[0]))
            recalls = " | ".join(f"{100 * np.mean(np.array(ranks) < k):.1f}" for k in (1, 5, 10))
            print(f"| {n or 'none'} | {weight} | {recalls} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["calibration", "rerank", "silence"])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--split", default="val")
    parser.add_argument("--features", type=Path)
    parser.add_argument("--topics", default="")
    parser.add_argument("--flickr8k", type=Path)
    parser.add_argument("--coco", type=Path)
    parser.add_argument("--learn", action="store_true", help="learn when to be silent, too")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "silence":
        if not (given.flickr8k and given.coco):
            parser.error("silence needs --flickr8k and --coco")
        silence.run(str(given.runs[0]), given.flickr8k, given.coco, given.learn)
        return
    if given.data is None:
        parser.error(f"{given.what} needs --data")
    pairs = Reading(given.data, features=given.features).pairs(given.split)
    if given.what == "calibration":
        calibration(given.runs[0], pairs, [topic for topic in given.topics.split(",") if topic])
    else:
        rerank(*given.runs, pairs)


if __name__ == "__main__":
    main()
