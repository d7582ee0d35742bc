"""Memory of a training step with a large batch: a fine-tuned sentence encoder of MiniLM's size, AdamW, InfoNCE.

| what                                              | target            |
|---------------------------------------------------|-------------------|
| batch 4,096 in chunks of 64 (`stages.NAME.chunk`) | peak under 4 GiB  |
| batch 256 at once, the yardstick                  | for comparison    |

Each in a process of its own, whose peak is the highest it ever had, torch and transformers included. The weights are random.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_STEP = """
import json, resource, sys, time
import torch, transformers
from vsekit.data.text import Vocabulary
from vsekit.data.views import ViewSettings
from vsekit.encoders.text.transformer import Transformer
from vsekit.losses.base import LossContext
from vsekit.losses.info_nce import InfoNCESettings
from vsekit.memory import keep_freed_memory
from vsekit.models.model import VSE
from vsekit.models.settings import ModelSettings
from vsekit.parts import Sets, Tokens
from vsekit.training.step import Batch, Step

batch, chunk = int(sys.argv[1]), int(sys.argv[2]) or None
keep_freed_memory()
torch.manual_seed(0)
text = {"encoder": {"kind": "gru", "word_dim": 8, "dim": 384}, "pooling": "mean", "head": "linear"}
image = {"encoder": "precomputed", "pooling": "single", "head": "linear"}
settings = ModelSettings.model_validate({"dim": 384, "image": image, "text": text})
model = VSE(settings, Vocabulary(map(str, range(9))), ViewSettings.model_validate("1C"), image_dim=1280)
sizes = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
model.text.encoder = Transformer(transformers.BertModel(transformers.BertConfig(**sizes)))
step = Step(model, InfoNCESettings().build(LossContext(batch, 384)), chunk=chunk).train()
optimiser = torch.optim.AdamW(step.parameters(), lr=1e-5)
lengths = torch.randint(8, 17, (batch,))
tokens = Tokens(torch.randint(1000, 30000, (batch, 16)), lengths)
sets = Sets(torch.randn(batch, 1, 1280), torch.ones(batch, 1, dtype=torch.bool))
start = time.process_time()
loss, _ = step(Batch(sets, tokens, torch.arange(batch), 0.0))
loss.backward()
optimiser.step()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([peak / 2**20, time.process_time() - start]))
"""


def run(scale: float = 1.0) -> list[dict[str, Any]]:
    """Args: scale: of the batches."""
    rows = []
    for batch, chunk, target in ((4096, 64, 4.0), (256, 0, None)):
        size = max(64, round(batch * scale))
        command = [sys.executable, "-c", _STEP, str(size), str(chunk)]
        peak, seconds = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        how = f"in chunks of {chunk}" if chunk else "at once"
        rows.append({"name": f"batch {size:,} {how}", "peak_GiB": peak, "cpu_s": seconds, "target": target})
    return rows
