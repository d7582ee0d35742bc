"""How a run is carried out, which changes nothing of what it learns: devices, checkpoints, what it says and shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vsekit.errors import UserError
from vsekit.progress import QUIET, Progress
from vsekit.training.world import World

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass(frozen=True)
class Options:
    """checkpoint_seconds: how much work a kill may cost. device, precision: as Lightning Fabric names them.

    deadline: on the clock of `time.monotonic`; no epoch is begun that would end after it.
    world: the processes that compute together.
    """

    checkpoint_seconds: float = 60.0
    tensorboard: bool = False
    device: str = "auto"
    precision: str = "32-true"
    progress: Progress = QUIET
    deadline: float | None = None
    world: World = field(default_factory=World)

    def fabric(self) -> Fabric:
        """Where and how the run computes; the only place that decides it."""
        from lightning_fabric import Fabric

        one: dict[str, Any] = {"accelerator": self.device, "precision": self.precision}
        try:
            return Fabric(devices=1, **one) if self.world.alone else _together(self.world, one)
        except (ValueError, RuntimeError) as error:
            raise UserError(str(error), field="--device, --precision", remedy="For example --device cpu.") from None


def _together(world: World, one: dict[str, Any]) -> Fabric:
    """Fabric in a world of several processes, which are connected already."""
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import TorchElasticEnvironment
    from lightning_fabric.strategies import DDPStrategy

    if one["precision"] == "16-mixed":
        raise UserError(
            "16-mixed scales losses in each process by itself",
            field="--precision",
            remedy="Choose bf16-mixed, which needs no scaling, or 32-true.",
        )

    class GlobalBatches(DDPStrategy):
        """Modules stay as they are: `global_batch` averages gradients, in an order that a resumed run repeats."""

        def setup_module(self, module: Any) -> Any:
            return module

    strategy = GlobalBatches(cluster_environment=TorchElasticEnvironment())
    fabric = Fabric(devices=world.local_size, num_nodes=world.size // world.local_size, strategy=strategy, **one)
    fabric.launch()
    return fabric
