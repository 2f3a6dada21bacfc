"""Health checks: the process is live, and it is ready while it reaches its database and is not stopping.

    GET /readyz            ok
    GET /readyz?verbose    [+]ping ok
                           [+]database ok
                           ...
                           [-]feed failed: reason withheld
                           readyz check failed
    GET /readyz/database   one check

Follows apiserver pkg/server/healthz/healthz.go (handleRootHealth, adaptCheckToHandler).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from logging import WARNING
from typing import Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from starlette.types import Receive, Scope, Send

from registry.api.request import Backend
from registry.codec.go_text import go_quote
from registry.http.documents.answers import TEXT, send_document
from registry.http.request_state import STATE
from registry.http.serving.stopping import Stopping
from registry.logs import LoggedCondition
from registry.store.errors import StoreError

logger = logging.getLogger(__name__)

ROOTS: Final = ("healthz", "livez", "readyz")
# Anyone may name checks to exclude; the answer repeats at most so many unknown ones.
_MAX_UNKNOWN: Final = 20


class HealthCheck(NamedTuple):
    """`run` raises if the check fails."""

    name: str
    run: Callable[[], Awaitable[object]]


class CheckFailed(Exception):
    """The text is the reason, for the log."""


class HealthEndpoint:
    """One of ROOTS, and the paths of its checks below it."""

    def __init__(self, name: str, checks: Sequence[HealthCheck]) -> None:
        self._name = name
        self._checks = {check.name: check for check in checks}

    @property
    def paths(self) -> tuple[str, ...]:
        return (f"/{self._name}", *(f"/{self._name}/{check}" for check in self._checks))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        info = scope[STATE].info
        single = info.path.removeprefix(f"/{self._name}").removeprefix("/")
        if single:
            await self._send_single(scope, send, self._checks[single])
            return
        excluded = set(info.query.get("exclude", ()))
        failed, lines = False, []
        for check in self._checks.values():
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok\n")
            elif await _passes(check):
                lines.append(f"[+]{check.name} ok\n")
            else:
                lines.append(f"[-]{check.name} failed: reason withheld\n")
                failed = True
        unknown = sorted(excluded - self._checks.keys())[:_MAX_UNKNOWN]
        if unknown:
            quoted = ",".join(go_quote(name) for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}\n")
        if not failed and "verbose" not in info.query:
            await send_document(send, scope, 200, TEXT, b"ok")
            return
        code, verdict = (500, "failed") if failed else (200, "passed")
        text = f"{''.join(lines)}{self._name} check {verdict}\n"
        await send_document(send, scope, code, TEXT, text.encode(errors="replace"))

    async def _send_single(self, scope: Scope, send: Send, check: HealthCheck) -> None:
        if await _passes(check):
            await send_document(send, scope, 200, TEXT, b"ok")
        else:
            await send_document(send, scope, 500, TEXT, b"internal server error: reason withheld\n")


# By the name of the check: checks are called every few seconds, and more often while they fail.
_failing: Final[dict[str, LoggedCondition]] = {}


async def _passes(check: HealthCheck) -> bool:
    try:
        await check.run()
    except (StoreError, CheckFailed) as error:
        condition = _failing.setdefault(
            check.name,
            LoggedCondition(
                logger, f"the health check {check.name} fails", f"the health check {check.name} passes", level=WARNING
            ),
        )
        condition.hold(str(error))
        return False
    if check.name in _failing:
        _failing[check.name].end()
    return True


Problems = Mapping[str, Callable[[], str | None]]


def problems(backend: Backend) -> Problems:
    """Returns what can be wrong, by the names of checks: each returns what is wrong now, or None."""
    return {**backend.store.problems(), "definitions": backend.catalogs.changes.problem}


def health_endpoints(backend: Backend, stopping: Stopping) -> list[HealthEndpoint]:
    """Returns the endpoints. /livez does not check the database, as a restart would not bring it back."""
    store = backend.store

    async def ping() -> None:
        pass

    async def shutdown() -> None:
        if stopping.is_stopping:
            raise CheckFailed("the process stops")

    database = [
        HealthCheck("ping", ping),
        HealthCheck("database", lambda: store.ping()),
        HealthCheck("new-session", store.try_session),
    ]
    names = {check.name for check in database}
    others = [HealthCheck(name, _check_of(find)) for name, find in problems(backend).items() if name not in names]
    return [
        HealthEndpoint("healthz", database),
        HealthEndpoint("livez", [HealthCheck("ping", ping)]),
        HealthEndpoint("readyz", [*database, *others, HealthCheck("shutdown", shutdown)]),
    ]


def measure_outcomes(problems: Problems) -> GaugeMetricFamily:
    """Returns `kubernetes_healthcheck`, as in component-base/metrics/prometheus/slis."""
    family = GaugeMetricFamily(
        "kubernetes_healthcheck", "Outcome of a health check: 1 where it passes.", labels=["name", "type"]
    )
    for name, find in problems.items():
        family.add_metric([name, "readyz"], float(find() is None))
    return family


def _check_of(find: Callable[[], str | None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        if (problem := find()) is not None:
            raise CheckFailed(problem)

    return run
