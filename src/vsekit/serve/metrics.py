"""What Prometheus reads at /metrics."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """A registry of its own, so that several apps live in one process.

    index_size: items by kind, asked for when the metrics are read.
    """

    def __init__(self, index_size: Callable[[], dict[str, int]]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "vsekit_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "vsekit_request_seconds",
            "From a request's arrival to its answer.",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        split = Histogram(
            "vsekit_search_seconds",
            "Searches, split: encode the query, search the store, the rest (waiting, parsing, writing the answer).",
            ["part"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.encode, self.search, self.rest = (split.labels(part) for part in ("encode", "search", "rest"))
        self.batch = Histogram(
            "vsekit_batch_queries",
            "Queries encoded in one call.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            registry=self.registry,
        )
        self.in_flight = Gauge("vsekit_requests_in_flight", "Requests being worked on.", registry=self.registry)
        self.ready = Gauge("vsekit_ready", "1 when the model and the index are loaded.", registry=self.registry)
        self._items = Gauge("vsekit_index_items", "Items in the index.", ["kind"], registry=self.registry)
        self._index_size = index_size
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def text(self) -> bytes:
        for kind, count in self._index_size().items():
            self._items.labels(kind).set(count)
        return generate_latest(self.registry)
