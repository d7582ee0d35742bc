"""TensorBoard files, on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vsekit.errors import missing_extra


class Board:
    """Writes every number of a metrics line as a scalar."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise missing_extra("tensorboard", "tensorboard") from None
        self.writer = SummaryWriter(str(folder))

    def add(self, event: str, line: dict[str, Any]) -> None:
        step = line["step"]
        for name, value in line.items():
            if isinstance(value, dict):
                self.add(f"{event}/{name}", {"step": step, **value})
            elif isinstance(value, int | float) and name not in ("step", "epoch"):
                self.writer.add_scalar(f"{event}/{name}", value, step)

    def close(self) -> None:
        self.writer.close()
