"""Makes the starter model that comes with vsekit: trains `flickr8k:starter`, and keeps it at half precision with its card.

    python -m studies.starter --data flickr8k

The weights of its encoders are those of pip packages and stay out.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from vsekit import recipes
from vsekit.data.readers import read
from vsekit.evaluation.meeting import embedded, model_scorer
from vsekit.evaluation.protocols import evaluate
from vsekit.files import write_json, write_text
from vsekit.memory import keep_freed_memory
from vsekit.models.model import load_model
from vsekit.progress import Progress
from vsekit.search.calibration import calibrate_pairs
from vsekit.training.loop import train

OUT = Path(__file__).parents[1] / "src" / "vsekit" / "models" / "starter"
NOTE = """
## What to know

- **It is a starter**: small, fast on a CPU, trained on {pictures:,} photographs of people, dogs and outdoor life. It knows little
  of documents, screenshots, products, faces or anything not in such photographs.
- **Training data**: Flickr8k (Hodosh, Young and Hockenmaier 2013), Karpathy's training split. The photographs belong to their
  Flickr users and were given for non-commercial research and education; none is in this package. Whether a model trained on
  them may serve your purpose is for you to decide.
- **Encoders**: EfficientNet-lite0 and lite2 (ImageNet; Apache-2.0) and MiniLM (MIT), read from their pip packages. MiniLM
  was trained on pairs of sentences, Flickr30K's captions among them, and Flickr30K contains Flickr8k's pictures: the
  figures above lean to the good side.
- **At half precision**, as it is here, val gives i→t R@1 {i2t[r1]:.1f}, R@5 {i2t[r5]:.1f}, R@10 {i2t[r10]:.1f};
  t→i R@1 {t2i[r1]:.1f}, R@5 {t2i[r5]:.1f}, R@10 {t2i[r10]:.1f}; rsum {rsum:.1f}.
- **Made by** `python -m studies.starter --data flickr8k`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.starter", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="Flickr8k in Karpathy's JSON, with the pictures")
    parser.add_argument("--run", type=Path, default=Path("runs/flickr8k/starter"), help="the run folder")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    keep_freed_memory()
    pairs = read(options.data)
    train(recipes.load_settings("flickr8k:starter"), pairs, options.run, resume=True, progress=Progress())
    load_model(options.run).save(options.out, half=True)
    val = pairs.split("val")
    model = load_model(options.out)
    images, captions = embedded(model, val)
    metrics = evaluate(model_scorer(model, images, captions), val.picture_groups, val.caption_groups)
    held_out = calibrate_pairs(images.numpy(), captions.numpy(), val.picture_groups, val.caption_groups)
    write_json(options.out / "calibration.json", held_out)
    shutil.copyfile(options.run / "model" / "README.md", options.out / "README.md")
    card = (options.out / "README.md").read_text(encoding="utf-8")
    note = NOTE.format(pictures=len(pairs.split("train").pictures), i2t=metrics.i2t, t2i=metrics.t2i, rsum=metrics.rsum)
    write_text(options.out / "README.md", card.replace("\n## Use\n", f"{note}\n## Use\n", 1))
    print("\n".join(metrics.table()))


if __name__ == "__main__":
    main()
