"""U+0000, valid in JSON but not in PostgreSQL's text: stored as data, refused in names."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.api.client import APPLY, TABLE, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, define, definition, make, widget
from tests.application import shares_application, shares_tenant

pytestmark = [shares_application, shares_tenant]

ZERO = "a\x00b"
CORE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TENANTS = "/apis/tenancy.registry/v1/tenants"
_ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ZERO}}
_REFERENCE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ZERO}
_BINDING = {"metadata": {"name": ZERO}, "roleRef": _REFERENCE}
_TOO_LONG = "x" * 5000


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("POST", f"{RBAC}/clusterroles", _ROLE),
        ("PUT", f"{RBAC}/clusterroles/a%00b", _ROLE),
        ("PATCH", f"{RBAC}/clusterroles/a%00b?fieldManager=m", _ROLE),
        ("POST", f"{RBAC}/clusterrolebindings", _BINDING),
        ("PUT", f"{RBAC}/clusterrolebindings/a%00b", _BINDING),
        ("POST", f"{CORE}/events", {"metadata": {"name": ZERO}, "involvedObject": {"namespace": "default"}}),
        ("POST", f"{CORE}/configmaps", {"metadata": {"name": ZERO}}),
        ("POST", WIDGETS, widget(ZERO)),
        (
            "POST",
            f"/clusters/system{TENANTS}",
            {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": ZERO}},
        ),
        ("POST", f"{RBAC}/clusterroles", {**_ROLE, "metadata": {"name": _TOO_LONG}}),
        ("POST", f"{CORE}/events", {"metadata": {"name": _TOO_LONG}, "involvedObject": {"namespace": "default"}}),
    ],
)
async def test_names_with_a_null_character_are_refused(
    shared_api: Client, method: str, path: str, body: dict[str, Any]
) -> None:
    content_type = APPLY if method == "PATCH" else "application/json"
    status = failure(await shared_api.request(method, path, body, content_type=content_type), 422, "Invalid")
    assert {cause["field"] for cause in status["details"]["causes"]} == {"metadata.name"}


_PATHS = (
    f"{CORE}/configmaps/a%00b",
    f"{RBAC}/clusterroles/a%00b",
    f"{WIDGETS}/a%00b",
    f"{WIDGETS}/a%00b/history",
    f"{DEFINITIONS}/a%00b",
    "/api/v1/namespaces/a%00b",
    "/clusters/a%00b/api/v1/configmaps",
    f"/clusters/system{TENANTS}/a%00b",
    f"/clusters/system{TENANTS}/a%00b/usage",
    "/apis/a%00b/v1/widgets",
    f"/apis/{GROUP}/a%00b/widgets",
    f"/apis/{GROUP}/v1/a%00b",
    f"{WIDGETS}/a/a%00b",
    "/a%00b",
    "/openapi/v3/apis/a%00b/v1",
)


async def test_paths_with_a_null_character_are_not_found(api: Client) -> None:
    for path, method in itertools.product(_PATHS, ("GET", "DELETE")):
        answer = await api.request(method, path)
        assert answer.code in (404, 405), f"{method} {path}: {answer.text}"


_QUERIES = (
    "labelSelector=a%3Da%00b",
    "labelSelector=a%00b",
    "fieldSelector=metadata.name%3Da%00b",
    "fieldSelector=metadata.namespace%3Da%00b",
    "limit=%00",
    "continue=a%00b",
    "resourceVersion=a%00b",
    "resourceVersionMatch=%00",
    "timeoutSeconds=%00",
    "pretty=%00",
    "a%00b=a%00b",
    "deleted=a%00b",
)


async def test_selectors_with_a_null_character(api: Client) -> None:
    for path, query in itertools.product((WIDGETS, f"{CORE}/configmaps", f"{CORE}/events"), _QUERIES):
        answer = await api.get(f"{path}?{query}")
        assert answer.code in (200, 400, 422), f"{path}?{query}: {answer.text}"
        assert answer.code != 200 or answer.json["items"] == [] or "Selector" not in query


async def test_data_keeps_null_characters(api: Client) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    ZERO: {"type": "string", "default": ZERO, "description": ZERO},
                    "b": {"type": "string", "enum": [ZERO, "b"]},
                },
                "x-kubernetes-preserve-unknown-fields": True,
            }
        },
    }
    await define(api, definition("zeros", "Zero", schema=schema, selectableFields=[{"jsonPath": ".spec.b"}]))
    path = f"/apis/{GROUP}/v1/namespaces/default/zeros"
    spec = {ZERO: ZERO, "b": ZERO, "free": {ZERO: [ZERO]}}
    zero = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Zero",
        "metadata": {"name": "a", "annotations": {"a": ZERO}},
        "spec": spec,
    }
    assert (await api.post(path, zero)).ok(201)["spec"] == spec
    assert (await api.patch(f"{path}/a?fieldManager=m", zero, APPLY)).ok()["spec"] == spec
    other = {**zero, "spec": {**spec, ZERO: "other"}}
    assert ".spec.a\\u0000b" in (await api.patch(f"{path}/a?fieldManager=n", other, APPLY)).text
    assert (await api.get(f"{path}/a")).ok()["metadata"]["annotations"] == {"a": ZERO}
    assert len((await api.get(f"{path}?fieldSelector=spec.b%3Da%00b")).ok()["items"]) == 1
    assert len((await api.get(path, accept=TABLE)).ok()["rows"]) == 1
    assert (await api.patch(f"{path}/a", {"spec": {ZERO: "c"}})).ok()["spec"][ZERO] == "c"
    assert len((await api.get(f"{path}/a/history")).ok()["items"]) >= 2


@pytest.mark.parametrize(
    "metadata, field",
    [
        ({"labels": {"a": ZERO}}, "metadata.labels"),
        ({"labels": {ZERO: "a"}}, "metadata.labels"),
        ({"annotations": {ZERO: "a"}}, "metadata.annotations"),
        ({"finalizers": [f"a.b/{ZERO}"]}, "metadata.finalizers"),
        ({"generateName": ZERO}, "metadata.name"),
    ],
)
async def test_metadata_with_null_characters(api: Client, metadata: dict[str, Any], field: str) -> None:
    for path, body in (
        (WIDGETS, widget("" if "generateName" in metadata else "a", metadata=metadata)),
        (f"{CORE}/configmaps", {"metadata": {"name": "a", **metadata}}),
    ):
        if "generateName" in metadata:
            body["metadata"].pop("name", None)
        status = failure(await api.post(path, body), 422, "Invalid")
        assert any(cause["field"].startswith((field, "metadata.generateName")) for cause in status["details"]["causes"])


async def test_managers_and_users_with_a_null_character(api: Client) -> None:
    await make(api, "a")
    answer = await api.patch(f"{WIDGETS}/a?fieldManager=a%00b", {"spec": {"size": 2}})
    assert answer.code in (200, 400, 422)
    review = {
        "spec": {
            "user": ZERO,
            "groups": [ZERO],
            "extra": {ZERO: [ZERO]},
            "uid": ZERO,
            "resourceAttributes": {
                "verb": ZERO,
                "resource": ZERO,
                "namespace": ZERO,
                "name": ZERO,
                "labelSelector": {"rawSelector": ZERO},
            },
        }
    }
    found = (await api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)).ok(201)
    assert found["status"]["allowed"] is False
    rules = await api.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": ZERO}})
    assert rules.code == 201
    token = {"spec": {"audiences": [ZERO], "boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": ZERO}}}
    assert (await api.post(f"{CORE}/serviceaccounts/default/token", token)).code == 404
    seen = await api.get(WIDGETS, headers={"impersonate-user": "a%00b", "impersonate-extra-a%00b": "c"})
    assert seen.code == 403
