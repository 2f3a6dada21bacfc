"""Of a write of an object its status is ignored, of one of /status its spec; nor does the manager own what is ignored.

As in Kubernetes' test/integration/apiserver/apply (TestFieldsWipingConsistency, TestApplyResetFields), for each kind that
has the subresource. Whether /status takes metadata depends on the kind.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.api.client import APPLY, Answer, Client
from tests.api.widgets import DEFINITIONS, WIDGETS, define, definition, widget
from tests.application import shares_application

pytestmark = shares_application

Json = dict[str, Any]

CONDITION = {
    "type": "Example",
    "status": "True",
    "reason": "R",
    "message": "m",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
RULE = {"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["xs"]}

# The collection, an object of it, what is changed of its spec and its status, and whether /status takes metadata.
KINDS: dict[str, tuple[str, Json, Json, Json, bool]] = {
    "a definition": (
        DEFINITIONS,
        definition("wiped", "Wiped"),
        {"names": {"categories": ["a"]}},
        {"conditions": [CONDITION]},
        True,
    ),
    "a service": (
        "/api/v1/namespaces/default/services",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
         "spec": {"type": "ExternalName", "externalName": "a.example.com"}},
        {"externalName": "b.example.com"},
        {"conditions": [CONDITION]},
        True,
    ),
    "a namespace": (
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "wiped"}},
        {},
        {"conditions": [{**CONDITION, "type": "NamespaceContentRemaining"}]},
        True,
    ),
    "an API service": (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.wiped.example.com"},
         "spec": {"group": "wiped.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}},
        {"versionPriority": 2},
        {"conditions": [CONDITION]},
        False,
    ),
    "a policy": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "p"},
         "spec": {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}]}},
        {"failurePolicy": "Ignore"},
        {"conditions": [CONDITION]},
        False,
    ),
    "a custom resource": (WIDGETS, widget("w", size=1), {"size": 2}, {"phase": "Done"}, False),
}  # fmt: skip


def _merged(base: Json, changes: Json) -> Json:
    """A JSON merge patch."""
    found = copy.deepcopy(base)
    for name, value in changes.items():
        old = found.get(name)
        found[name] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return found


async def _put(api: Client, path: str, changes: Json, obj: Json) -> Answer:
    current = (await api.get(path.removesuffix("/status").partition("?")[0])).ok()
    return await api.put(f"{path}?fieldManager=me", _merged(current, changes))


async def _merge(api: Client, path: str, changes: Json, obj: Json) -> Answer:
    return await api.patch(f"{path}?fieldManager=me", changes)


async def _strategic(api: Client, path: str, changes: Json, obj: Json) -> Answer:
    return await api.patch(f"{path}?fieldManager=me", changes, "application/strategic-merge-patch+json")


async def _apply(api: Client, path: str, changes: Json, obj: Json) -> Answer:
    return await api.patch(f"{path}?fieldManager=me&force=true", _merged(obj, changes), APPLY)


WRITES: dict[str, Callable[[Client, str, Json, Json], Awaitable[Answer]]] = {
    "put": _put,
    "merge patch": _merge,
    "strategic merge patch": _strategic,
    "apply": _apply,
}


def _owned(obj: Json, subresource: str) -> set[str]:
    """The parts of the object that the manager of the write owns."""
    return {
        name.removeprefix("f:")
        for entry in obj["metadata"]["managedFields"]
        if entry["manager"] == "me" and entry.get("subresource", "") == subresource
        for name in entry["fieldsV1"]
    }


def _has_status(obj: Json, status: Json) -> bool:
    """Whether the object has this phase, or this condition among those of controllers."""
    found = obj.get("status") or {}
    if "conditions" not in status:
        return bool(found == status)
    return all(condition in found.get("conditions", []) for condition in status["conditions"])


def _otherwise(status: Json) -> Json:
    if "conditions" in status:
        return {"conditions": [{**condition, "message": "other"} for condition in status["conditions"]]}
    return {"phase": "Other"}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("collection, obj, spec, status, takes_metadata", KINDS.values(), ids=KINDS)
async def test_what_a_write_ignores_is_not_owned(
    api: Client,
    write: Callable[[Client, str, Json, Json], Awaitable[Answer]],
    collection: str,
    obj: Json,
    spec: Json,
    status: Json,
    takes_metadata: bool,
) -> None:
    if write is _strategic and collection == WIDGETS:
        pytest.skip("custom resources have no strategic merge patch")
    path = f"{collection}/{obj['metadata']['name']}"
    if collection == DEFINITIONS:
        await define(api, obj)  # and waits for what the controllers write
    else:
        (await api.post(collection, obj)).ok(201)
    made = (await api.get(path)).ok()
    changes = {"metadata": {"annotations": {"a": "b"}}, "spec": spec, "status": status}
    at_status = (await write(api, f"{path}/status", changes, obj)).ok(200)
    assert _has_status(at_status, status)
    assert at_status["spec"] == made["spec"]
    assert ("annotations" in at_status["metadata"]) is takes_metadata
    assert _owned(at_status, "status") == ({"metadata", "status"} if takes_metadata else {"status"})
    changes["status"] = _otherwise(status)
    written = (await write(api, path, changes, obj)).ok(200)
    assert _has_status(written, status)
    assert written["spec"] == _merged(made["spec"], spec)
    assert written["metadata"]["annotations"] == {"a": "b"}
    assert "status" not in _owned(written, "")
