"""What one client may ask of the server, and how often."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from pydantic import Field

from vsekit.parts import Settings


class Limits(Settings):
    """The defaults suit a person or a team; `vse serve --help` has an option for each."""

    upload_bytes: int = Field(default=20 * 2**20, ge=1, description="Of an uploaded picture; counted while it arrives.")
    pixels: int = Field(
        default=100_000_000, ge=1, description="Of a picture, read from its header before it is decoded."
    )
    rate: float = Field(
        default=30, ge=0, description="Requests a second and client, thumbnails counting a twentieth; 0: any."
    )
    burst: float = Field(default=120, ge=1, description="Requests a client may make at once before the rate holds.")
    top: int = Field(default=500, ge=1, description="Hits in one answer.")
    depth: int = Field(default=20_000, ge=1, description="How far down the ranking one may page: offset + top.")
    query_chars: int = Field(default=1000, ge=1, description="Characters of a query.")
    why_words: int = Field(default=64, ge=1, description="Words of a query whose weights are asked for: each is tried.")
    rerank: int = Field(default=200, ge=0, description="Hits that one query may have read again.")
    concurrent: int = Field(default=256, ge=1, description="Requests worked on at a time; further ones are sent away.")
    batch: int = Field(default=64, ge=1, description="Queries encoded in one call.")
    head_seconds: float = Field(default=15, gt=0, description="For the head of a request, from its first byte.")
    body_seconds: float = Field(
        default=30, gt=0, description="For the body of a request, and a second more for every 16 KiB that came."
    )
    read_seconds: float = Field(default=60, gt=0, description="In which a client must take some of its answer.")
    connections: int = Field(default=2000, ge=1, description="Open at a time; as many as the process may have files.")
    connections_per_client: int = Field(
        default=128, ge=1, description="Of those, from one address; not counted behind a proxy."
    )
    archive_pictures: int = Field(default=1000, ge=1, description="Pictures in one archive.")
    archive_bytes: int = Field(default=4 * 2**30, ge=1, description="Of the files in one archive.")
    thumbnail_bytes: int = Field(default=64 * 2**20, ge=0, description="Memory that thumbnails are kept in.")


def client_of(address: str) -> str:
    """Whom an address stands for: of IPv6 its network of 64 bits, in which one client has all addresses to choose from."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # of a socket that is no network's
        return address
    if ip.version == 4:
        return address
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False))


class TokenBuckets:
    """A bucket per client that holds at most `burst` tokens and gains `rate` a second; a request takes some.

    In any time t a client is thus granted at most burst + rate · t. Only the `clients` seen last are remembered: a
    forgotten one starts with a full bucket.
    """

    def __init__(
        self, rate: float, burst: float, *, clients: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self._clients, self._clock = rate, burst, clients, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, client: str, cost: float = 1.0) -> float:
        """Takes `cost` tokens and returns 0, or takes none and returns the seconds until there will be enough."""
        now = self._clock()
        tokens, then = self._buckets.pop(client, (self.burst, now))
        tokens = min(self.burst, tokens + max(0.0, now - then) * self.rate)
        granted = tokens >= cost
        self._buckets[client] = (tokens - cost if granted else tokens, now)
        if len(self._buckets) > self._clients:
            self._buckets.popitem(last=False)
        return 0.0 if granted else (cost - tokens) / self.rate
