from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vsekit.serve.limits import TokenBuckets, client_of

STEPS = st.lists(st.tuples(st.floats(0, 3), st.floats(0.05, 2)), min_size=1, max_size=60)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@settings(max_examples=100, deadline=None)
@given(STEPS, st.floats(0.1, 20), st.floats(2, 20))
def test_no_stretch_of_time_grants_more_than_the_burst_and_the_rate_allow(
    steps: list[tuple[float, float]], rate: float, burst: float
) -> None:
    clock = Clock()
    buckets = TokenBuckets(rate, burst, clock=clock)
    granted: list[tuple[float, float]] = []
    for pause, cost in steps:
        clock.now += pause
        if buckets.wait("a", cost) == 0:
            granted.append((clock.now, cost))
    for i in range(len(granted)):
        for j in range(i, len(granted)):
            seconds = granted[j][0] - granted[i][0]
            assert sum(cost for _, cost in granted[i : j + 1]) <= burst + rate * seconds + 1e-6


@settings(max_examples=100, deadline=None)
@given(STEPS, st.floats(0.1, 20), st.floats(2, 20))
def test_who_waits_as_long_as_told_is_granted_and_who_comes_sooner_is_not(
    steps: list[tuple[float, float]], rate: float, burst: float
) -> None:
    clock = Clock()
    buckets = TokenBuckets(rate, burst, clock=clock)
    for pause, cost in steps:
        clock.now += pause
        wait = buckets.wait("a", cost)
        if wait > 1e-3:
            clock.now += 0.9 * wait
            assert buckets.wait("a", cost) > 0
            clock.now += 0.1 * wait + 1e-6
            assert buckets.wait("a", cost) == 0


def test_whoever_asks_no_faster_than_the_rate_is_never_refused() -> None:
    clock = Clock()
    buckets = TokenBuckets(2, 1, clock=clock)
    for _ in range(100):
        assert buckets.wait("a") == 0
        clock.now += 0.5


def test_clients_do_not_share_a_bucket() -> None:
    buckets = TokenBuckets(1, 2, clock=Clock())
    assert [buckets.wait("a"), buckets.wait("a"), buckets.wait("b")] == [0, 0, 0]
    assert buckets.wait("a") == 1.0
    assert buckets.wait("b") == 0


def test_a_million_clients_are_not_all_remembered() -> None:
    buckets = TokenBuckets(1, 1, clients=100, clock=Clock())
    for i in range(1000):
        buckets.wait(str(i))
    assert len(buckets._buckets) == 100
    assert buckets.wait("999") > 0


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    clock = Clock()
    buckets = TokenBuckets(1, 2, clock=clock)
    buckets.wait("a")
    clock.now -= 50
    assert buckets.wait("a") == 0


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::ffff", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("testclient", "testclient"),
    ],
)
def test_a_client_does_not_become_many_by_choosing_addresses(address: str, client: str) -> None:
    assert client_of(address) == client
