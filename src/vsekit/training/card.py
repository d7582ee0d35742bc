"""The model card: what the model is, what it learned from, what it can do, in a README beside the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from vsekit.files import write_text
from vsekit.training.collection import Collection
from vsekit.training.settings import RunSettings
from vsekit.version import __version__


def write_card(folder: Path, settings: RunSettings, data: Collection, best: dict[str, Any]) -> None:
    model = settings.model
    i2t, t2i = best["i2t"], best["t2i"]
    losses = ", then ".join(f"{stage.loss.kind} ({name})" for name, stage in settings.stages.items())
    bank = "\n- a querybank, with which `vse evaluate` and `vse search` correct scores for hubs; the figures below are without it"
    card = f"""# A vsekit model

Embeds pictures and sentences in one space of {model.dim} dimensions.

- image encoder: {model.image.encoder.kind}; text encoder: {model.text.encoder.kind}; similarity: {model.similarity.kind}
- loss: {losses}
- trained on {data.about}
- made by vsekit {__version__}, seed {settings.seed}{bank if settings.querybank else ""}

## On the validation split ({len(data.val.pictures)} pictures, {len(data.val.captions)} captions)

| | R@1 | R@5 | R@10 | median rank |
|---|---|---|---|---|
| image → text | {i2t["r1"]:.1f} | {i2t["r5"]:.1f} | {i2t["r10"]:.1f} | {i2t["medr"]:g} |
| text → image | {t2i["r1"]:.1f} | {t2i["r5"]:.1f} | {t2i["r10"]:.1f} | {t2i["medr"]:g} |

rsum {best["rsum"]:.1f}, reached in stage {best["stage"]}, epoch {best["epoch"]}; this split chose the snapshot, so the figures
lean to the good side.

## Use

```python
import vsekit

model = vsekit.load("this/folder")
scores = model.similarity(model.encode_images(["photo.jpg"]), model.encode_texts(["a dog on a beach"]))
```

## Settings

```yaml
{yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True).strip()}
```
"""
    write_text(folder / "README.md", card)
