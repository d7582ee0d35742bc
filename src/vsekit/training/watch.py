"""Noticing the field's two training failures while they happen, and saying what to do about them."""

from __future__ import annotations

import math

from vsekit.errors import UserError

PLATEAU_STEPS = 100
PLATEAU_WIDTH = 0.005
#: A validation that is better than chance by this factor has left it.
CLIMB = 1.1
#: A collapsed model ranks as chance does: one whose rsum is this many times that of chance, and has kept half of its best, is none.
FAR = 5.0


class Watch:
    """Looks at every step's loss.

    A collapsed max-of-hinges run sits at 2·batch·margin: every picture and every sentence at one point. It may recover by
    itself (published VSE++ code spent three epochs there), and a loss may have that value while the model learns: the
    hardest negative of a batch is as close as the positive for long. So nothing is said before a validation, nothing while
    validation climbs, and nothing of a model that ranks far better than chance. A loss that is not finite ends the run.

    patience: steps at the plateau before it counts.
    suspicion: what to say, when the plateau has lasted.
    """

    def __init__(self) -> None:
        self.steps_at_plateau = 0
        self.patience = PLATEAU_STEPS
        self.suspicion: str | None = None

    def see(self, loss: float, plateau: float | None, where: str, ranking: float | None = None) -> None:
        """Becomes suspicious the moment the plateau has lasted `patience` steps; raises when `loss` is not finite.

        `ranking` is the part of the loss that has the plateau, where another is added to it.
        """
        if not math.isfinite(loss):
            raise UserError(
                f"the loss became {loss} at {where}",
                remedy="Lower the learning rate (--set stages.NAME.optimiser.lr=…) or clip harder (stages.NAME.clip=…); look "
                "for NaN or huge values in the features with: vse data check. The last checkpoint is from before.",
            )
        value = loss if ranking is None else ranking
        at_plateau = plateau is not None and abs(value - plateau) <= PLATEAU_WIDTH * plateau
        self.steps_at_plateau = self.steps_at_plateau + 1 if at_plateau else 0
        if self.steps_at_plateau != self.patience:
            return
        self.suspicion = (
            f"the loss has sat at {value:.2f} for {self.patience} steps, at {where}: the value of a collapsed model, where all "
            "embeddings are one point. Often it leaves by itself within an epoch or two. If not: start with an epoch of "
            "sum_of_hinges (loss: {kind: sum_to_max, epochs: 1}), lower the learning rate, or take a larger batch."
        )

    def judge(self, rsum: float, best: float | None, chance: float) -> str | None:
        """The warning, if there is one and validation looks like a collapse; it is told once.

        Args:
            best: the best rsum before this one.
            chance: the rsum of scores that say nothing.
        """
        told, self.suspicion = self.suspicion, None
        climbs = rsum > (CLIMB * chance if best is None else best)
        learned = rsum > max(FAR * chance, (best or 0.0) / 2)
        return None if climbs or learned else told


def chance(pictures: int) -> float:
    """The rsum of scores that say nothing: R@K is K of so many pictures, both ways."""
    return 2 * sum(100 * min(1, k / pictures) for k in (1, 5, 10))
