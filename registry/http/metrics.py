"""Metrics of the process, for Prometheus.

Names and labels are kube-apiserver's if it has the same metric. No label has a tenant, a namespace or a name, so that
the number of series is bounded by the requested definitions that still exist, of which those of RESOURCES_LIMIT are
kept, in an LRU cache.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from http import HTTPStatus
from itertools import accumulate
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from registry.caches import LruCache
from registry.gauges import LoopGauge

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

IN_FLIGHT = LoopGauge("apiserver_current_inflight_requests", "Requests that are being served, watches apart.")
WATCHES = LoopGauge("apiserver_longrunning_requests", "Watches that are open.")
WATCH_EVENTS = Counter("apiserver_watch_events_total", "Events sent to watchers.", ["group", "resource"])

# The number of resources with series: each has up to some 450 lines.
RESOURCES_LIMIT: Final = 256
# Policies and webhooks may choose any code for their refusals.
_CODES: Final = frozenset(status.value for status in HTTPStatus)


class _Durations:
    """The histogram of one verb: how many requests ended within each of _BUCKETS, not cumulated, and their seconds."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.seconds = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(_BUCKETS, seconds)] += 1
        self.seconds += seconds

    def cumulated(self) -> list[tuple[str, int]]:
        return list(zip(_BOUNDS, accumulate(self.counts), strict=True))


_BOUNDS: Final = [*map(str, _BUCKETS), "+Inf"]


class _Series:
    """The series of one resource. Only the event loop changes them."""

    __slots__ = ("durations", "events", "requests", "resource")

    def __init__(self, resource: tuple[str, str]) -> None:
        self.resource = resource
        # By verb, subresource and code.
        self.requests: dict[tuple[str, str, int], int] = {}
        self.durations: dict[tuple[str, str], _Durations] = {}
        self.events: Counter | None = None

    def remove(self) -> None:
        if self.events is not None:
            WATCH_EVENTS.remove(*self.resource)


class _Requests(Collector):
    """Exposes the requests of all series. prometheus_client's own counters and histograms take 2.5 µs a request."""

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "apiserver_request_total",
            "Requests by verb, group, resource and code.",
            labels=["verb", "group", "resource", "subresource", "code"],
        )
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Time of a request from its first byte to its last.",
            labels=["verb", "group", "resource", "subresource"],
        )
        for series in _resources.values():
            for (verb, subresource, code), count in list(series.requests.items()):
                requests.add_metric([verb, *series.resource, subresource, str(code)], count)
            for (verb, subresource), measured in list(series.durations.items()):
                durations.add_metric([verb, *series.resource, subresource], measured.cumulated(), measured.seconds)
        return requests, durations


_resources: Final[LruCache[tuple[str, str], _Series]] = LruCache(RESOURCES_LIMIT, evicted=lambda _, gone: gone.remove())
REGISTRY.register(_Requests())


def _series(group: str, resource: str) -> _Series:
    return _resources.get((group, resource)) or _resources.put((group, resource), _Series((group, resource)))


def forget(group: str, resource: str) -> None:
    """Removes the series of a resource. References to them still count, but are not exposed."""
    series = _resources.pop((group, resource))
    if series is not None:
        series.remove()


def observe(verb: str, group: str, resource: str, subresource: str, code: int, seconds: float) -> None:
    """Records an answered request. `resource` is empty for a path without a resource."""
    series = _series(group, resource)
    key = (verb, subresource, code if code in _CODES or code == 499 else 600)
    series.requests[key] = series.requests.get(key, 0) + 1
    if verb != "watch":
        durations = series.durations.get((verb, subresource))
        if durations is None:
            durations = series.durations[verb, subresource] = _Durations()
        durations.observe(seconds)


def watch_events(group: str, resource: str) -> Counter:
    series = _series(group, resource)
    if series.events is None:
        series.events = WATCH_EVENTS.labels(group, resource)
    return series.events


def exposition(registry: CollectorRegistry = REGISTRY) -> bytes:
    """Returns all series in Prometheus' text format, up to 14 MB. Thread-safe."""
    return generate_latest(registry)
