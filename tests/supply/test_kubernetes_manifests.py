"""deploy/kubernetes.yaml: only known fields, and references between its objects resolve."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from registry.settings.declarations import declarations
from tests.clients.libraries import library
from tests.docs.pages import ROOT

kubernetes: Any = library("kubernetes")

TEXT = (ROOT / "deploy/kubernetes.yaml").read_text()
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all(TEXT))
BY_KIND = {manifest["kind"]: manifest for manifest in MANIFESTS}
POD = BY_KIND["Deployment"]["spec"]["template"]["spec"]


def _errors(manifest: dict[str, Any]) -> list[str]:
    """Unknown fields, missing ones and wrong types, by their paths."""
    version = manifest["apiVersion"].rpartition("/")[2].capitalize()
    try:
        getattr(kubernetes.client.models, f"{version}{manifest['kind']}").model_validate(manifest)
    except ValidationError as error:
        return [".".join(map(str, one["loc"])) for one in error.errors()]
    return []


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_each_field_is_known_to_kubernetes(manifest: dict[str, Any]) -> None:
    assert _errors(manifest) == []


def test_an_unknown_field_would_be_found() -> None:
    wrong = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1, "nope": 2}]}}
    assert _errors(wrong) == ["spec.ports.0.nope"]


def test_selectors_match_the_pods() -> None:
    labels = BY_KIND["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert BY_KIND["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert BY_KIND["Service"]["spec"]["selector"] == labels
    assert BY_KIND["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_ports_volumes_and_settings_are_there() -> None:
    [server] = POD["containers"]
    assert BY_KIND["Service"]["spec"]["ports"][0]["targetPort"] in {port["name"] for port in server["ports"]}
    assert {mount["name"] for mount in server["volumeMounts"]} == {volume["name"] for volume in POD["volumes"]}
    assert {variable["name"] for variable in server["env"]} <= {declaration.variable for declaration in declarations()}


def test_variables_of_services_are_no_settings() -> None:
    """Of a Service `registry` Kubernetes makes REGISTRY_PORT=tcp://10.96.0.1:443 in each pod of its namespace."""
    assert BY_KIND["Service"]["metadata"]["name"] == "registry"
    assert POD["enableServiceLinks"] is False
