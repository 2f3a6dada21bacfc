"""APIServices as objects; what they do to requests is in the other files of this folder."""

from __future__ import annotations

from typing import Any

import pytest

from registry.api.strategies import strategy_for
from registry.api.strategies.base import Strategy
from registry.builtin import definitions
from tests.aggregation.objects import PATH, api_service, service
from tests.api.client import APPLY, TABLE, Client
from tests.api.errors import failure
from tests.application import shares_application
from tests.definitions.crds import messages


def strategy(subresource: str = "") -> Strategy:
    [found] = [d for d in definitions() if d.names.plural == "apiservices"]
    made = strategy_for(found, found.versions["v1"])
    return made.part(subresource) if subresource else made


@pytest.mark.parametrize(
    "obj, errors",
    [
        pytest.param(api_service(), [], id="local"),
        pytest.param(api_service("v1."), [], id="core group"),
        pytest.param(api_service(**service()), [], id="service"),
        pytest.param(
            api_service() | {"metadata": {"name": "v1.other"}},
            [
                'metadata.name: Invalid value: "v1.other": must be `spec.version+"."+spec.group`: '
                '"v1.metrics.example.com"'
            ],
            id="another name",
        ),
        pytest.param(
            api_service() | {"metadata": {"name": "v1/b"}},
            ["metadata.name: Invalid value: \"v1/b\": may not contain '/'"],
            id="no path segment",
        ),
        pytest.param(
            api_service("v2."),
            ["spec.group: Required value: only v1 may have an empty group and it better be legacy kube"],
            id="no group",
        ),
        pytest.param(
            api_service("v1.a_b"), ['spec.group: Invalid value: "a_b": a lowercase RFC 1123 subdomain must'], id="group"
        ),
        pytest.param(
            api_service("1.g.com"), ['spec.version: Invalid value: "1": a DNS-1035 label must consist'], id="version"
        ),
        pytest.param(
            api_service(groupPriorityMinimum=0, versionPriority=1001),
            [
                "spec.groupPriorityMinimum: Invalid value: 0: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 1001: must be positive and less than 1000",
            ],
            id="priorities",
        ),
        pytest.param(
            api_service(caBundle="YWJj", insecureSkipTLSVerify=True),
            [
                'spec.caBundle: Invalid value: "3 bytes": local APIServices may not have a caBundle',
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
            ],
            id="local with TLS",
        ),
        pytest.param(
            api_service(service={"port": 70000}),
            [
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
            ],
            id="empty service",
        ),
        pytest.param(
            api_service(**service(), caBundle="YWJj", insecureSkipTLSVerify=True),
            ["spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"],
            id="bundle and no verification",
        ),
    ],
)
def test_validation(obj: dict[str, Any], errors: list[str]) -> None:
    found = messages(strategy().validate(obj))
    assert [text[: len(start)] for text, start in zip(found, errors, strict=True)] == errors


def test_the_status_of_a_condition() -> None:
    old = api_service() | {"metadata": {"name": "v1.metrics.example.com", "resourceVersion": "1"}}
    new = {**old, "status": {"conditions": [{"type": "Available", "status": "Perhaps"}]}}
    [error] = messages(strategy("status").validate_update(new, old, []))
    assert error == (
        'status.conditions[0].status: Unsupported value: "Perhaps": supported values: "True", "False", "Unknown"'
    )


@shares_application
async def test_a_local_one_is_available_at_once(api: Client) -> None:
    made = (await api.post(PATH, api_service("v9.local.example.com"))).ok(201)
    [condition] = made["status"]["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
    }


@shares_application
async def test_defaults_of_a_new_api_service(api: Client) -> None:
    wanted = api_service("v9.far.example.com", service={"namespace": "n", "name": "s"})
    made = (await api.post(PATH, wanted | {"status": {"conditions": [{"type": "X", "status": "True"}]}})).ok(201)
    assert made["spec"]["service"]["port"] == 443
    assert "generation" not in made["metadata"]
    assert "X" not in {c["type"] for c in made["status"].get("conditions", ())}


@shares_application
async def test_an_update_needs_the_resource_version(api: Client) -> None:
    made = (await api.post(PATH, api_service("v9.locked.example.com"))).ok(201)
    del made["metadata"]["resourceVersion"]
    status = failure(await api.put(f"{PATH}/v9.locked.example.com", made), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.resourceVersion"


@shares_application
async def test_the_former_version_is_known(api: Client) -> None:
    made = (await api.post(PATH, api_service("v9.former.example.com"))).ok(201)
    former = "apiregistration.k8s.io/v1beta1"
    status = failure(await api.put(f"{PATH}/v9.former.example.com", made | {"apiVersion": former}), 400, "BadRequest")
    assert status["message"] == (
        f"the API version in the data ({former}) does not match the expected API version (apiregistration.k8s.io/v1)"
    )
    patched = (await api.patch(f"{PATH}/v9.former.example.com", {"apiVersion": former})).ok(200)
    assert patched["apiVersion"] == "apiregistration.k8s.io/v1"


@shares_application
async def test_the_status_is_written_alone(api: Client) -> None:
    path = f"{PATH}/v9.parts.example.com"
    made = (await api.post(PATH, api_service("v9.parts.example.com"))).ok(201)
    made["metadata"]["labels"] = {"a": "b"}
    made["spec"]["versionPriority"] = 77
    made["status"]["conditions"].append({"type": "Seen", "status": "True"})
    after = (await api.put(f"{path}/status", made)).ok(200)
    assert "labels" not in after["metadata"]
    assert after["spec"]["versionPriority"] == 15
    assert [c["type"] for c in after["status"]["conditions"]] == ["Available", "Seen"]
    patched = await api.patch(
        f"{path}/status", {"status": {"conditions": [{"type": "Seen", "status": "False"}]}},
        content_type="application/strategic-merge-patch+json",
    )  # fmt: skip
    assert [c["status"] for c in patched.ok(200)["status"]["conditions"] if c["type"] == "Seen"] == ["False"]


@shares_application
async def test_apply_owns_what_it_writes(api: Client) -> None:
    body = api_service("v9.applied.example.com")
    path = f"{PATH}/v9.applied.example.com?fieldManager=m"
    (await api.patch(path, body, content_type=APPLY)).ok(201)
    again = (await api.patch(path, body, content_type=APPLY)).ok(200)
    [entry] = [e for e in again["metadata"]["managedFields"] if e["manager"] == "m"]
    assert set(entry["fieldsV1"]["f:spec"]) == {
        "f:group", "f:version", "f:groupPriorityMinimum", "f:versionPriority",
    }  # fmt: skip


@shares_application
async def test_the_table(api: Client) -> None:
    (await api.post(PATH, api_service("v9.table.example.com", **service(name="none")))).ok(201)
    table = (await api.get(f"{PATH}/v9.table.example.com", accept=TABLE)).ok(200)
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Service", "Available", "Age"]
    assert table["rows"][0]["cells"][:2] == ["v9.table.example.com", "kube-system/none"]


@shares_application
async def test_the_service_cannot_be_used_in_field_selectors(api: Client) -> None:
    failure(await api.get(f"{PATH}?fieldSelector=spec.service=true"), 400, "BadRequest")


@shares_application
async def test_discovery_lists_the_kind(api: Client) -> None:
    document = (await api.get("/apis/apiregistration.k8s.io/v1")).ok(200)
    assert [(r["name"], r.get("categories")) for r in document["resources"]] == [
        ("apiservices", ["api-extensions"]),
        ("apiservices/status", None),
    ]
