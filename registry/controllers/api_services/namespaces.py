"""Deletes what other servers hold in a terminating namespace, by requests to them.

Nothing waits for a server: the requests for one namespace are a separate task, which the namespace controller polls. An
unavailable server delays the namespace by at most UNAVAILABLE_SECONDS, and not at all if none of its resources can be
deleted. Then the namespace is removed, its name is recorded in an annotation of the APIService, and its content there
is deleted when the server is back. In kube-apiserver such a server blocks the termination of every namespace
(kubernetes#119662).

Follows kubernetes pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from registry.aggregation.availability import Availability
from registry.aggregation.backends import Backends
from registry.aggregation.headers import target
from registry.aggregation.model import Aggregated, APIServer
from registry.authentication.user import AUTHENTICATED, User
from registry.codec.model import DecodeError
from registry.store.types import Tenant, TenantId
from registry.tasks import cancel
from registry.webhooks.answers import decode_bounded_json, run_aside
from registry.webhooks.connection import Unreachable
from registry.webhooks.streaming import TooManyConnections

logger = logging.getLogger(__name__)

UNAVAILABLE_SECONDS: Final = 30.0
# An APIService's namespaces whose content is left to be deleted, separated by commas.
LEFT: Final = "aggregation.registry/left-namespaces"
_LEFT_NAMES: Final = 200
_CALL_SECONDS: Final = 5.0
_ANSWER_BYTES: Final = 4 * 1024 * 1024
# Namespaces, per tenant and in total, that are handled in other servers concurrently.
_OF_TENANT: Final = 4
_TASKS: Final = 1000
_CONTROLLER: Final = User(
    "system:serviceaccount:kube-system:namespace-controller",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED),
)


class Elsewhere(NamedTuple):
    """What became of a namespace's content in other servers: `metrics.example.com/v1` of those that are not available,
    what failed, and how many objects are left, by resource and group."""

    unavailable: Sequence[APIServer] = ()
    failures: Sequence[str] = ()
    remaining: Mapping[str, int] = {}


class NamespaceCleaner:
    def __init__(self, backends: Backends, availability: Availability) -> None:
        self._backends = backends
        self._availability = availability
        self._tasks: dict[tuple[TenantId, str], asyncio.Task[Elsewhere]] = {}

    async def aclose(self) -> None:
        await cancel(*self._tasks.values())

    def delete_content(self, tenant: Tenant, aggregated: Aggregated, namespace: str) -> Elsewhere | None:
        """Returns the result since the last call; None while the deletion is in progress."""
        key = (tenant.id, namespace)
        task = self._tasks.get(key)
        if task is None:
            of_tenant = sum(id == tenant.id for id, _ in self._tasks)
            if of_tenant < _OF_TENANT and len(self._tasks) < _TASKS:
                servers = list(aggregated.servers.values())
                self._tasks[key] = asyncio.create_task(self._delete(tenant, servers, namespace))
            return None
        if not task.done():
            return None
        del self._tasks[key]
        return task.result()

    async def _delete(self, tenant: Tenant, servers: Iterable[APIServer], namespace: str) -> Elsewhere:
        unavailable: list[APIServer] = []
        failures: list[str] = []
        remaining: dict[str, int] = {}
        for server in servers:
            resources = deletable(self._availability.resources(tenant, server).entries)
            known = self._availability.is_available(tenant, server)
            if not (server.available if known is None else known):
                if resources is None or resources:
                    unavailable.append(server)
                continue
            for resource in resources or ():
                try:
                    count = await self.delete(tenant, server, namespace, resource)
                except (Unreachable, TooManyConnections, TimeoutError, DecodeError, _Failed) as error:
                    failures.append(f"{server.path}, Resource={resource}: {str(error) or 'timed out'}")
                else:
                    if count:
                        remaining[f"{resource}.{server.group}"] = count
        return Elsewhere(unavailable, failures, remaining)

    async def delete(self, tenant: Tenant, server: APIServer, namespace: str, resource: str) -> int:
        """Deletes all objects of a resource in a namespace; returns how many are left."""
        path = target(f"{server.path}/namespaces/{namespace}/{resource}", {}).decode()
        await self._ask(tenant, server, "DELETE", path)
        return _items(await self._ask(tenant, server, "GET", path))

    async def _ask(self, tenant: Tenant, server: APIServer, method: str, path: str) -> Any:
        answer = await self._backends.fetch(
            tenant, server, path, method=method, seconds=_CALL_SECONDS, limit_bytes=_ANSWER_BYTES, user=_CONTROLLER
        )
        if not 200 <= answer.status < 300 and answer.status not in (404, 405):
            raise _Failed(f"the server answered {answer.status}")
        body = answer.body or b"{}"
        return await run_aside(len(body), lambda: decode_bounded_json(body))

    async def delete_left(self, tenant: Tenant, server: APIServer, names: Sequence[str]) -> list[str]:
        """Deletes what was left in terminated namespaces; returns the names of those that succeeded."""
        done = []
        for namespace in names:
            resources = deletable(self._availability.resources(tenant, server).entries)
            try:
                for resource in resources or ():
                    await self.delete(tenant, server, namespace, resource)
            except (Unreachable, TooManyConnections, TimeoutError, DecodeError, _Failed) as error:
                logger.warning("%s: the content of namespace %s is not deleted yet: %s", server.name, namespace, error)
                break
            done.append(namespace)
        return done


class _Failed(Exception):
    pass


def deletable(entries: Sequence[Mapping[str, Any]]) -> list[str] | None:
    """Returns the namespaced resources that support deletecollection; None if nothing is known of a server."""
    if not entries:
        return None
    return [e["resource"] for e in entries if e["scope"] == "Namespaced" and "deletecollection" in e["verbs"]]


def with_left(annotations: Mapping[str, str] | None, namespace: str) -> dict[str, str]:
    """Returns annotations of an APIService with one more namespace; beyond the limit the first are dropped."""
    names = [*left_names(annotations), namespace]
    left = list(dict.fromkeys(names))[-_LEFT_NAMES:]
    return {**(annotations or {}), LEFT: ",".join(left)}


def without_left(annotations: Mapping[str, str] | None, done: Sequence[str]) -> dict[str, str]:
    left = [name for name in left_names(annotations) if name not in done]
    others = {name: value for name, value in (annotations or {}).items() if name != LEFT}
    return {**others, LEFT: ",".join(left)} if left else others


def left_names(annotations: Mapping[str, str] | None) -> list[str]:
    return [name for name in ((annotations or {}).get(LEFT) or "").split(",")[:_LEFT_NAMES] if name]


def _items(answer: Any) -> int:
    items = answer.get("items") if isinstance(answer, dict) else None
    return len(items) if isinstance(items, list) else 0
