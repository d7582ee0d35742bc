"""The learning rate at a moment of a stage, as a multiple of the optimiser's; a pure function, so resume needs no state."""

from __future__ import annotations

import math

from vsekit.training.settings import ScheduleSettings


def rate_factor(schedule: ScheduleSettings, epoch: float, epochs: int) -> float:
    """
    >>> rate_factor(ScheduleSettings(steps=(15,)), 14.99, 30), round(rate_factor(ScheduleSettings(steps=(15,)), 15, 30), 3)
    (1.0, 0.1)
    >>> rate_factor(ScheduleSettings(warm_up=2), 0.5, 10)
    0.25
    """
    if epoch < schedule.warm_up:
        return epoch / schedule.warm_up
    if schedule.cosine:
        done = (epoch - schedule.warm_up) / max(epochs - schedule.warm_up, 1e-9)
        return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return float(schedule.factor ** sum(epoch >= step for step in schedule.steps))
