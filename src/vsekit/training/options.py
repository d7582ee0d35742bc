"""How a run is carried out, which changes nothing of what it learns: devices, checkpoints, what it says and shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vsekit.errors import UserError
from vsekit.progress import QUIET, Progress

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Options:
    """checkpoint_seconds: how much work a kill may cost. device, precision: as Lightning Fabric names them.

    deadline: on the clock of `time.monotonic`; no epoch is begun that would end after it.
    """

    checkpoint_seconds: float = 60.0
    tensorboard: bool = False
    device: str = "auto"
    precision: str = "32-true"
    progress: Progress = QUIET
    deadline: float | None = None

    def fabric(self) -> Fabric:
        """Where and how the run computes; the only place that decides it."""
        from lightning_fabric import Fabric

        try:
            return Fabric(accelerator=self.device, devices=1, precision=self.precision)  # type: ignore[arg-type]
        except (ValueError, RuntimeError) as error:
            raise UserError(str(error), field="--device, --precision", remedy="For example --device cpu.") from None
