from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from registry import builtin
from registry.definitions.compiled import compile_definition
from registry.definitions.model import Definition
from registry.definitions.openapi.documents import openapi_v3, openapi_v3_document, openapi_v3_hashes, openapi_v3_index
from registry.definitions.openapi.v2 import openapi_v2
from tests.definitions.crds import crd, established, version

GROUP = "g.example.com"
WIDGET = "com.example.g.v1.Widget"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "A widget.",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"a": {"type": "string", "nullable": True, "default": "x"}},
            "required": ["a"],
        }
    },
}
SCALE = {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}


def defined(**spec: Any) -> Definition:
    return compile_definition(
        established(crd(**{"versions": [version(schema=SCHEMA, **spec.pop("version", {}))]} | spec))
    )


def document(*definitions: Definition, group: str = GROUP, version: str = "v1") -> dict[str, Any]:
    found = openapi_v3(definitions, group, version)
    assert found is not None
    return found


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for v in value.values():
            yield from references(v)
    elif isinstance(value, list):
        for v in value:
            yield from references(v)


@pytest.mark.parametrize(
    "definition",
    [
        pytest.param(defined(), id="namespaced"),
        pytest.param(
            defined(scope="Cluster", version={"subresources": {"status": {}, "scale": SCALE}}), id="subresources"
        ),
    ],
)
def test_every_reference_is_resolved(definition: Definition) -> None:
    v3 = document(definition)
    assert {r.removeprefix("#/components/schemas/") for r in references(v3)} <= set(v3["components"]["schemas"])
    v2 = openapi_v2([definition])
    assert {r.removeprefix("#/definitions/") for r in references(v2)} <= set(v2["definitions"])


def test_own_kinds_have_documents() -> None:
    definitions = builtin.definitions()
    for path in openapi_v3_hashes(definitions):
        v3 = openapi_v3_document(definitions, path)
        assert v3 is not None
        schemas = v3["components"].get("schemas", {})
        assert {r.removeprefix("#/components/schemas/") for r in references(v3)} <= set(schemas)
    core = document(*definitions, group="")
    assert "io.k8s.api.core.v1.Namespace" in core["components"]["schemas"]
    patch = core["paths"]["/api/v1/namespaces/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


NAMESPACED = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets"


@pytest.mark.parametrize(
    "definition, paths",
    [
        pytest.param(
            defined(),
            {
                NAMESPACED: {"get", "post", "delete"},
                f"{NAMESPACED}/{{name}}": {"get", "put", "patch", "delete"},
                f"/apis/{GROUP}/v1/widgets": {"get"},
            },
            id="namespaced",
        ),
        pytest.param(
            defined(scope="Cluster", version={"subresources": {"status": {}, "scale": SCALE}}),
            {
                f"/apis/{GROUP}/v1/widgets": {"get", "post", "delete"},
                f"/apis/{GROUP}/v1/widgets/{{name}}": {"get", "put", "patch", "delete"},
                f"/apis/{GROUP}/v1/widgets/{{name}}/status": {"get", "put", "patch"},
                f"/apis/{GROUP}/v1/widgets/{{name}}/scale": {"get", "put", "patch"},
            },
            id="with subresources",
        ),
        pytest.param(
            replace(defined(), terminating=True),
            {
                NAMESPACED: {"get", "delete"},
                f"{NAMESPACED}/{{name}}": {"get", "delete"},
                f"/apis/{GROUP}/v1/widgets": {"get"},
            },
            id="terminating",
        ),
        pytest.param(
            replace(defined(scope="Cluster"), verbs=("create",)),
            {f"/apis/{GROUP}/v1/widgets": {"post"}},
            id="create only",
        ),
    ],
)
def test_paths(definition: Definition, paths: dict[str, set[str]]) -> None:
    found = document(definition)["paths"]
    assert {path: set(item) - {"parameters"} for path, item in found.items()} == paths


def test_operations() -> None:
    paths = document(defined(version={"subresources": {"scale": SCALE}}))["paths"]
    kind = {"group": GROUP, "version": "v1", "kind": "Widget"}
    listing = paths[f"/apis/{GROUP}/v1/widgets"]["get"]
    assert listing["operationId"] == "listGExampleComV1WidgetForAllNamespaces"
    assert listing["tags"] == ["gExampleCom_v1"]
    assert (listing["x-kubernetes-action"], listing["x-kubernetes-group-version-kind"]) == ("list", kind)
    patch = paths[f"{NAMESPACED}/{{name}}"]["patch"]
    assert patch["operationId"] == "patchGExampleComV1NamespacedWidget"
    assert {"dryRun", "fieldManager", "fieldValidation", "force"} == {p["name"] for p in patch["parameters"]}
    assert set(patch["requestBody"]["content"]) == {
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    }
    assert "fieldValidation" in {p["name"] for p in paths[NAMESPACED]["post"]["parameters"]}
    assert [p["name"] for p in paths[f"{NAMESPACED}/{{name}}"]["parameters"]] == ["name", "namespace", "pretty"]
    scale = paths[f"{NAMESPACED}/{{name}}/scale"]["get"]
    assert scale["operationId"] == "readGExampleComV1NamespacedWidgetScale"
    assert scale["x-kubernetes-group-version-kind"] == kind
    assert scale["description"] == "read scale of the specified Widget"


def test_schemas() -> None:
    schemas = document(defined(version={"selectableFields": [{"jsonPath": ".spec.a"}]}))["components"]["schemas"]
    kind = schemas[WIDGET]
    assert kind["x-kubernetes-group-version-kind"] == [{"group": GROUP, "version": "v1", "kind": "Widget"}]
    assert kind["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.a"}]
    assert kind["properties"]["spec"] == SCHEMA["properties"]["spec"]
    listed = schemas["com.example.g.v1.WidgetList"]
    assert listed["required"] == ["items"]
    assert listed["properties"]["items"]["items"] == {"$ref": f"#/components/schemas/{WIDGET}"}
    assert "io.k8s.api.autoscaling.v1.Scale" not in schemas


def test_nothing_served() -> None:
    assert openapi_v3([defined()], GROUP, "v2") is None
    assert openapi_v3([replace(defined(), established=False)], GROUP, "v1") is None


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"scope": "Cluster"}, id="scope"),
        pytest.param({"versions": [version(schema=SCHEMA | {"title": "t"})]}, id="schema"),
        pytest.param({"version": {"subresources": {"status": {}}}}, id="subresource"),
        pytest.param({"names": {"plural": "widgets", "kind": "Other"}}, id="kind"),
    ],
)
def test_the_hash_changes_with_the_document(change: dict[str, Any]) -> None:
    before, after = openapi_v3_hashes([defined()]), openapi_v3_hashes([defined(**change)])
    assert before == openapi_v3_hashes([defined()])
    name = f"apis/{GROUP}/v1"
    assert set(before) == set(after)
    assert before.pop(name) != after.pop(name)
    assert before == after


def test_index() -> None:
    hashes = openapi_v3_hashes([defined(), *builtin.definitions()])
    index = openapi_v3_index(hashes, "/clusters/acme")["paths"]
    assert index["api/v1"] == {"serverRelativeURL": f"/clusters/acme/openapi/v3/api/v1?hash={hashes['api/v1']}"}


def test_v2_has_fewer_keywords() -> None:
    v2 = openapi_v2([defined()])
    spec = v2["definitions"][WIDGET]["properties"]["spec"]
    assert spec == {"type": "object", "properties": {"a": {}}}
    create = v2["paths"][NAMESPACED]["post"]
    assert create["parameters"][0] == {
        "name": "body",
        "in": "body",
        "required": True,
        "schema": {"$ref": f"#/definitions/{WIDGET}"},
    }
    assert {"name": "fieldManager", "in": "query", "type": "string", "uniqueItems": True}.items() <= next(
        p for p in create["parameters"] if p["name"] == "fieldManager"
    ).items()
    assert create["responses"]["201"]["schema"] == {"$ref": f"#/definitions/{WIDGET}"}
    assert "schema" not in create["responses"]["401"]


def test_properties_and_media_types_are_in_the_order_of_kube_apiserver() -> None:
    """Generators keep the order of properties, and take the first media type."""
    widget = defined(subresources={"status": {}})
    for found, types in ((document(widget), "components"), (openapi_v2([widget]), "definitions")):
        schemas = found[types]["schemas"] if types == "components" else found[types]
        assert list(schemas[WIDGET]["properties"]) == ["apiVersion", "kind", "metadata", "spec"]
        assert list(schemas[f"{WIDGET}List"]["properties"]) == ["apiVersion", "items", "kind", "metadata"]
    path = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets/{{name}}"
    patches = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    assert list(document(widget)["paths"][path]["patch"]["requestBody"]["content"]) == patches
    assert openapi_v2([widget])["paths"][path]["patch"]["consumes"][0] == "application/json-patch+json"


def test_metadata_is_described_in_the_words_that_conformance_tests_look_for() -> None:
    """`kubectl explain widgets.metadata`, in Kubernetes' test/e2e/apimachinery/crd_publish_openapi.go."""
    schemas = document(defined())["components"]["schemas"]
    assert "Standard object's metadata" in schemas[WIDGET]["properties"]["metadata"]["description"]
    created = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["creationTimestamp"]
    assert "CreationTimestamp is a timestamp" in created["description"]
