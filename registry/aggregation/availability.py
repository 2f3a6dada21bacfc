"""Whether the servers of APIServices answer: one check, and what a process knows of all of them.

A check asks for the discovery document of the version. The condition says `Passed`, or why there was no answer.

Follows kube-aggregator pkg/controllers/status/{remote/remote_available_controller,metrics/metrics}.go.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import REGISTRY, Collector

from registry.aggregation.backends import Backends, NotLocated
from registry.aggregation.model import APIServer
from registry.caches import LruCache
from registry.store.types import Tenant, TenantId
from registry.webhooks.connection import Unreachable
from registry.webhooks.streaming import TooManyConnections

CHECK_SECONDS: Final = 5.0
# A server that answers quickly but wrongly is asked again; one answer is enough.
_TRIES: Final = 3
_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
_MESSAGE_CHARACTERS: Final = 1024
# A check counts for so long.
_KNOWN_SECONDS: Final = 120.0
# APIServices of all tenants whose state a process knows, and names of which there are series.
_KNOWN: Final = 20_000
_SERIES: Final = 256


class Verdict(NamedTuple):
    """What the condition Available says. `status` is True, False or Unknown."""

    status: str
    reason: str
    message: str

    @property
    def is_available(self) -> bool:
        return self.status == "True"


PASSED: Final = Verdict("True", "Passed", "all checks passed")


async def check(backends: Backends, tenant: Tenant, server: APIServer) -> Verdict:
    """Asks the server, for CHECK_SECONDS at the most."""
    problem = ""
    end = time.monotonic() + CHECK_SECONDS
    for _ in range(_TRIES):
        left = end - time.monotonic()
        if left <= 0:
            break
        try:
            found = await backends.fetch(
                tenant, server, server.path, seconds=left, limit_bytes=_DOCUMENT_BYTES, fresh=True
            )
        except NotLocated as error:
            return Verdict("False", error.reason, str(error))
        except TimeoutError:
            problem = f'Get "{_url(server)}": context deadline exceeded'
        except Unreachable as error:
            problem = f'Get "{_url(server)}": {error}'
        except TooManyConnections:
            problem = f'Get "{_url(server)}": too many connections'
        else:
            if 200 <= found.status < 300:
                return PASSED
            problem = f"bad status from {_url(server)}: {found.status}"
    message = f"failing or missing response from {_url(server)}: {problem}"
    return Verdict("False", "FailedDiscoveryCheck", message[:_MESSAGE_CHARACTERS])


def _url(server: APIServer) -> str:
    """As errors show it: the place where an operator's service is stays unnamed."""
    service = server.service
    return f"https://{service.name}.{service.namespace}.svc:{service.port}{server.path}"


class _Known(NamedTuple):
    server: APIServer
    verdict: Verdict
    at: float


class Availability:
    """What this process knows of the servers of all tenants."""

    def __init__(self) -> None:
        self._known: LruCache[tuple[TenantId, str], _Known] = LruCache(_KNOWN)
        self._collector = _Unavailable(self)

    def is_available(self, tenant: Tenant, server: APIServer) -> bool | None:
        """By the last check; None where there was none lately."""
        known = self._known.peek((tenant.id, server.name))
        if known is None or known.server != server or time.monotonic() - known.at > _KNOWN_SECONDS:
            return None
        return known.verdict.is_available

    def note(self, tenant: Tenant, server: APIServer, verdict: Verdict) -> None:
        before = self._known.peek((tenant.id, server.name))
        if not verdict.is_available and (before is None or before.verdict.is_available):
            UNAVAILABLE.labels(verdict.reason).inc()
        self._known.put((tenant.id, server.name), _Known(server, verdict, time.monotonic()))

    def forget(self, tenant: Tenant, names: Iterable[str]) -> None:
        for name in names:
            self._known.pop((tenant.id, name))

    def names_of(self, tenant: Tenant) -> list[str]:
        return [key[1] for key in self._known.keys() if key[0] == tenant.id]  # noqa: SIM118 - it is no dict

    def unavailable(self) -> dict[str, int]:
        """In how many tenants an APIService of each name is unavailable; names of which all are available count 0."""
        found: dict[str, int] = {}
        for (_, name), known in zip(self._known.keys(), self._known.values(), strict=False):
            if name in found or len(found) < _SERIES:
                found[name] = found.get(name, 0) + (not known.verdict.is_available)
        return found

    def expose(self) -> None:
        REGISTRY.register(self._collector)

    def withdraw(self) -> None:
        REGISTRY.unregister(self._collector)


# No label holds a name that tenants choose: as a counter it could never be forgotten.
UNAVAILABLE: Final = Counter(
    "aggregator_unavailable_apiservice_total", "Times that an APIService has become unavailable, by reason.", ["reason"]
)


class _Unavailable(Collector):
    def __init__(self, availability: Availability) -> None:
        self._availability = availability

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return []  # of two applications in one process, as in tests, each has such a family

    def collect(self) -> Iterable[GaugeMetricFamily]:
        family = self._family()
        for name, count in self._availability.unavailable().items():
            family.add_metric([name], count)
        return [family]

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "aggregator_unavailable_apiservice",
            "In how many tenants the APIService of a name is unavailable, as far as this process checks them.",
            labels=["name"],
        )
