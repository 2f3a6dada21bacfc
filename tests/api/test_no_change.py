"""No-op writes are not stored: the resource version and the times of managedFields stay the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.api.strategies.base import Context
from tests.api.client import APPLY, Client
from tests.api.widgets import WIDGETS, define, definition
from tests.application import shares_application

pytestmark = shares_application

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}, "data": {"k": "v"}}


APPLIED: dict[str, tuple[str, dict[str, Any]]] = {
    "null times": (MAPS, config_map(creationTimestamp=None, resourceVersion=None)),
    "null of other members": (MAPS, {**config_map(deletionTimestamp=None, generation=None, labels=None), "binaryData": None}),
    "empty maps": (MAPS, {**config_map(labels={}, annotations={}), "binaryData": {}}),
    "quantities": (
        "/api/v1/namespaces/default/resourcequotas",
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"}, "spec": {"hard": {"cpu": "1000m"}}},
    ),
    "a secret": (
        "/api/v1/namespaces/default/secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "creationTimestamp": None}, "data": {"a": "YQ=="}},
    ),
    "defaults of a service": (
        "/api/v1/namespaces/default/services",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}},
    ),
    "a custom object": (
        WIDGETS,
        {
            "apiVersion": "test.example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "a", "creationTimestamp": None},
            "spec": {"size": 1},
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("path, applied", APPLIED.values(), ids=APPLIED.keys())
async def test_a_repeated_apply(
    api: Client, path: str, applied: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = (await api.patch(f"{path}/a?fieldManager=m", json.dumps(applied), APPLY)).ok(201)
    at_another_time(monkeypatch)
    again = (await api.patch(f"{path}/a?fieldManager=m", json.dumps(applied), APPLY)).ok(200)
    assert without_status(again) == without_status(made)


def without_status(obj: dict[str, Any]) -> dict[str, Any]:
    """What a controller does not write."""
    metadata = (
        {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields")}
        if "status" in obj
        else obj["metadata"]
    )
    return {k: v for k, v in obj.items() if k not in ("metadata", "status")} | {"metadata": metadata}


def at_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written from now on is written an hour later."""
    now = Context.timestamp_in
    monkeypatch.setattr(Context, "timestamp_in", lambda self, seconds: now(self, seconds + 3600))


async def test_an_atomic_map_with_a_default(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "whole": {
                        "type": "object",
                        "x-kubernetes-map-type": "atomic",
                        "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "d"}},
                    },
                    "list": {
                        "type": "array",
                        "x-kubernetes-list-type": "atomic",
                        "items": {
                            "type": "object",
                            "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "d"}},
                        },
                    },
                },
            }
        },
    }
    await define(api, definition("atoms", "Atom", schema=schema))
    path = "/apis/test.example.com/v1/namespaces/default/atoms"
    spec = {"whole": {"a": "x"}, "list": [{"a": "x"}]}
    applied = {"apiVersion": "test.example.com/v1", "kind": "Atom", "metadata": {"name": "a"}, "spec": spec}
    made = (await api.patch(f"{path}/a?fieldManager=m", json.dumps(applied), APPLY)).ok(201)
    assert made["spec"]["whole"] == {"a": "x", "b": "d"}
    at_another_time(monkeypatch)
    again = (await api.patch(f"{path}/a?fieldManager=m", json.dumps(applied), APPLY)).ok(200)
    assert again == made


async def test_a_put_of_no_managed_fields_clears_those_of_a_built_in_kind(api: Client) -> None:
    """For custom resources `[]` says nothing, as in kube-apiserver."""
    path, widget = APPLIED["a custom object"]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"type": "ExternalName", "externalName": "a.example.com"},
    }
    services = MAPS.replace("configmaps", "services")
    for where, obj, is_builtin in ((MAPS, config_map(), True), (services, service, True), (path, widget, False)):
        made = (await api.patch(f"{where}/a?fieldManager=m", json.dumps(obj), APPLY)).ok(201)
        assert made["metadata"]["managedFields"]
        version = made["metadata"]["resourceVersion"]
        cleared = {**obj, "metadata": {"name": "a", "managedFields": [], "resourceVersion": version}}
        put = (await api.put(f"{where}/a", cleared)).ok(200)
        assert ("managedFields" not in put["metadata"]) == is_builtin
        patched = (await api.patch(f"{where}/a", {"metadata": {"labels": {"a": "b"}}})).ok()
        assert ("managedFields" not in patched["metadata"]) == is_builtin


async def test_an_applied_null_of_any_type_is_dropped(api: Client) -> None:
    """It is owned, but not stored, and applying it again changes nothing."""
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    fields = {"any": anything, "map": {"type": "object", "additionalProperties": anything}, "text": {"type": "string"}}
    fields |= {"port": {"x-kubernetes-int-or-string": True}, "one": {**anything, "enum": ["a"]}}
    nullable = {"nullable": {**anything, "nullable": True}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {**fields, **nullable}}}}
    await define(api, definition("blobs", "Blob", schema=schema))
    blobs = WIDGETS.replace("widgets", "blobs")

    def blob(spec: dict[str, Any]) -> str:
        return json.dumps(
            {"apiVersion": "test.example.com/v1", "kind": "Blob", "metadata": {"name": "a"}, "spec": spec}
        )

    nulls = blob({"any": None, "map": {"a": None, "b": 1}, "nullable": None})
    made = (await api.patch(f"{blobs}/a?fieldManager=m", nulls, APPLY)).ok(201)
    assert made["spec"] == {"map": {"b": 1}, "nullable": None}
    assert "f:any" in made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert (await api.get(f"{blobs}/a")).ok() == made
    assert (await api.patch(f"{blobs}/a?fieldManager=m", nulls, APPLY)).ok(200) == made
    (await api.patch(f"{blobs}/a", {"spec": {"any": {"x": 1}}})).ok()
    after = (await api.patch(f"{blobs}/a?fieldManager=m&force=true", nulls, APPLY)).ok(200)
    assert after["spec"] == {**made["spec"], "any": {"x": 1}}  # a null does not replace a map
    for refused in ({"text": None}, {"port": None}, {"one": None}, {"map": {"a": None}, "port": None}):
        assert (await api.patch(f"{blobs}/a?fieldManager=m", blob(refused), APPLY)).code == 422


async def test_unknown_fields_of_an_object_without_declared_fields(api: Client) -> None:
    """As recorded from kube-apiserver 1.36.2: to an apply the object is a map, so only pruning removes them."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object"},
            "parts": {"type": "array", "items": {"type": "object"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    await define(api, definition("bares", "Bare", schema=schema))
    path = f"{WIDGETS.replace('widgets', 'bares')}/a?fieldManager=m"
    applied: dict[str, Any] = {"apiVersion": "test.example.com/v1", "kind": "Bare", "metadata": {"name": "a"}}
    applied |= {"spec": {"x": 1}, "parts": [{"y": 1}], "free": {"z": 1}}
    made = (await api.patch(path, json.dumps(applied), APPLY)).ok(201)
    assert (made["spec"], made["parts"], made["free"]) == ({}, [{}], {"z": 1})
    [entry] = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:x": {}}, "f:parts": {}, "f:free": {"f:z": {}}}
    assert (await api.patch(path, json.dumps(applied), APPLY)).ok(200) == made
