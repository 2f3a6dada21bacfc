"""Errors of invalid objects are bounded in time and length, however many faults an object has."""

from __future__ import annotations

import time
from typing import Any

import pytest

from registry.api.errors import Qualified, apply_conflict, invalid
from registry.schema.field import MAX_ERRORS, MAX_MESSAGE
from registry.schema.field import invalid as invalid_field
from tests.api.client import Client
from tests.api.widgets import GROUP, WIDGETS, define
from tests.api.widgets import definition as definition_of
from tests.application import shares_application

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
HOSTILE = f"/apis/{GROUP}/v1/namespaces/default/hostiles"

# Causes and message, both of them escaped.
MAX_ANSWER_BYTES = 4 * MAX_MESSAGE
# All of these took many seconds, or tens of them; now it is a fraction of one, on a machine that does nothing else.
MAX_SECONDS = 5.0


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}


def owner(number: int, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": f"n{number}", "uid": f"u{number}", **more}


def quota(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"}, "spec": spec}


LONG = "x " * 1_000_000

METADATA: dict[str, dict[str, Any]] = {
    "controllers": {"ownerReferences": [owner(i, controller=True) for i in range(3000)]},
    "owners that are events": {"ownerReferences": [owner(i, kind="Event") for i in range(12_000)]},
    "owners without names": {"ownerReferences": [{"uid": f"{i}"} for i in range(12_000)]},
    "finalizers": {"finalizers": [f" {i}" for i in range(20_000)]},
    "finalizers that exclude each other": {
        "finalizers": ["orphan", "foregroundDeletion", *(f"{i}" for i in range(50_000))]
    },
    "labels": {"labels": {f" {i}": " " for i in range(20_000)}},
    "a long label": {"labels": {"a": LONG}},
    "long names of labels": {"labels": {f"{LONG[:20_000]}{i}": "" for i in range(100)}},
    "annotations": {"annotations": {f" {i}": "" for i in range(20_000)}},
    "a long name": {"name": LONG},
    "a long time": {"creationTimestamp": LONG},
    "a long kind": {"kind": LONG},
    "unknown fields": {f"x{i}": i for i in range(50_000)},
}

QUOTA_SPECS: dict[str, dict[str, Any]] = {
    "scopes": {"scopes": [f"s{i}" for i in range(5000)]},
    "scopes of other resources": {
        "scopes": ["Terminating"] * 5000,
        "hard": {f"hugepages-{i}": "1" for i in range(5000)},
    },
    "selectors": {
        "scopeSelector": {"matchExpressions": [{"scopeName": "Terminating", "operator": "Exists"}] * 5000},
        "hard": {f"hugepages-{i}": "1" for i in range(5000)},
    },
}

INTEGERS = {"type": "object", "additionalProperties": {"type": "integer"}}
SPECS: dict[str, tuple[dict[str, Any], Any]] = {
    "types in a list": ({"type": "array", "items": {"type": "integer"}}, ["a"] * 50_000),
    "types below a long key": (
        {"type": "object", "additionalProperties": INTEGERS},
        {LONG: {f"a{i}": "" for i in range(50_000)}},
    ),
    "values of a long enum": (
        {"type": "array", "items": {"type": "string", "enum": [f"v{i}" for i in range(20_000)]}},
        [f"w{i}" for i in range(50_000)],
    ),
    "long values of an enum": ({"type": "string", "enum": ["a"]}, LONG),
    "a long text": ({"type": "string", "format": "date"}, LONG),
    "many required fields": (
        {
            "type": "array",
            "items": {
                "type": "object",
                "required": [f"r{i}" for i in range(500)],
                "properties": {"r": {"type": "string"}},
            },
        },
        [{}] * 5000,
    ),
    "a set": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        [f"{i % 50_000}" for i in range(100_000)],
    ),
    "lists of sets": (
        {"type": "array", "items": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}},
        [["a", "a"]] * 20_000,
    ),
    "a map": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
        },
        [{"k": f"{i % 20_000}"} for i in range(40_000)],
    ),
    "rules": (
        {
            "type": "array",
            "maxItems": 60_000,
            "items": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": "self == ''"}]},
        },
        ["a"] * 50_000,
    ),
    "forbidden below a long key": (
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}},
            },
        },
        {LONG: {"a": {f"u{i}": {} for i in range(50_000)}}},
    ),
}


async def refused(api: Client, path: str, obj: dict[str, Any]) -> dict[str, Any]:
    """The Status of a create that fails, within the bounds."""
    started = time.process_time()
    answer = await api.post(f"{path}?fieldValidation=Strict", obj)
    seconds = time.process_time() - started
    assert answer.code in (400, 422), answer.body[:500]
    assert len(answer.body) <= MAX_ANSWER_BYTES
    assert seconds < MAX_SECONDS
    status: dict[str, Any] = answer.json
    assert len(status["message"]) <= MAX_MESSAGE + 3
    causes = (status.get("details") or {}).get("causes") or []
    assert len(causes) <= MAX_ERRORS + 1
    return status


@shares_application
@pytest.mark.parametrize(
    "path, obj",
    [
        *(pytest.param(CONFIG_MAPS, config_map(**metadata), id=name) for name, metadata in METADATA.items()),
        *(
            pytest.param(
                WIDGETS,
                {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a", **metadata}},
                id=f"{name}, custom",
            )
            for name, metadata in METADATA.items()
        ),
        *(pytest.param(QUOTAS, quota(**spec), id=name) for name, spec in QUOTA_SPECS.items()),
    ],
)
async def test_metadata(shared_api: Client, path: str, obj: dict[str, Any]) -> None:
    await refused(shared_api, path, obj)


@shares_application
@pytest.mark.parametrize("of_spec, spec", SPECS.values(), ids=SPECS)
async def test_values(api: Client, of_spec: dict[str, Any], spec: Any) -> None:
    await define(api, definition_of("hostiles", "Hostile", schema={"type": "object", "properties": {"spec": of_spec}}))
    await refused(
        api, HOSTILE, {"apiVersion": f"{GROUP}/v1", "kind": "Hostile", "metadata": {"name": "a"}, "spec": spec}
    )


@shares_application
async def test_the_last_cause_says_that_there_are_more(shared_api: Client) -> None:
    status = await refused(shared_api, CONFIG_MAPS, config_map(finalizers=[f" {i}" for i in range(MAX_ERRORS + 1)]))
    *shown, last = status["details"]["causes"]
    assert last == {
        "reason": "FieldValueInvalid",
        "message": "Invalid value: more errors are not shown",
        "field": "<nil>",
    }
    assert status["message"].endswith(", <nil>: Invalid value: more errors are not shown]")
    assert [cause["field"] for cause in shown] == ["metadata.finalizers"] * len(shown)


def test_as_many_causes_as_there_may_be() -> None:
    errors = [invalid_field("a", i, "is wrong") for i in range(MAX_ERRORS)]
    causes = invalid(Qualified("Widget"), "a", errors).status()["details"]["causes"]
    assert [cause["message"] for cause in causes] == [f"Invalid value: {i}: is wrong" for i in range(MAX_ERRORS)]


def test_conflicts_are_bounded() -> None:
    conflicts = [("conflict with m", f".f{i}") for i in range(5000)]
    shown = apply_conflict("conflicts", conflicts).status()["details"]["causes"]
    assert len(shown) == MAX_ERRORS + 1
    assert shown[-1]["message"] == "more conflicts are not shown"


@shares_application
async def test_patch_errors_that_print_the_object_are_bounded(api: Client) -> None:
    (await api.post(CONFIG_MAPS, {**config_map(), "data": {"a": "x" * 1_000_000}})).ok(201)
    answer = await api.patch(f"{CONFIG_MAPS}/a?fieldValidation=Strict", {"unknown": 1})
    assert answer.code == 422
    assert len(answer.body) < 100_000
    assert 'strict decoding error: unknown field \\"unknown\\"' in answer.text


@shares_application
async def test_an_empty_owner_reference(api: Client) -> None:
    status = await refused(api, CONFIG_MAPS, config_map(ownerReferences=[{}]))
    assert [cause["field"].removeprefix("metadata.ownerReferences[0].") for cause in status["details"]["causes"]] == [
        "apiVersion",
        "kind",
        "name",
        "uid",
    ]


@shares_application
async def test_duplicate_owner_references(api: Client) -> None:
    owners = [owner(i % 2000) for i in range(4000)]
    started = time.process_time()
    answer = await api.post(CONFIG_MAPS, config_map(ownerReferences=owners))
    assert time.process_time() - started < MAX_SECONDS
    assert answer.ok(201)["metadata"]["ownerReferences"] == [owner(i) for i in range(2000)]
    assert "duplicate UID(s) observed: u0, u1, u2" in answer.warnings[0]
