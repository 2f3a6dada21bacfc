"""Deletes what other servers hold in a terminating namespace, by requests to them.

Nothing waits for a server: the requests for one namespace are a separate task of the namespace controller. A server
that is unavailable, or does not answer them, delays the namespace by at most UNAVAILABLE_SECONDS and one attempt, and
not at all if none of its resources can be deleted. Then the namespace is removed, its name is recorded in an annotation
of the APIService, and its content there is deleted when the server is back. If there is a namespace of this name again
by then, only what is older is deleted. In kube-apiserver such a server blocks the termination of every namespace
(kubernetes#119662). A process that has not checked a server does so first: what it holds is not known otherwise.

Follows kubernetes pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from registry.aggregation.availability import Availability, inspect
from registry.aggregation.backends import Backends
from registry.aggregation.discovery import Json, Resources
from registry.aggregation.headers import target
from registry.aggregation.model import Aggregated, APIServer
from registry.authentication.user import AUTHENTICATED, User
from registry.codec.json_encode import encode_json
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
# Once a server has not answered, how long an attempt goes on with its other resources.
_ATTEMPT_SECONDS: Final = 10.0
_PAGE: Final = 500
# The most finalizers of a server's objects that are distinguished, and characters of one: qualified names have no more.
_FINALIZERS: Final = 100
_FINALIZER_CHARACTERS: Final = 317
# The longest name, uid or continue token of a server that becomes a part of a request.
_TEXT_CHARACTERS: Final = 4096
# The most of a resource in a namespace that is looked through for what is old.
_PAGES: Final = 100
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_ANSWER_BYTES: Final = 4 * 1024 * 1024
# Namespaces, per tenant and in total, that are handled in other servers concurrently.
_OF_TENANT: Final = 4
_TASKS: Final = 1000
_SERVERS_AT_A_TIME: Final = 32
_CONTROLLER: Final = User(
    "system:serviceaccount:kube-system:namespace-controller",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", AUTHENTICATED),
)


class Elsewhere(NamedTuple):
    """What became of a namespace's content in other servers: the servers that are unavailable, those that have not
    answered some request, what failed, how many objects are left, by resource and group, and how many of those each
    finalizer holds."""

    unavailable: Sequence[APIServer] = ()
    unanswered: Sequence[tuple[APIServer, str]] = ()
    failures: Sequence[str] = ()
    remaining: Mapping[str, int] = {}
    finalizers: Mapping[str, int] = {}


class NamespaceCleaner:
    def __init__(self, backends: Backends, availability: Availability) -> None:
        self._backends = backends
        self._availability = availability
        self._tasks: dict[tuple[TenantId, str], asyncio.Task[Elsewhere]] = {}

    async def aclose(self) -> None:
        await cancel(*self._tasks.values())

    def delete_content(
        self, tenant: Tenant, aggregated: Aggregated, namespace: str, notify: Callable[[], object]
    ) -> Elsewhere | None:
        """Returns the result since the last call; None during the deletion, at whose end `notify` is called."""
        key = (tenant.id, namespace)
        task = self._tasks.get(key)
        if task is None:
            of_tenant = sum(id == tenant.id for id, _ in self._tasks)
            if of_tenant < _OF_TENANT and len(self._tasks) < _TASKS:
                servers = list(aggregated.servers.values())
                task = self._tasks[key] = asyncio.create_task(self._delete(tenant, servers, namespace))
                task.add_done_callback(lambda _: notify())
            return None
        if not task.done():
            return None
        del self._tasks[key]
        return task.result()

    async def _delete(self, tenant: Tenant, servers: Iterable[APIServer], namespace: str) -> Elsewhere:
        places = asyncio.Semaphore(_SERVERS_AT_A_TIME)

        async def delete_in(server: APIServer) -> Elsewhere:
            async with places:
                return await self._delete_in(tenant, server, namespace)

        # No server waits for another one that hangs, unless there are many.
        outcomes = await asyncio.gather(*map(delete_in, servers))
        finalizers: Counter[str] = Counter()
        for one in outcomes:
            finalizers.update(one.finalizers)
        return Elsewhere(
            [server for one in outcomes for server in one.unavailable],
            [each for one in outcomes for each in one.unanswered],
            [failure for one in outcomes for failure in one.failures],
            {resource: count for one in outcomes for resource, count in one.remaining.items()},
            finalizers,
        )

    async def _delete_in(self, tenant: Tenant, server: APIServer, namespace: str) -> Elsewhere:
        is_available, published = await self._published(tenant, server)
        resources = deletable(published)
        if resources is None or not is_available:
            return Elsewhere(() if resources == [] else (server,))
        unanswered: list[tuple[APIServer, str]] = []
        failures: list[str] = []
        remaining: dict[str, int] = {}
        finalizers: Counter[str] = Counter()
        began = time.monotonic()
        for resource in resources:
            if unanswered and time.monotonic() > began + _ATTEMPT_SECONDS:
                break
            name, called = resource["resource"], f"{server.path}, Resource={resource['resource']}"
            try:
                left = await self.delete(tenant, server, namespace, resource)
            except _ServerRefused as error:
                failures.append(f"{called}: {error}")
                continue
            except _UNANSWERED as error:
                unanswered.append((server, f"{called}: {str(error) or 'timed out'}"))
                continue
            if left:
                remaining[f"{name}.{server.group}"] = len(left)
                held = [finalizer for obj in left for finalizer in _finalizers(obj)]
                finalizers.update(one for one in held if one in finalizers or len(finalizers) < _FINALIZERS)
                if not held:
                    failures.append(f"unexpected items still remain in namespace: {namespace} for gvr: {called}")
        return Elsewhere((), unanswered, failures, remaining, finalizers)

    async def _published(self, tenant: Tenant, server: APIServer) -> tuple[bool, Resources]:
        """Returns whether a server is available, and what it serves."""
        is_available = self._availability.is_available(tenant, server)
        published = self._availability.resources(tenant, server)
        if is_available is False or (is_available and (published.is_current or published.entries)):
            return is_available, published
        finding = await inspect(self._backends, tenant, server)
        if finding.resources is not None:
            published = Resources(finding.resources.entries, True)
        return finding.verdict.is_available, published

    async def delete(self, tenant: Tenant, server: APIServer, namespace: str, resource: Json) -> list[Json]:
        """Deletes the objects of a resource in a namespace; returns those that are left, at most _PAGE.

        Deletes them one by one where there is no deletecollection, _PAGE with each call.
        """
        path = f"{server.path}/namespaces/{namespace}/{resource['resource']}"
        can_list = "list" in resource["verbs"]
        if "deletecollection" not in resource["verbs"] or not await self._delete_at(tenant, server, path):
            for obj in await self._list(tenant, server, path) if can_list else ():
                if name := _segment(obj):
                    await self._delete_at(tenant, server, path, f"/{name}")
        return await self._list(tenant, server, path) if can_list else []

    async def _delete_older(
        self, tenant: Tenant, server: APIServer, namespace: str, resource: Json, than: datetime.datetime
    ) -> bool:
        """Deletes the objects of a resource in a namespace that were created before; returns whether there were any."""
        path, are_any = f"{server.path}/namespaces/{namespace}/{resource['resource']}", False
        if "list" in resource["verbs"]:
            async for page in self._pages(tenant, server, path):
                for obj in page:
                    name, uid = _segment(obj), _metadata(obj).get("uid")
                    if name and isinstance(uid, str) and 0 < len(uid) <= _TEXT_CHARACTERS and _is_older(obj, than):
                        are_any = True
                        await self._delete_at(tenant, server, path, f"/{name}", uid)
        return are_any

    async def _delete_at(self, tenant: Tenant, server: APIServer, path: str, name: str = "", uid: str = "") -> bool:
        """Returns False if the server has no such method, or nothing there. `uid`, if given, is a precondition."""
        asked, body = target(path, {}).decode() + name + "?propagationPolicy=Background", b""
        if uid:
            body = encode_json({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}})
        return await self._ask(tenant, server, "DELETE", asked, body=body) is not None

    async def _list(self, tenant: Tenant, server: APIServer, path: str) -> list[Json]:
        """Returns the first objects."""
        return await anext(self._pages(tenant, server, path))

    async def _pages(self, tenant: Tenant, server: APIServer, path: str) -> AsyncIterator[list[Json]]:
        after: Any = ""
        for _ in range(_PAGES):
            query = {"limit": [str(_PAGE)], **({"continue": [after]} if after else {})}
            answer = await self._ask(tenant, server, "GET", target(path, query).decode(), _METADATA)
            items = answer.get("items") if isinstance(answer, dict) else None
            yield [obj for obj in items if isinstance(obj, dict)][:_PAGE] if isinstance(items, list) else []
            after = _metadata(answer).get("continue") if isinstance(answer, dict) else ""
            if not isinstance(after, str) or not 0 < len(after) <= _TEXT_CHARACTERS:
                break

    async def _ask(
        self,
        tenant: Tenant,
        server: APIServer,
        method: str,
        path: str,
        accept: str = "application/json",
        body: bytes = b"",
    ) -> Any:
        """Returns the answer, or None for 404 and 405. Raises _ServerRefused or one of _UNANSWERED."""
        answer = await self._backends.fetch(
            tenant,
            server,
            path,
            method=method,
            accept=accept,
            seconds=_CALL_SECONDS,
            limit_bytes=_ANSWER_BYTES,
            user=_CONTROLLER,
            body=body,
        )
        if answer.status in (404, 405):
            return None
        if not 200 <= answer.status < 300:
            refused = 400 <= answer.status < 500 and answer.status != 429
            raise (_ServerRefused if refused else _ServerFailed)(f"the server answered {answer.status}")
        answered = answer.body or b"{}"
        return await run_aside(len(answered), lambda: decode_bounded_json(answered))

    async def delete_left(
        self, tenant: Tenant, server: APIServer, namespace: str, created: datetime.datetime | None
    ) -> bool | None:
        """Deletes what was left in a terminated namespace; returns whether nothing is left, None if the server fails.

        `created` is when there was a namespace of this name again: what is in it since then stays.
        """
        resources = deletable(self._availability.resources(tenant, server))
        if resources is None:
            return None
        try:
            if created is None:
                return not any([await self.delete(tenant, server, namespace, resource) for resource in resources])
            # What was left is older than the wait for the server, which the clocks of both may differ by.
            than = created - datetime.timedelta(seconds=UNAVAILABLE_SECONDS)
            older = [await self._delete_older(tenant, server, namespace, resource, than) for resource in resources]
            return not any(older)
        except (_ServerRefused, *_UNANSWERED) as error:
            logger.warning("%s: the content of namespace %s is not deleted yet: %s", server.name, namespace, error)
            return None


class _ServerRefused(Exception):
    """A server answered with an error of the client."""


class _ServerFailed(Exception):
    """A server answered with an error of its own, or otherwise not as it should."""


_UNANSWERED: Final = (Unreachable, TooManyConnections, TimeoutError, DecodeError, _ServerFailed)


def deletable(published: Resources) -> list[Json] | None:
    """Returns the namespaced resources whose objects can be deleted; None if nothing is known of a server."""
    if not published.entries and not published.is_current:
        return None
    return [
        e
        for e in published.entries
        if e["scope"] == "Namespaced" and "delete" in e["verbs"] and len(e["resource"]) <= _TEXT_CHARACTERS
    ]


def with_left(annotations: Mapping[str, str], namespace: str) -> dict[str, str]:
    """Returns annotations of an APIService with one more namespace; beyond the limit the first are dropped."""
    names = [*left_names(annotations), namespace]
    left = list(dict.fromkeys(names))[-_LEFT_NAMES:]
    return {**annotations, LEFT: ",".join(left)}


def without_left(annotations: Mapping[str, str], done: Sequence[str]) -> dict[str, str]:
    left = [name for name in left_names(annotations) if name not in done]
    others = {name: value for name, value in annotations.items() if name != LEFT}
    return {**others, LEFT: ",".join(left)} if left else others


def left_names(annotations: Mapping[str, str]) -> list[str]:
    return [name for name in (annotations.get(LEFT) or "").split(",")[:_LEFT_NAMES] if name]


def _metadata(obj: Json) -> Json:
    metadata = obj.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _segment(obj: Json) -> str:
    """The name of an object as the segment of a path; "" if it cannot be one, or is too long."""
    name = _metadata(obj).get("name")
    if not isinstance(name, str) or len(name) > _TEXT_CHARACTERS or not name.strip("."):
        return ""
    return quote(name, safe="")


def _is_older(obj: Json, than: datetime.datetime) -> bool:
    created = _metadata(obj).get("creationTimestamp")
    try:
        return isinstance(created, str) and datetime.datetime.fromisoformat(created) < than
    except (ValueError, TypeError):  # no time, or one without a zone
        return False


def _finalizers(obj: Json) -> set[str]:
    finalizers = _metadata(obj).get("finalizers")
    if not isinstance(finalizers, list):
        return set()
    return {one for one in finalizers if isinstance(one, str) and len(one) <= _FINALIZER_CHARACTERS}
