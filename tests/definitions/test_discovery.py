from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from registry.definitions.compiled import compile_definition
from registry.definitions.discovery import (
    Subresource,
    aggregated_discovery,
    api_group,
    api_group_list,
    api_resource_list,
    api_versions,
    standard_subresources,
    storage_version_hash,
)
from registry.definitions.model import Definition, Version
from tests.definitions.crds import crd, established, version

SCALE = {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}
VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
SUB_VERBS = ["get", "patch", "update"]


def defined(group: str = "g.example.com", plural: str = "widgets", **spec: Any) -> Definition:
    kind = plural[:-1].title()
    names = {"plural": plural, "kind": kind} | spec.pop("names", {})
    return compile_definition(established(crd(group=group, names=names, **spec)))


def builtin(group: str, plural: str, kind: str) -> Definition:
    return replace(defined(group, plural, names={"kind": kind}), strategy="x", uid="")


WIDGETS = defined(
    names={"shortNames": ["w"], "categories": ["all"]},
    versions=[
        version("v1", subresources={"status": {}, "scale": SCALE}),
        version("v1beta1", storage=False),
        version("v2", storage=False, served=False),
    ],
)
NAMESPACES = builtin("", "namespaces", "Namespace")
DEFINITIONS = builtin("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")


def test_group_list() -> None:
    found = api_group_list([defined("z.b"), WIDGETS, defined("a.b"), NAMESPACES, DEFINITIONS])
    assert [g["name"] for g in found["groups"]] == ["apiextensions.k8s.io", "a.b", "g.example.com", "z.b"]
    assert found["groups"][2] == {
        "name": "g.example.com",
        "versions": [
            {"groupVersion": "g.example.com/v1", "version": "v1"},
            {"groupVersion": "g.example.com/v1beta1", "version": "v1beta1"},
        ],
        "preferredVersion": {"groupVersion": "g.example.com/v1", "version": "v1"},
    }


def test_a_group_has_the_versions_of_all_its_definitions() -> None:
    found = api_group([WIDGETS, defined(plural="gadgets", versions=[version("v3")])], "g.example.com")
    assert found is not None
    assert [v["version"] for v in found["versions"]] == ["v3", "v1", "v1beta1"]


@pytest.mark.parametrize(
    "definitions",
    [
        pytest.param([], id="none"),
        pytest.param([replace(WIDGETS, established=False)], id="not established"),
        pytest.param([defined(versions=[version(served=False)])], id="no version served"),
    ],
)
def test_versions_that_are_not_served_are_not_listed(definitions: list[Definition]) -> None:
    assert api_group(definitions, "g.example.com") is None
    assert api_resource_list(definitions, "g.example.com", "v1") is None
    assert aggregated_discovery(definitions, core=False)["items"] == []


def test_resources() -> None:
    found = api_resource_list([WIDGETS, defined(plural="gadgets", scope="Cluster")], "g.example.com", "v1")
    assert found is not None
    assert found["resources"][1:] == [
        {
            "name": "widgets",
            "singularName": "widget",
            "namespaced": True,
            "kind": "Widget",
            "verbs": VERBS,
            "shortNames": ["w"],
            "categories": ["all"],
            "storageVersionHash": storage_version_hash("g.example.com", "v1", "Widget"),
        },
        {"name": "widgets/status", "singularName": "", "namespaced": True, "kind": "Widget", "verbs": SUB_VERBS},
        {
            "name": "widgets/scale",
            "singularName": "",
            "namespaced": True,
            "group": "autoscaling",
            "version": "v1",
            "kind": "Scale",
            "verbs": SUB_VERBS,
        },
    ]
    gadgets = found["resources"][0]
    assert (gadgets["name"], gadgets["namespaced"]) == ("gadgets", False)
    assert "shortNames" not in gadgets


def test_a_version_that_is_not_served() -> None:
    assert api_resource_list([WIDGETS], "g.example.com", "v2") is None


def test_no_hash_where_the_storage_version_is_not_served() -> None:
    definition = defined(versions=[version("v1", served=False), version("v2", storage=False)])
    found = api_resource_list([definition], "g.example.com", "v2")
    assert found is not None
    assert "storageVersionHash" not in found["resources"][0]


def test_a_terminating_definition_has_fewer_verbs() -> None:
    found = api_resource_list([replace(WIDGETS, terminating=True)], "g.example.com", "v1")
    assert found is not None
    assert found["resources"][0]["verbs"] == ["delete", "deletecollection", "get", "list", "watch"]


@pytest.mark.parametrize(
    "group, version_name, kind, expected",
    [("hash.rest-area.example.com", "v1", "Fixed", "SXdxx87h1Ek="), ("", "v1", "Namespace", None)],
)
def test_hash(group: str, version_name: str, kind: str, expected: str | None) -> None:
    found = storage_version_hash(group, version_name, kind)
    assert found == expected or expected is None
    assert len(found) == 12


def test_own_kinds() -> None:
    found = api_resource_list([DEFINITIONS], "apiextensions.k8s.io", "v1")
    assert found is not None
    assert found["resources"][0]["storageVersionHash"] == "jfWCUB31mvA="
    assert found["resources"][0]["verbs"] == [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ]


def with_finalize(definition: Definition, v: Version) -> Sequence[Subresource]:
    return [Subresource("finalize", definition.names.kind, ["update"]), *standard_subresources(definition, v)]


def test_aggregated_core() -> None:
    [item] = aggregated_discovery([WIDGETS, NAMESPACES], core=True, subresources=with_finalize)["items"]
    kind = {"group": "", "version": "", "kind": "Namespace"}
    assert item["metadata"] == {}
    [resource] = item["versions"][0]["resources"]
    assert resource["responseKind"] == kind
    assert resource["subresources"] == [{"subresource": "finalize", "responseKind": kind, "verbs": ["update"]}]


def test_aggregated() -> None:
    found = aggregated_discovery([WIDGETS, NAMESPACES], core=False)
    assert (found["kind"], found["apiVersion"], found["metadata"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
        {},
    )
    kind = {"group": "g.example.com", "version": "v1", "kind": "Widget"}
    assert found["items"] == [
        {
            "metadata": {"name": "g.example.com"},
            "versions": [
                {
                    "version": "v1",
                    "freshness": "Current",
                    "resources": [
                        {
                            "resource": "widgets",
                            "responseKind": kind,
                            "scope": "Namespaced",
                            "singularResource": "widget",
                            "verbs": VERBS,
                            "shortNames": ["w"],
                            "categories": ["all"],
                            "subresources": [
                                {"subresource": "status", "responseKind": kind, "verbs": SUB_VERBS},
                                {
                                    "subresource": "scale",
                                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                                    "verbs": SUB_VERBS,
                                },
                            ],
                        }
                    ],
                },
                {
                    "version": "v1beta1",
                    "freshness": "Current",
                    "resources": [
                        {
                            "resource": "widgets",
                            "responseKind": kind | {"version": "v1beta1"},
                            "scope": "Namespaced",
                            "singularResource": "widget",
                            "verbs": VERBS,
                            "shortNames": ["w"],
                            "categories": ["all"],
                        }
                    ],
                },
            ],
        }
    ]


def test_core_resources_and_versions() -> None:
    found = api_resource_list([NAMESPACES], "", "v1")
    assert found is not None
    assert found["groupVersion"] == "v1"
    assert api_versions("h:1")["versions"] == ["v1"]
