"""Availability of the servers of APIServices: the check, and the results that a process has.

A check requests the discovery document of the version. The condition is `Passed`, or has the reason of the failure. The
resources are those of the server's aggregated discovery at /apis, whatever the condition, or else of that document.

Follows kube-aggregator pkg/controllers/status/{remote/remote_available_controller,metrics/metrics}.go and
pkg/apiserver/handler_discovery.go (fetchFreshDiscoveryForService).
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily

from registry.aggregation.backends import Backends, Fetched, NotLocated
from registry.aggregation.discovery import (
    NONE_KNOWN,
    Json,
    Listed,
    Resources,
    fitting,
    published_resources,
    resources_of,
)
from registry.aggregation.model import APIServer
from registry.caches import LruCache
from registry.codec.model import DecodeError
from registry.store.types import Tenant, TenantId
from registry.tasks import cancel
from registry.webhooks.answers import decode_bounded_json, run_aside
from registry.webhooks.connection import Unreachable
from registry.webhooks.streaming import TooManyConnections

CHECK_SECONDS: Final = 5.0
# One success is enough. The next request is made when one has failed, or has not been answered for this long.
_TRIES: Final = 5
_NEXT_TRY_SECONDS: Final = 1.0
_FAILED: Final = "FailedDiscoveryCheck"
_DOCUMENT_BYTES: Final = 4 * 1024 * 1024
_SERIALS: Final = itertools.count(1)
_OPENAPI_INDEX_BYTES: Final = 1024 * 1024
_MAX_VALUES: Final = 50_000
_is_hash: Final = re.compile("[0-9A-Za-z_-]{1,256}").fullmatch
_LONGEST_URL: Final = 4096
_MESSAGE_CHARACTERS: Final = 1024
_AGGREGATED: Final = tuple(
    f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1")
)
# How long a check is valid.
_KNOWN_SECONDS: Final = 120.0
# APIServices of all tenants whose state a process keeps, and names that have a time series.
_KNOWN: Final = 20_000
_SERIES: Final = 256
# Characters of the resources of all servers of a tenant; those that do not fit are not in its discovery.
_CHARACTERS_OF_TENANT: Final = 2 * 1024 * 1024


class AvailabilityVerdict(NamedTuple):
    """The contents of the condition Available. `status` is True, False or Unknown."""

    status: str
    reason: str
    message: str

    @property
    def is_available(self) -> bool:
        return self.status == "True"


PASSED: Final = AvailabilityVerdict("True", "Passed", "all checks passed")


class Finding(NamedTuple):
    """The result of a check. `resources` are those of the server's discovery, None if it has failed.

    `openapi` is the hash of its OpenAPI document, "" if it has none.
    """

    verdict: AvailabilityVerdict
    resources: Listed | None = None
    openapi: str = ""


async def inspect(
    backends: Backends,
    tenant: Tenant,
    server: APIServer,
    report: Callable[[AvailabilityVerdict], Awaitable[None]] | None = None,
) -> Finding:
    """Checks a server, and reads its discovery and OpenAPI index. `report` is called as soon as there is a verdict."""
    discovery = asyncio.create_task(_aggregated_discovery(backends, tenant, server))
    try:
        verdict, document = await check(backends, tenant, server)
        if report is not None:
            await report(verdict)
        openapi = await _openapi_hash(backends, tenant, server) if verdict.is_available else ""
        return Finding(verdict, await _resources(server, await discovery, document), openapi)
    finally:
        await cancel(discovery)


async def _aggregated_discovery(backends: Backends, tenant: Tenant, server: APIServer) -> Fetched | None:
    """The response at /apis, in whatever form; None if there is none."""
    try:
        answer = await backends.fetch(
            tenant, server, "/apis", accept=",".join(_AGGREGATED), seconds=CHECK_SECONDS, limit_bytes=_DOCUMENT_BYTES
        )
    except (Unreachable, TooManyConnections, TimeoutError):
        return None
    return None if answer.status == 503 else answer


async def _resources(server: APIServer, answer: Fetched | None, document: Fetched | None) -> Listed | None:
    """The resources in aggregated discovery, or else in the document of the version. None if both fail."""
    if answer is None:
        return None
    try:
        if answer.status == 200 and _is_aggregated(answer.headers.get(b"content-type", b"")):
            return await _decoded(answer.body, lambda value: published_resources(value, server.group, server.version))
        return None if document is None else await _decoded(document.body, resources_of)
    except DecodeError:
        return None


def _is_aggregated(media_type: bytes) -> bool:
    """Whether a media type is that of aggregated discovery in JSON; the order of its parameters does not matter."""
    parts = frozenset(media_type.decode("latin-1").replace(" ", "").split(";"))
    return any(parts.issuperset(form.split(";")) for form in _AGGREGATED)


async def _decoded(body: bytes, resources: Callable[[Any], list[Json] | None]) -> Listed | None:
    def decoded() -> Listed | None:
        entries = resources(decode_bounded_json(body, max_values=_MAX_VALUES))
        return None if entries is None else fitting(entries)

    return await run_aside(len(body), decoded)


async def _openapi_hash(backends: Backends, tenant: Tenant, server: APIServer) -> str:
    try:
        answer = await backends.fetch(
            tenant, server, "/openapi/v3", seconds=CHECK_SECONDS, limit_bytes=_OPENAPI_INDEX_BYTES
        )
        if answer.status != 200:
            return ""
        return await run_aside(
            len(answer.body),
            lambda: openapi_hash(decode_bounded_json(answer.body, max_values=_MAX_VALUES), server.path.strip("/")),
        )
    except (Unreachable, TooManyConnections, TimeoutError, DecodeError):
        return ""


def openapi_hash(index: Any, path: str) -> str:
    """The hash of a document in an index of OpenAPI documents; "" where it is not listed."""
    paths = index.get("paths") if isinstance(index, dict) else None
    entry = paths.get(path) if isinstance(paths, dict) else None
    url = entry.get("serverRelativeURL") if isinstance(entry, dict) else None
    if not isinstance(url, str):
        return ""
    if len(url) > _LONGEST_URL:
        return "0"
    [digest] = parse_qs(url.partition("?")[2]).get("hash", [""])[:1]
    # Without a hash any constant will do: it only tells clients when to fetch again.
    return digest if _is_hash(digest) else "0"


async def check(backends: Backends, tenant: Tenant, server: APIServer) -> tuple[AvailabilityVerdict, Fetched | None]:
    """Checks a server, within CHECK_SECONDS. Also returns its discovery document.

    kube-aggregator makes all requests at once, each check.
    """
    end = time.monotonic() + CHECK_SECONDS
    attempts: set[asyncio.Task[tuple[AvailabilityVerdict, Fetched | None]]] = set()
    verdict = _failure(server, f'Get "{_url(server)}": context deadline exceeded')
    try:
        for left in reversed(range(_TRIES)):
            attempts.add(asyncio.create_task(_attempt(backends, tenant, server, end - time.monotonic())))
            while attempts:
                done, attempts = await asyncio.wait(
                    attempts, timeout=_NEXT_TRY_SECONDS if left else None, return_when=asyncio.FIRST_COMPLETED
                )
                for attempt in done:
                    verdict, document = attempt.result()
                    if verdict.reason != _FAILED:
                        return verdict, document
                if left:
                    break
    finally:
        await cancel(*attempts)
    return verdict, None


async def _attempt(
    backends: Backends, tenant: Tenant, server: APIServer, seconds: float
) -> tuple[AvailabilityVerdict, Fetched | None]:
    try:
        answer = await backends.fetch(
            tenant, server, server.path, seconds=seconds, limit_bytes=_DOCUMENT_BYTES, fresh=True
        )
    except NotLocated as error:
        return AvailabilityVerdict("False", error.reason, str(error)[:_MESSAGE_CHARACTERS]), None
    except TimeoutError:
        problem = f'Get "{_url(server)}": context deadline exceeded'
    except Unreachable as error:
        problem = f'Get "{_url(server)}": {error}'
    except TooManyConnections:
        problem = f'Get "{_url(server)}": too many connections'
    else:
        if 200 <= answer.status < 300:
            return PASSED, answer
        problem = f"bad status from {_url(server)}: {answer.status}"
    return _failure(server, problem), None


def _failure(server: APIServer, problem: str) -> AvailabilityVerdict:
    message = f"failing or missing response from {_url(server)}: {problem}"
    return AvailabilityVerdict("False", _FAILED, message[:_MESSAGE_CHARACTERS])


def _url(server: APIServer) -> str:
    """The URL for errors, which does not reveal the location of an operator's service."""
    service = server.service
    return f"https://{service.name}.{service.namespace}.svc:{service.port}{server.path}"


class _KnownServer(NamedTuple):
    """`resources` and `openapi` are those of the last check that returned any."""

    server: APIServer
    verdict: AvailabilityVerdict
    at: float
    resources: Resources
    openapi: str


class Availability:
    """What this process knows about the servers of all tenants."""

    def __init__(self) -> None:
        self._known: LruCache[tuple[TenantId, str], _KnownServer] = LruCache(_KNOWN, evicted=self._drop_size)
        # Of the resources of each server that is known.
        self._characters: dict[TenantId, dict[str, int]] = {}

    def is_available(self, tenant: Tenant, server: APIServer) -> bool | None:
        """The result of the last check; None without a recent one."""
        known = self._known.peek((tenant.id, server.name))
        if known is None or known.server != server or time.monotonic() - known.at > _KNOWN_SECONDS:
            return None
        return known.verdict.is_available

    def note_verdict(self, tenant: Tenant, server: APIServer, verdict: AvailabilityVerdict) -> None:
        """Notes whether a server is available; what it serves stays as it was known."""
        key = (tenant.id, server.name)
        before = self._known.peek(key)
        if not verdict.is_available and (before is None or before.verdict.is_available):
            UNAVAILABLE.labels(verdict.reason).inc()
        resources, openapi = NONE_KNOWN, ""
        if before is not None and before.server == server:
            resources, openapi = before.resources, before.openapi
        self._characters.setdefault(tenant.id, {}).setdefault(server.name, 0)
        self._known.put(key, _KnownServer(server, verdict, time.monotonic(), resources, openapi))

    def note(self, tenant: Tenant, server: APIServer, finding: Finding) -> None:
        self.note_verdict(tenant, server, finding.verdict)
        known = self._known.peek((tenant.id, server.name))
        if known is None:
            return
        resources = known.resources
        if finding.resources is not None:
            entries = finding.resources.entries if self._fits(tenant, server, finding.resources.characters) else ()
            if entries != resources.entries:
                resources = Resources(entries, True, next(_SERIALS))
        resources = resources._replace(is_current=finding.resources is not None)
        openapi = finding.openapi if finding.verdict.is_available else known.openapi
        self._known.put((tenant.id, server.name), known._replace(resources=resources, openapi=openapi))

    def _fits(self, tenant: Tenant, server: APIServer, size: int) -> bool:
        """Returns whether the server's resources are within the tenant's share, and counts them if they are."""
        sizes = self._characters.setdefault(tenant.id, {})
        others = sum(sizes.values()) - sizes.get(server.name, 0)
        sizes[server.name] = size if size + others <= _CHARACTERS_OF_TENANT else 0
        return sizes[server.name] == size

    def resources(self, tenant: Tenant, server: APIServer) -> Resources:
        """The resources of a server, as far as known."""
        known = self._known.peek((tenant.id, server.name))
        if known is None or known.server != server:
            return NONE_KNOWN
        return known.resources

    def openapi(self, tenant: Tenant, server: APIServer) -> str:
        """The hash of its OpenAPI document; "" if unknown."""
        known = self._known.peek((tenant.id, server.name))
        return known.openapi if known is not None and known.server == server else ""

    def forget(self, tenant: Tenant, names: Iterable[str]) -> None:
        for name in names:
            self._drop_size((tenant.id, name), self._known.pop((tenant.id, name)))

    def _drop_size(self, key: tuple[TenantId, str], _: object) -> None:
        tenant, name = key
        sizes = self._characters.get(tenant, {})
        sizes.pop(name, None)
        if not sizes:
            self._characters.pop(tenant, None)

    def names_of(self, tenant: Tenant) -> list[str]:
        return list(self._characters.get(tenant.id, ()))

    def measure(self) -> GaugeMetricFamily:
        """Returns the number of tenants in which an APIService of each name is unavailable; 0 if in none."""
        counts: dict[str, int] = {}
        for (_, name), known in zip(self._known.keys(), self._known.values(), strict=False):
            if name in counts or len(counts) < _SERIES:
                counts[name] = counts.get(name, 0) + (not known.verdict.is_available)
        family = GaugeMetricFamily(
            "aggregator_unavailable_apiservice",
            "In how many tenants the APIService of a name is unavailable, as far as this process checks them.",
            labels=["name"],
        )
        for name, count in counts.items():
            family.add_metric([name], count)
        return family


# No label contains names that tenants choose: a counter could never drop them.
UNAVAILABLE: Final = Counter(
    "aggregator_unavailable_apiservice_total", "Times that an APIService has become unavailable, by reason.", ["reason"]
)
