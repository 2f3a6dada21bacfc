"""Gauges that only the event loop changes, and those that are measured when metrics are read.

prometheus_client's own take a lock at each change, which is 0.7 µs, several times a request.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import REGISTRY, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector


class LoopGauge:
    """`count` may be read in any thread."""

    __slots__ = ("count",)

    def __init__(self, name: str, documentation: str) -> None:
        self.count = 0
        Gauge(name, documentation).set_function(lambda: self.count)


@contextlib.contextmanager
def expose_gauge(measure: Callable[[], GaugeMetricFamily]) -> Iterator[None]:
    """Within the block, metrics include the gauge that `measure` returns."""
    collector = _Measured(measure)
    REGISTRY.register(collector)
    try:
        yield
    finally:
        REGISTRY.unregister(collector)


class _Measured(Collector):
    def __init__(self, measure: Callable[[], GaugeMetricFamily]) -> None:
        self._measure = measure

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return []  # with two applications in one process, as in tests, each has such a family

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return [self._measure()]
