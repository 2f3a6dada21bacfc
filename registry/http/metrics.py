"""What the process counts, for Prometheus.

Names and labels are kube-apiserver's where it has the same measure. No label holds a tenant, a namespace or a name, so
that the number of series is bounded by the definitions that are asked for.
"""

from __future__ import annotations

from functools import lru_cache

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

REQUESTS = Counter("apiserver_request_total", "Requests by verb, group, resource and code.",
                   ["verb", "group", "resource", "subresource", "code"])
DURATIONS = Histogram("apiserver_request_duration_seconds", "Time of a request from its first byte to its last.",
                      ["verb", "group", "resource", "subresource"], buckets=_BUCKETS)
IN_FLIGHT = Gauge("apiserver_current_inflight_requests", "Requests that are being served, watches apart.")
WATCHES = Gauge("apiserver_longrunning_requests", "Watches that are open.")
WATCH_EVENTS = Counter("apiserver_watch_events_total", "Events sent to watchers.", ["group", "resource"])

# Series are looked up once for each combination that occurs.
_SERIES_LIMIT = 4096


@lru_cache(_SERIES_LIMIT)
def _counter(verb: str, group: str, resource: str, subresource: str, code: int) -> Counter:
    return REQUESTS.labels(verb, group, resource, subresource, str(code))


@lru_cache(_SERIES_LIMIT)
def _histogram(verb: str, group: str, resource: str, subresource: str) -> Histogram:
    return DURATIONS.labels(verb, group, resource, subresource)


def observe(verb: str, group: str, resource: str, subresource: str, code: int, seconds: float) -> None:
    """One request that has been answered. `resource` is empty for what is no resource."""
    _counter(verb, group, resource, subresource, code).inc()
    if verb != "watch":
        _histogram(verb, group, resource, subresource).observe(seconds)


def exposition(registry: CollectorRegistry = REGISTRY) -> bytes:
    return generate_latest(registry)
