"""The event for an owner reference to another namespace.

Follows kubernetes pkg/controller/garbagecollector/graph_builder.go (reportInvalidNamespaceOwnerRef).
"""

from __future__ import annotations

import hashlib
from typing import Final

from registry.api.dependents import Reference
from registry.api.errors import StatusError
from registry.api.served import Object, Served
from registry.controllers.controller_client import ControllerClient

COMPONENT: Final = "garbage-collector-controller"
REASON: Final = "OwnerRefInvalidNamespace"


async def report_invalid_namespace(
    client: ControllerClient, served: Served, metadata: Object, reference: Reference
) -> None:
    """Records the event once for each object and owner, unless the namespace is being deleted."""
    event = invalid_namespace_event(served, metadata, reference, client.context().timestamp)
    try:
        await client.create("", "v1", "events", event["metadata"]["namespace"], event)
    except StatusError as error:
        if error.code not in (403, 409):
            raise


def invalid_namespace_event(served: Served, metadata: Object, reference: Reference, now: str) -> Object:
    """Returns the event for an object with `metadata`; a cluster-scoped one has it in the namespace `default`."""
    namespace, name, uid = metadata.get("namespace") or "", metadata["name"], metadata["uid"]
    owner = (
        f"[{reference.get('apiVersion')}/{reference.get('kind')}, namespace: {namespace}, "
        f"name: {reference.get('name')}, uid: {reference.get('uid')}]"
    )
    involved = {
        "kind": served.kind.name,
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "apiVersion": served.api_version,
    }
    if not namespace:
        del involved["namespace"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.{_digest(uid, reference.get('uid') or '')}", "namespace": namespace or "default"},
        "involvedObject": involved,
        "reason": REASON,
        "message": f'ownerRef {owner} does not exist in namespace "{namespace}"',
        "type": "Warning",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "eventTime": None,
    }


def _digest(*parts: str) -> str:
    """Returns sixteen hex digits, like the end of an event's name in a cluster; the same for the same event."""
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:16]
