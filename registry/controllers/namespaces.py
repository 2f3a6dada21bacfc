"""Terminates namespaces: deletes their content first.

The content is deleted as by deletecollection with the policy Background, so that only the finalizers of others hold
it; what remains is reported in the namespace's conditions. When it is empty, the namespace's finalizer is removed.

Follows kubernetes pkg/controller/namespace/deletion/{namespaced_resources_deleter,status_condition_utils}.go.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, Final

from registry.aggregation.model import GROUP as AGGREGATION
from registry.aggregation.model import PLURAL
from registry.api.admission.namespace_lifecycle import NAMESPACES
from registry.api.catalog import TenantCatalog
from registry.api.clock import age_seconds, timestamp
from registry.api.decoding import metadata_of, object_of
from registry.api.options import DeleteOptions
from registry.api.served import Object, Served
from registry.api.strategies.namespace import FINALIZER
from registry.api.verbs.update import copy_of, without_finalizer
from registry.controllers.api_services.namespaces import UNAVAILABLE_SECONDS, Elsewhere, NamespaceCleaner, with_left
from registry.controllers.controller_client import CONTROLLER_MANAGER, ControllerClient
from registry.controllers.garbage.references import served_by_name
from registry.controllers.held import HeldContents
from registry.controllers.queue import Requeue
from registry.store.types import ObjectKey, Uid

# The content of a terminating namespace stays readable, and finalizers removable, for this long: operators see the
# mark before their objects go. kube-controller-manager waits five seconds (namespaceDeletionGracePeriod).
GRACE_SECONDS = 2.0
# Of a namespace that holds more objects than this after their deletion, only the first ones' finalizers are counted.
_MAX_FINALIZER_OBJECTS = 10_000
# Of finalizers, the first by name are kept: more than their condition's message has room for.
_MAX_FINALIZERS = 200
_MAX_COUNTED_FINALIZERS = 10_000


async def reconcile(
    client: ControllerClient,
    key: ObjectKey,
    cleaner: NamespaceCleaner | None,
    enqueue: Callable[[], object],
    held: HeldContents,
) -> None:
    """Reconciles one namespace. Raises Requeue while finalizers hold objects in it.

    `cleaner` deletes what other servers hold in it, and calls `enqueue` when it has tried. `held` is what earlier
    attempts have found.
    """
    row, _ = await client.backend.store.load(client.tenant, NAMESPACES, key)
    if row is None or '"deletionTimestamp"' not in row.body:
        return
    metadata = await metadata_of(row.body)
    marked = metadata.get("deletionTimestamp")
    if not marked or FINALIZER not in ((await object_of(row.body)).get("spec") or {}).get("finalizers", ()):
        return
    if (left := GRACE_SECONDS - age_seconds(marked)) > 0:
        raise Requeue(left)
    client = client.with_manager(CONTROLLER_MANAGER)
    remaining, finalizers = await _delete_content(client, str(key), Uid(metadata["uid"]), held)
    elsewhere = await _delete_elsewhere(client, str(key), cleaner, enqueue)
    await _update_conditions(client, key, remaining, finalizers, elsewhere)
    if elsewhere is None or remaining or elsewhere.remaining or elsewhere.failures:
        raise Requeue
    absent = [*elsewhere.unavailable, *(server for server, _ in elsewhere.unanswered)]
    if absent and (left := UNAVAILABLE_SECONDS - age_seconds(marked)) > 0:
        raise Requeue(left)
    for server in absent:
        await client.annotate(AGGREGATION, PLURAL, ObjectKey(server.name), partial(with_left, namespace=str(key)))
    await client.change(
        "",
        "namespaces",
        key,
        lambda old: {**copy_of(old), "spec": without_finalizer(old.get("spec") or {}, FINALIZER)},
        subresource="finalize",
    )


async def _delete_elsewhere(
    client: ControllerClient, namespace: str, cleaner: NamespaceCleaner | None, enqueue: Callable[[], object]
) -> Elsewhere | None:
    """Returns None while the deletion on other servers is in progress."""
    aggregated = (await client.cached_catalog()).aggregated
    if cleaner is None or not aggregated:
        return Elsewhere()
    return cleaner.delete_content(client.tenant, aggregated, namespace, enqueue)


async def _delete_content(
    client: ControllerClient, namespace: str, uid: Uid, held: HeldContents
) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Deletes all objects of the namespace; returns how many remain of each resource, and how many each finalizer
    holds."""
    began = monotonic()
    catalog = await client.catalog()
    content = await _content(client, catalog, namespace)
    known = held.find(uid, _counts(content))
    if known is not None:
        return known.remaining, known.finalizers
    for served, _ in content:
        await client.delete_all(served, DeleteOptions(propagation_policy="Background"), namespace)
    content = await _content(client, catalog, namespace)
    finalizers: Counter[str] = Counter()
    for served, _ in content:
        looked_at = 0
        async for row in client.rows(served, namespace):
            finalizers.update(set((await metadata_of(row.body)).get("finalizers") or ()))
            if len(finalizers) > _MAX_COUNTED_FINALIZERS:
                finalizers = _first(finalizers)
            looked_at += 1
            if looked_at >= _MAX_FINALIZER_OBJECTS:
                break
    remaining, finalizers = _counts(content), _first(finalizers)
    held.keep(uid, remaining, finalizers, began=began)
    return remaining, finalizers


def _first(finalizers: Counter[str]) -> Counter[str]:
    """Returns the first by name, whose counts are complete although others have been dropped in between."""
    return Counter({name: finalizers[name] for name in heapq.nsmallest(_MAX_FINALIZERS, finalizers)})


def _counts(content: list[tuple[Served, int]]) -> dict[str, int]:
    return {f"{served.resource.name}.{served.resource.group}": count for served, count in content}


async def _content(client: ControllerClient, catalog: TenantCatalog, namespace: str) -> list[tuple[Served, int]]:
    content = []
    for resource, count in await client.backend.store.lookups.resources_in_namespace(client.tenant, namespace):
        served = served_by_name(catalog, resource)
        if served is not None and served.namespaced:
            content.append((served, count))
    return content


async def _update_conditions(
    client: ControllerClient,
    key: ObjectKey,
    remaining: Mapping[str, int],
    finalizers: Mapping[str, int],
    elsewhere: Elsewhere | None,
) -> None:
    """Updates the conditions. While other servers are being asked, what they last reported is kept."""
    if elsewhere is None:
        return
    undiscovered = [server.path.removeprefix("/apis/").removeprefix("/api/") for server in elsewhere.unavailable]
    left = {**remaining, **elsewhere.remaining}
    held = Counter(finalizers) + Counter(elsewhere.finalizers)
    failures = [*elsewhere.failures, *(text for _, text in elsewhere.unanswered)]
    now = timestamp()

    def status_of(old: Object) -> Object:
        return with_conditions(old.get("status") or {}, left, held, now, undiscovered=undiscovered, failures=failures)

    await client.change_status("", "namespaces", key, status_of)


Status = dict[str, Any]
# Bounds errors of other servers, and names that they or users make up.
_MESSAGE: Final = 4096


def with_conditions(
    status: Mapping[str, Any],
    remaining: Mapping[str, int],
    finalizers: Mapping[str, int],
    now: str,
    *,
    undiscovered: Sequence[str] = (),
    failures: Sequence[str] = (),
) -> Status:
    """Returns `status` with the five conditions. An unchanged condition keeps its time.

    `remaining` counts the remaining objects by plural and group, `{"configmaps.": 1, "widgets.example.com": 3}`,
    `finalizers` those held by each finalizer. `undiscovered` are group versions whose servers do not respond,
    `failures` other errors.
    """
    conditions = list(status.get("conditions") or ())
    problems = _problems(remaining, finalizers, undiscovered, failures)
    for kind, (reason, otherwise, message) in _REASONS.items():
        problem = problems.get(kind, "")
        condition = {"type": kind, "status": "True" if problem else "False", "reason": reason if problem else otherwise}
        _put(conditions, {**condition, "message": problem[:_MESSAGE] or message, "lastTransitionTime": now})
    return {**status, "conditions": conditions}


def _put(conditions: list[Status], new: Status) -> None:
    for position, old in enumerate(conditions):
        if old.get("type") == new["type"]:
            if any(old.get(k) != new[k] for k in ("status", "reason", "message")):
                conditions[position] = new
            return
    conditions.append(new)


# The reason of each condition where it has a problem to report; the reason and message where it has none.
_REASONS: Final = {
    "NamespaceDeletionDiscoveryFailure": (
        "DiscoveryFailed",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "GroupVersionParsingFailed",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeletionFailed",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("SomeResourcesRemain", "ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": (
        "SomeFinalizersRemain",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
}


def _problems(
    remaining: Mapping[str, int], finalizers: Mapping[str, int], undiscovered: Sequence[str], failures: Sequence[str]
) -> dict[str, str]:
    """Returns the messages of the conditions that have a problem to report."""
    problems = {}
    if undiscovered:
        stale = ", ".join(f"{name}: stale GroupVersion discovery: {name}" for name in undiscovered)
        problems["NamespaceDeletionDiscoveryFailure"] = (
            f"Discovery failed for some groups, {len(undiscovered)} failing: unable to retrieve the complete list of "
            f"server APIs: {stale}"
        )
    if failures:
        text = f"Failed to delete all resource types, {len(failures)} remaining: {', '.join(failures)}"
        problems["NamespaceDeletionContentFailure"] = text
    if remaining:
        counts = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remaining.items()))
        problems["NamespaceContentRemaining"] = f"Some resources are remaining: {counts}"
    if finalizers:
        counts = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        problems["NamespaceFinalizersRemaining"] = f"Some content in the namespace has finalizers remaining: {counts}"
    return problems
