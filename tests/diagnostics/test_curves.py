from __future__ import annotations

from vsekit.diagnostics.curves import draw_curves, thinned, training_curves


def line(event: str, **values: object) -> dict[str, object]:
    return {"event": event, **values}


LOG = [
    line("train", step=1, loss=4.0, k=7, alignment=0.1, uniformity=0.2),
    line("train", step=2, loss=3.0, k=5, alignment=0.3, uniformity=0.2),
    line("validation", stage="a", epoch=1, i2t={"r1": 10.0}, t2i={"r1": 20.0}, rsum=60.0),
    line("train", step=3, loss=2.0),
    line("validation", stage="b", epoch=1, i2t={"r1": 30.0}, t2i={"r1": 40.0}, rsum=90.0),
    line("end", best={}),
]


def test_epochs_count_on_over_stages_and_k_is_drawn_where_it_was_logged() -> None:
    found = training_curves(LOG)
    assert found.i2t_r1 == [(1, 10.0), (2, 30.0)]
    assert found.t2i_r1 == [(1, 20.0), (2, 40.0)]
    assert found.loss == [(1, 4.0), (2, 3.0), (3, 2.0)]
    assert found.k == [(1, 7.0), (2, 5.0)]
    assert len(draw_curves(found)) == 4


def test_without_k_there_are_two_charts() -> None:
    assert len(draw_curves(training_curves(LOG[3:]))) == 2


def test_long_curves_are_averaged_in_equal_pieces() -> None:
    assert thinned([(1, 1.0), (2, 3.0), (3, 5.0), (4, 7.0)], 2) == [(1.5, 2.0), (3.5, 6.0)]
    assert thinned([(1, 1.0)], 2) == [(1, 1.0)]
