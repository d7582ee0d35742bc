from __future__ import annotations

import pytest
from pydantic import ValidationError

from vsekit.training.schedule import rate_factor
from vsekit.training.settings import ScheduleSettings


def test_vsepp_lowers_the_rate_tenfold_after_15_of_30_epochs() -> None:
    schedule = ScheduleSettings(steps=(15,), factor=0.1)
    factors = [rate_factor(schedule, epoch, 30) for epoch in (0, 14.999, 15, 29.9)]
    assert factors == pytest.approx([1, 1, 0.1, 0.1])


def test_warm_up_rises_linearly_from_zero() -> None:
    schedule = ScheduleSettings(warm_up=2)
    assert [rate_factor(schedule, epoch, 10) for epoch in (0, 0.5, 1, 2, 9)] == pytest.approx([0, 0.25, 0.5, 1, 1])


def test_cosine_is_half_at_half_time_and_zero_at_the_end() -> None:
    schedule = ScheduleSettings(cosine=True)
    assert [rate_factor(schedule, epoch, 10) for epoch in (0, 5, 10)] == pytest.approx([1, 0.5, 0])


def test_cosine_with_steps_is_refused() -> None:
    with pytest.raises(ValidationError, match="either cosine or steps"):
        ScheduleSettings(cosine=True, steps=(3,))
