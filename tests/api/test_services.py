"""Services: what is refused, and who owns what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.client import APPLY, Client
from tests.api.errors import failure
from tests.application import shares_application

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


HTTP = {"name": "http", "port": 80}
NAME = "must consist of lower case alphanumeric characters"


@shares_application
@pytest.mark.parametrize(
    "spec, field, message",
    [
        pytest.param({}, "spec.ports", "Required value", id="no ports"),
        pytest.param({"ports": [HTTP, {"port": 81}]}, "spec.ports[1].name", "Required value", id="a port without a name"),
        pytest.param({"ports": [HTTP, {**HTTP, "port": 81}]}, "spec.ports[1].name", 'Duplicate value: "http"', id="a name twice"),
        pytest.param(
            {"ports": [{"port": 70000}]}, "spec.ports[0].port", "Invalid value: 70000: must be between 1 and 65535, inclusive", id="port"
        ),
        pytest.param(
            {"ports": [{"port": 80, "protocol": "X"}]},
            "spec.ports[0].protocol",
            'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
            id="protocol",
        ),
        pytest.param(
            {"ports": [{"port": 80, "targetPort": "80"}]},
            "spec.ports[0].targetPort",
            'Invalid value: "80": must contain at least one letter (a-z)',
            id="target port",
        ),
        pytest.param(
            {"ports": [{"port": 80, "nodePort": 30000}]},
            "spec.ports[0].nodePort",
            "Forbidden: may not be used when `type` is 'ClusterIP'",
            id="node port",
        ),
        pytest.param({"type": "ExternalName"}, "spec.externalName", "Required value", id="no external name"),
        pytest.param({"type": "ExternalName", "externalName": "A_b"}, "spec.externalName", 'Invalid value: "A_b": a lowercase RFC 1123', id="external name"),
        pytest.param(
            {"type": "X", "ports": [HTTP]},
            "spec.type",
            'Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
            id="type",
        ),
        pytest.param(
            {"type": "NodePort", "clusterIP": "None", "ports": [HTTP]},
            "spec.clusterIPs[0]",
            "Invalid value: \"None\": may not be set to 'None' for NodePort services",
            id="headless",
        ),
        pytest.param({"ports": [HTTP], "selector": {"a b": "c"}}, "spec.selector", 'Invalid value: "a b": name part', id="selector"),
        pytest.param(
            {"ports": [HTTP], "sessionAffinity": "X"},
            "spec.sessionAffinity",
            'Unsupported value: "X": supported values: "ClientIP", "None"',
            id="affinity",
        ),
    ],
)  # fmt: skip
async def test_refused(shared_api: Client, spec: dict[str, Any], field: str, message: str) -> None:
    status = failure(await shared_api.post(SERVICES, service(**spec)), 422, "Invalid")
    cause = status["details"]["causes"][0]
    assert cause["field"] == field
    assert cause["message"].startswith(message)
    assert (status["details"]["kind"], status["details"]["name"]) == ("Service", "s")


@shares_application
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"clusterIP": "None"}, id="headless without ports"),
        pytest.param({"type": "ExternalName", "externalName": "db.example.com."}, id="external name"),
        pytest.param(
            {"ports": [HTTP, {"name": "dns", "port": 80, "protocol": "UDP", "targetPort": "dns-udp"}]}, id="ports"
        ),
    ],
)
async def test_taken(shared_api: Client, spec: dict[str, Any]) -> None:
    (await shared_api.post(SERVICES, service("taken", **spec))).ok(201)
    broken = {"type": "ClusterIP", "clusterIP": None, "ports": None, "externalName": None}
    failure(await shared_api.patch(f"{SERVICES}/taken", {"spec": broken}), 422, "Invalid")
    (await shared_api.delete(f"{SERVICES}/taken")).ok()


async def test_the_status_belongs_to_who_writes_it_through_status(api: Client) -> None:
    status = {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}
    applied = json.dumps({**service(ports=[HTTP]), "status": status})
    made = (await api.patch(f"{SERVICES}/s?fieldManager=main", applied, APPLY)).ok(201)
    assert made["status"] == {"loadBalancer": {}}
    labelled = json.loads(applied) | {"metadata": {"name": "s", "labels": {"a": "b"}}}
    path = f"{SERVICES}/s/status?fieldManager=controller&force=true"
    written = (await api.patch(path, json.dumps(labelled), APPLY)).ok()
    assert (written["status"], written["metadata"]["labels"]) == (status, {"a": "b"})
    owned = {entry["manager"]: entry["fieldsV1"] for entry in written["metadata"]["managedFields"]}
    assert owned["main"].keys() == {"f:spec"}
    assert owned["controller"].keys() == {"f:metadata", "f:status"}


async def test_a_definition_takes_labels_with_its_status(api: Client) -> None:
    """As kube-apiserver, which means to leave metadata alone (kubernetes/kubernetes#137681)."""
    name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.test.example.com"
    applied = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    metadata = {"name": "widgets.test.example.com", "labels": {"a": "b"}}
    body = json.dumps({**applied, "metadata": metadata, "status": {"storedVersions": ["v1"]}})
    written = (await api.patch(f"{name}/status?fieldManager=controller&force=true", body, APPLY)).ok()
    [entry] = [e for e in written["metadata"]["managedFields"] if e["manager"] == "controller"]
    assert ("f:metadata" in entry["fieldsV1"]) == ("labels" in written["metadata"])
