"""This module limits the rate of requests to a host: one token bucket for each host, filled at a steady rate.

The buckets are in the coordinator, so the limit holds for all workers together.

    >>> rates = HostRates({"hub.example": Rate(10, 5.0)})
    >>> rates.take("hub.example", 10, now=0.0), rates.take("hub.example", 1, now=0.0)
    (True, False)
    >>> rates.wait("hub.example", 1, now=0.0), rates.take("elsewhere", 1000, now=0.0)
    (0.5, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Rate(NamedTuple):
    """A number of requests in a number of seconds."""

    requests: float
    seconds: float


class HostRates:
    """A bucket of requests for each host that has a rate; other hosts are not limited."""

    def __init__(self, rates: Mapping[str, Rate]) -> None:
        self._rates = {host.lower(): rate for host, rate in rates.items()}
        self._left = {host: rate.requests for host, rate in self._rates.items()}
        self._at: dict[str, float] = {}
        #: When a host that asked to wait may be asked again.
        self._until: dict[str, float] = {}

    def pause(self, host: str, until: float) -> None:
        """Send a host no request before a time, because it answered that it gets too many requests."""
        self._until[host] = max(until, self._until.get(host, until))

    def available(self, host: str, now: float) -> float | None:
        """The requests in the bucket; None for a host without a rate."""
        self.wait(host, 0, now)
        return self._left.get(host)

    def take(self, host: str, requests: float, now: float) -> bool:
        """Take requests from the bucket, if it holds enough; a request for more than its capacity is granted when it is
        full."""
        if self.wait(host, requests, now) > 0:
            return False
        if host in self._rates:
            self._left[host] -= requests
        return True

    def wait(self, host: str, requests: float, now: float) -> float:
        """Seconds until the bucket holds enough requests and the host may be asked."""
        pause = max(0.0, self._until.get(host, now) - now)
        rate = self._rates.get(host)
        if rate is None:
            return pause
        per_second = rate.requests / rate.seconds
        left = min(rate.requests, self._left[host] + (now - self._at.get(host, now)) * per_second)
        self._left[host], self._at[host] = left, now
        return max(pause, (min(requests, rate.requests) - left) / per_second)
