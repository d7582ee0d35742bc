"""#OIPs, "operating items per second": Zhang et al., VSE+2AD, EACL 2023, Tables 2 and 4.

    #OIPs(method) = items / seconds,   printed as a multiple of the slowest method's

The paper says no more. Our reading: an item is a picture or a caption, and an operation all that turns its features or
tokens into a point of the common space. A multiple depends on machine and batch much less than a rate does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


def items_per_second(
    items: int, work: Callable[[], object], *, repeats: int = 3, clock: Callable[[], float] = time.perf_counter
) -> float:
    """How many items a second `work` gets through; the best of `repeats` turns, after one to warm up.

    Args:
        items: pictures and captions that one call of `work` treats.
        clock: seconds; `time.process_time` on one thread of a busy machine.
    """
    if items < 1 or repeats < 1:
        raise ValueError("items and repeats are at least 1")
    work()
    turns = []
    for _ in range(repeats):
        start = clock()
        work()
        turns.append(clock() - start)
    return items / min(turns)


def multiples_of_slowest(rates: Mapping[str, float]) -> dict[str, float]:
    """Each rate divided by the smallest, as the paper prints them.

    >>> multiples_of_slowest({"gcn": 20.0, "mean": 110.0})
    {'gcn': 1.0, 'mean': 5.5}
    """
    slowest = min(rates.values())
    return {name: rate / slowest for name, rate in rates.items()}
