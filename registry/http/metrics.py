"""Metrics of the process, for Prometheus.

Names and labels are kube-apiserver's if it has the same metric. No label has a tenant, a namespace or a name, so that
the number of series is bounded by the requested definitions that still exist, of which those of RESOURCES_LIMIT are
kept, in an LRU cache.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from registry.caches import LruCache

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

REQUESTS = Counter(
    "apiserver_request_total",
    "Requests by verb, group, resource and code.",
    ["verb", "group", "resource", "subresource", "code"],
)
DURATIONS = Histogram(
    "apiserver_request_duration_seconds",
    "Time of a request from its first byte to its last.",
    ["verb", "group", "resource", "subresource"],
    buckets=_BUCKETS,
)
IN_FLIGHT = Gauge("apiserver_current_inflight_requests", "Requests that are being served, watches apart.")
WATCHES = Gauge("apiserver_longrunning_requests", "Watches that are open.")
WATCH_EVENTS = Counter("apiserver_watch_events_total", "Events sent to watchers.", ["group", "resource"])

# The number of resources with series: each has up to some 450 lines.
RESOURCES_LIMIT: Final = 256
# Policies and webhooks may choose any code for their refusals.
_CODES: Final = frozenset(status.value for status in HTTPStatus)


class _Series:
    """The series of one resource. Looked up once for each combination of labels that occurs."""

    def __init__(self, group: str, resource: str) -> None:
        self._group = group
        self._resource = resource
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._histograms: dict[tuple[str, str], Histogram] = {}
        self._events: Counter | None = None

    def counter(self, verb: str, subresource: str, code: int) -> Counter:
        counter = self._counters.get((verb, subresource, code))
        if counter is None:
            counter = REQUESTS.labels(verb, self._group, self._resource, subresource, str(code))
            self._counters[verb, subresource, code] = counter
        return counter

    def histogram(self, verb: str, subresource: str) -> Histogram:
        histogram = self._histograms.get((verb, subresource))
        if histogram is None:
            histogram = DURATIONS.labels(verb, self._group, self._resource, subresource)
            self._histograms[verb, subresource] = histogram
        return histogram

    def events(self) -> Counter:
        if self._events is None:
            self._events = WATCH_EVENTS.labels(self._group, self._resource)
        return self._events

    def remove(self) -> None:
        for verb, subresource, code in self._counters:
            REQUESTS.remove(verb, self._group, self._resource, subresource, str(code))
        for verb, subresource in self._histograms:
            DURATIONS.remove(verb, self._group, self._resource, subresource)
        if self._events is not None:
            WATCH_EVENTS.remove(self._group, self._resource)


_resources: Final[LruCache[tuple[str, str], _Series]] = LruCache(RESOURCES_LIMIT, evicted=lambda _, gone: gone.remove())


def _series(group: str, resource: str) -> _Series:
    return _resources.get((group, resource)) or _resources.put((group, resource), _Series(group, resource))


def forget(group: str, resource: str) -> None:
    """Removes the series of a resource. References to them still count, but are not exposed."""
    series = _resources.pop((group, resource))
    if series is not None:
        series.remove()


def observe(verb: str, group: str, resource: str, subresource: str, code: int, seconds: float) -> None:
    """Records an answered request. `resource` is empty for a path without a resource."""
    series = _series(group, resource)
    series.counter(verb, subresource, code if code in _CODES or code == 499 else 600).inc()
    if verb != "watch":
        series.histogram(verb, subresource).observe(seconds)


def watch_events(group: str, resource: str) -> Counter:
    """Returns the counter of a watch's events."""
    return _series(group, resource).events()


def exposition(registry: CollectorRegistry = REGISTRY) -> bytes:
    """Returns all series in Prometheus' text format, up to 14 MB. Thread-safe."""
    return generate_latest(registry)
