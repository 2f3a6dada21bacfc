"""StorageVersionMigrations as objects; what they do is in tests/controllers/test_storage_migration.py."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.strategies import strategy_for
from registry.api.strategies.base import Strategy
from registry.builtin import definitions
from tests.api.client import Client
from tests.api.errors import failure
from tests.application import shares_application
from tests.definitions.crds import messages

PATH = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
WARNING = "storagemigration.k8s.io/v1beta1 StorageVersionMigration is deprecated in v1.38+, unavailable in v1.41+"


def migration(status: dict[str, Any] | None = None, **resource: Any) -> dict[str, Any]:
    return {
        "apiVersion": "storagemigration.k8s.io/v1beta1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": "m", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {"resource": {"group": "g.example.com", "resource": "widgets"} | resource},
        "status": status or {},
    }


def strategy(subresource: str = "") -> Strategy:
    [found] = [d for d in definitions() if d.names.plural == "storageversionmigrations"]
    made = strategy_for(found, found.versions["v1beta1"])
    return made.part(subresource) if subresource else made


@pytest.mark.parametrize(
    "resource, errors",
    [
        pytest.param({}, [], id="good"),
        pytest.param({"group": ""}, [], id="core group"),
        pytest.param(
            {"resource": ""},
            ["spec.resource.resource: Required value: resource is required to be set"],
            id="no resource",
        ),
        pytest.param(
            {"resource": "Widgets"},
            ['spec.resource.resource: Invalid value: "Widgets": a DNS-1035 label must'],
            id="resource",
        ),
        pytest.param(
            {"group": "a_b"},
            ['spec.resource.group: Invalid value: "a_b": a lowercase RFC 1123 subdomain must'],
            id="group",
        ),
    ],
)
def test_the_resource(resource: dict[str, Any], errors: list[str]) -> None:
    reported = messages(strategy().validate(migration(**resource)))
    assert [text[: len(start)] for text, start in zip(reported, errors, strict=True)] == errors


def test_the_spec_is_immutable() -> None:
    [error] = messages(strategy().validate_update(migration(resource="others"), migration(), []))
    assert error == (
        'spec: Invalid value: {"Resource":{"group":"g.example.com","resource":"others"}}: field is immutable'
    )


def condition(kind: str, status: str = "True", **changed: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": "2024-01-01T00:00:00Z",
        "reason": "R",
        "message": "",
    } | changed


def status(*conditions: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"conditions": list(conditions), **members}


@pytest.mark.parametrize(
    "new, old, errors",
    [
        pytest.param(status(condition("Running")), {}, [], id="good"),
        pytest.param(status(resourceVersion="7"), {}, [], id="a revision"),
        pytest.param(
            status(resourceVersion="x"),
            {},
            ['status.resourceVersion: Invalid value: "x": resource version'],
            id="not a revision",
        ),
        pytest.param(
            status(resourceVersion="8"),
            status(resourceVersion="7"),
            ['status.resourceVersion: Invalid value: "8": field is immutable'],
            id="another revision",
        ),
        pytest.param(
            status(condition("A"), condition("A")), {}, ['status.conditions[1]: Duplicate value: "A"'], id="twice"
        ),
        pytest.param(
            status(condition("", "yes", reason="", lastTransitionTime=None, observedGeneration=-1)),
            {},
            [
                "status.conditions[0].type: Required value: is required",
                'status.conditions[0].status: Unsupported value: "yes": supported values: "False", "True", "Unknown"',
                "status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
                "status.conditions[0].lastTransitionTime: Required value",
                "status.conditions[0].reason: Required value",
            ],
            id="empty",
        ),
        pytest.param(
            status(condition("a b", reason="1")),
            {},
            [
                'status.conditions[0].type: Invalid value: "a b": name part must consist of',
                'status.conditions[0].reason: Invalid value: "1": a condition reason must start with alphabetic',
            ],
            id="names",
        ),
        pytest.param(
            status(condition("A", reason="R" * 1025, message="m" * 32769)),
            {},
            ["status.conditions[0].reason: Too long", "status.conditions[0].message: Too long"],
            id="long",
        ),
        pytest.param(
            status(condition("Succeeded"), condition("Failed"), condition("Running")),
            {},
            ["status.conditions: Invalid value: [{"],
            id="all at once",
        ),
        pytest.param(
            status(condition("Succeeded", "False")),
            status(condition("Succeeded")),
            ["status.conditions: Invalid value: [{"],
            id="not succeeded after all",
        ),
        pytest.param(
            status(), status(condition("Failed")), ["status.conditions: Invalid value: []"], id="not failed after all"
        ),
    ],
)
def test_the_status(new: dict[str, Any], old: dict[str, Any], errors: list[str]) -> None:
    reported = messages(strategy("status").validate_update(migration(new), migration(old), []))
    assert [text[: len(start)] for text, start in zip(reported, errors, strict=True)] == errors


@shares_application
async def test_over_http(api: Client) -> None:
    made = await api.post(PATH, migration() | {"metadata": {"generateName": "m-"}, "status": status(condition("A"))})
    assert made.warnings == [WARNING]
    assert made.ok(201)["status"] == {}
    name = made.json["metadata"]["name"]
    refused = failure(await api.patch(f"{PATH}/{name}", {"spec": {"resource": {"resource": "others"}}}), 422, "Invalid")
    assert refused["details"]["causes"][0]["field"] == "spec"
    (await api.delete(f"{PATH}/{name}")).ok(200)


@shares_application
async def test_owners_of_a_migration(api: Client) -> None:
    """The members of the resource are there before a client writes them, so nobody adds the resource itself."""
    body = migration(resource="widgets") | {"metadata": {"name": "owned"}}
    made = (await api.post(f"{PATH}?fieldManager=me&dryRun=All", body)).ok(201)
    [entry] = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {"f:spec": {"f:resource": {"f:group": {}, "f:resource": {}}}}


@shares_application
async def test_the_kind_is_in_discovery(api: Client) -> None:
    resources = (await api.get("/apis/storagemigration.k8s.io/v1beta1")).ok()["resources"]
    assert [(r["name"], r["namespaced"]) for r in resources] == [
        ("storageversionmigrations", False),
        ("storageversionmigrations/status", False),
    ]
