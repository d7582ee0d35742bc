"""What a run writes down while it goes: metrics.jsonl, timings.jsonl, and TensorBoard files on request."""

from __future__ import annotations

from typing import Any

import torch

from vsekit.seals import KEY
from vsekit.training.board import Board
from vsekit.training.run import Log, RunFolder


class Journal:
    """metrics_size: where metrics.jsonl ended at the last checkpoint; what was written after it is cut. metrics_sha256: of
    what was written before it, where that is known."""

    def __init__(self, folder: RunFolder, metrics_size: int, metrics_sha256: str | None, tensorboard: bool) -> None:
        self.board = Board(folder.path / "tensorboard") if tensorboard else None
        self.metrics, self.timings = Log(folder.metrics, metrics_size, metrics_sha256), Log(folder.timings)

    def event(self, event: str, **values: Any) -> None:
        """A line of metrics, with tensors as numbers."""
        line = {k: v.item() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
        self.metrics.write({"event": event, **line})
        if self.board:
            self.board.add(event, line)

    def timing(self, **values: Any) -> None:
        self.timings.write(values)

    def end(self, line: dict[str, Any]) -> None:
        """The closing line, which makes the run a finished one and vouches for all lines before it."""
        self.metrics.write({**line, KEY: self.metrics_sha256})
        self.flushed()

    def flushed(self) -> int:
        """Makes sure all is on disk; returns the size of the metrics."""
        self.timings.flushed()
        return self.metrics.flushed()

    @property
    def metrics_sha256(self) -> str | None:
        """Of all lines so far."""
        return self.metrics.sha256.hexdigest()

    def close(self) -> None:
        self.metrics.close()
        self.timings.close()
        if self.board:
            self.board.close()


class Silence(Journal):
    """Of a process that does not lead: it writes nothing down."""

    def __init__(self) -> None:
        pass

    def event(self, event: str, **values: Any) -> None:
        pass

    def timing(self, **values: Any) -> None:
        pass

    def end(self, line: dict[str, Any]) -> None:
        pass

    def flushed(self) -> int:
        return 0

    @property
    def metrics_sha256(self) -> str | None:
        return None

    def close(self) -> None:
        pass
