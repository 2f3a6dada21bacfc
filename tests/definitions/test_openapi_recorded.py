"""The documents that kube-apiserver 1.36 published, compared with ours but for the descriptions, which are our own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry import builtin
from registry.builtin.subresources import subresources_of
from registry.definitions.compiled import compile_definition
from registry.definitions.openapi.documents import openapi_v3, openapi_v3_document, openapi_v3_hashes
from registry.definitions.openapi.v2 import openapi_v2
from registry.schema.openapi import V2_PREFIX, V3_PREFIX
from tests.conformance.harness import SCENARIOS, load_yaml, replay
from tests.definitions.crds import established

pytestmark = pytest.mark.usefixtures("as_1_36")

GROUP, TAIL = "gtail.example.com", "tail"


def recorded(file: str) -> tuple[Any, dict[str, Any]]:
    """The definition of a scenario, and what its documents were, by the name of the step."""
    scenario = expand(load_yaml(SCENARIOS / file))
    answers = {step["name"]: step["expect"]["body"] for step in scenario["steps"] if step.get("expect")}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{scenario['crd']['names']['plural']}.{GROUP}"},
        "spec": scenario["crd"],
    }
    return definition, answers


def expand(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("${group}", GROUP).replace("${tail}", TAIL)
    if isinstance(value, list):
        return [expand(v) for v in value]
    if isinstance(value, dict):
        return {expand(k): expand(v) for k, v in value.items()}
    return value


def without_descriptions(value: Any) -> Any:
    if isinstance(value, list):
        return [without_descriptions(v) for v in value]
    if isinstance(value, dict):
        return {
            k: without_descriptions(v)
            for k, v in value.items()
            if not (k == "description" and isinstance(v, str) and v not in OPERATIONS)
        }
    return value


# Of the descriptions those that say what an operation does are the same: generators show them as the only help.
OPERATIONS = frozenset(
    {"OK", "Created", "Accepted", "Unauthorized"}
    | {f"{verb} a Widget" for verb in ("create", "delete")}
    | {f"{verb} the specified Widget" for verb in ("read", "replace", "partially update")}
    | {"list objects of kind Widget", "delete collection of Widget", "name of the Widget"}
)


@pytest.mark.parametrize(
    "file, step",
    [
        ("rest/openapi-v3.yaml", "document"),
        ("rest/openapi-v3.yaml", "paths"),
        ("rest/openapi-v3-schema.yaml", "schemas"),
    ],
)
def test_the_document_of_a_definition_is_as_recorded(file: str, step: str) -> None:
    definition, answers = recorded(file)
    document = openapi_v3([compile_definition(established(definition))], GROUP, "v1")
    wanted = answers[step]
    found = {path: replay.get_path(document, path) for path in wanted}
    assert list(replay.differences(without_descriptions(wanted), without_descriptions(found))) == []


# Of the document that Kubernetes publishes with its sources (api/openapi-spec/v3).
OPERATION_IDS = {
    ("", "/api/v1/namespaces/{namespace}/configmaps", "delete"): "deleteCoreV1CollectionNamespacedConfigMap",
    ("", "/api/v1/configmaps", "get"): "listCoreV1ConfigMapForAllNamespaces",
    ("", "/api/v1/watch/configmaps", "get"): "watchCoreV1ConfigMapListForAllNamespaces",
    ("", "/api/v1/watch/namespaces/{namespace}/configmaps", "get"): "watchCoreV1NamespacedConfigMapList",
    ("", "/api/v1/watch/namespaces/{namespace}/configmaps/{name}", "get"): "watchCoreV1NamespacedConfigMap",
    ("", "/api/v1/namespaces/{name}/finalize", "put"): "replaceCoreV1NamespaceFinalize",
    ("", "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", "post"): (
        "createCoreV1NamespacedServiceAccountToken"
    ),
    ("rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}", "patch"): (
        "patchRbacAuthorizationV1ClusterRole"
    ),
    ("authorization.k8s.io", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "post"): (
        "createAuthorizationV1SubjectAccessReview"
    ),
}


@pytest.mark.parametrize("group, path, method", OPERATION_IDS, ids=list(OPERATION_IDS.values()))
def test_operations_of_built_in_kinds(group: str, path: str, method: str) -> None:
    document = openapi_v3(builtin.definitions(), group, "v1", subresources_of)
    assert document is not None
    item = document["paths"][path]
    operation = item[method]
    assert operation["operationId"] == OPERATION_IDS[group, path, method]
    names = [p["name"] for p in [*operation.get("parameters", ()), *item["parameters"]]]
    assert len(names) == len(set(names))
    assert "pretty" in names
    assert "application/vnd.kubernetes.protobuf" in operation["responses"]["200"]["content"]


# The document, the path in it, and what generators make of it: the tag is a class, the id a method, the type what it answers.
PAGES = {
    ("api", "/api/"): ("core", "getCoreAPIVersions", "APIVersions"),
    ("api/v1", "/api/v1/"): ("core_v1", "getCoreV1APIResources", "APIResourceList"),
    ("apis", "/apis/"): ("apis", "getAPIVersions", "APIGroupList"),
    ("apis/rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/"): (
        "rbacAuthorization",
        "getRbacAuthorizationAPIGroup",
        "APIGroup",
    ),
    ("apis/rbac.authorization.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1/"): (
        "rbacAuthorization_v1",
        "getRbacAuthorizationV1APIResources",
        "APIResourceList",
    ),
    ("version", "/version/"): ("version", "getCodeVersion", "Info"),
    ("openid/v1/jwks", "/openid/v1/jwks/"): ("openid", "getServiceAccountIssuerOpenIDKeyset", ""),
    (".well-known/openid-configuration", "/.well-known/openid-configuration/"): (
        "WellKnown",
        "getServiceAccountIssuerOpenIDConfiguration",
        "",
    ),
}


@pytest.mark.parametrize("document, path", PAGES, ids=[path for _, path in PAGES])
def test_pages_of_the_server(document: str, path: str) -> None:
    assert document in openapi_v3_hashes(builtin.definitions(), subresources_of)
    v3 = openapi_v3_document(builtin.definitions(), document, subresources_of)
    assert v3 is not None
    v2 = openapi_v2(builtin.definitions(), subresources_of)
    tag, operation_id, answer = PAGES[document, path]
    in_v3, in_v2 = v3["paths"][path]["get"], v2["paths"][path]["get"]
    for operation in (in_v3, in_v2):
        assert (operation["tags"], operation["operationId"]) == ([tag], operation_id)
        assert "x-kubernetes-action" not in operation
    schemas = [media["schema"] for media in in_v3["responses"]["200"]["content"].values()]
    for schema, types in [
        *((s, v3["components"].get("schemas")) for s in schemas),
        (in_v2["responses"]["200"]["schema"], v2["definitions"]),
    ]:
        name = schema.get("$ref", "").rpartition("/")[2]
        assert name.rpartition(".")[2] == answer
        assert name in types if answer else schema == {"type": "string"}
    assert ("consumes" in in_v2) is bool(answer)


def test_groups_of_definitions_have_no_pages() -> None:
    definition, _ = recorded("rest/openapi-v3.yaml")
    served = [*builtin.definitions(), compile_definition(established(definition))]
    assert [path for path in openapi_v3_hashes(served) if GROUP in path] == [f"apis/{GROUP}/v1"]
    assert f"/apis/{GROUP}/v1/" not in openapi_v2(served)["paths"]
    assert openapi_v3_document(served, f"apis/{GROUP}") is None


def test_a_document_has_the_types_that_it_refers_to_and_no_others() -> None:
    document = openapi_v3(builtin.definitions(), "authentication.k8s.io", "v1", subresources_of)
    assert document is not None
    names = {name.rpartition(".")[2] for name in document["components"]["schemas"]}
    assert "TokenReview" in names
    assert not names & {"DeleteOptions", "Patch", "TokenReviewList", "ListMeta", "WatchEvent"}


def test_built_in_kinds_refer_to_named_types() -> None:
    document = openapi_v3(builtin.definitions(), "", "v1", subresources_of)
    assert document is not None
    schemas = document["components"]["schemas"]
    core, meta = "io.k8s.api.core.v1", "io.k8s.apimachinery.pkg.apis.meta.v1"

    def field(kind: str, name: str) -> dict[str, Any]:
        found = dict(schemas[f"{core}.{kind}"]["properties"][name])
        found.pop("description", None)
        return found

    def reference(name: str) -> dict[str, str]:
        return {"$ref": f"#/components/schemas/{name}"}

    assert field("Namespace", "spec") == {"allOf": [reference(f"{core}.NamespaceSpec")], "default": {}}
    assert field("Event", "related") == {"allOf": [reference(f"{core}.ObjectReference")]}
    assert field("Event", "eventTime") == {"allOf": [reference(f"{meta}.MicroTime")]}
    assert field("ServiceAccount", "secrets")["items"] == reference(f"{core}.ObjectReference")
    quantity = reference("io.k8s.apimachinery.pkg.api.resource.Quantity")
    assert field("ResourceQuotaSpec", "hard")["additionalProperties"] == quantity
    assert field("ObjectReference", "kind") == {"type": "string"}
    assert schemas[f"{core}.ObjectReference"]["x-kubernetes-map-type"] == "atomic"
    assert "io.k8s.api.authentication.v1.TokenRequestSpec" in schemas
    v2 = openapi_v2(builtin.definitions(), subresources_of)["definitions"]
    assert f"{core}.NamespaceSpec" in v2
    assert v2[f"{core}.Namespace"]["properties"]["spec"]["$ref"] == f"#/definitions/{core}.NamespaceSpec"


def test_descriptions_are_not_parsed_as_keywords() -> None:
    """In YAML a comma in a text without quotes begins another key."""

    def odd(value: Any, path: str) -> list[str]:
        if isinstance(value, list):
            return [found for item in value for found in odd(item, path)]
        if not isinstance(value, dict):
            return []
        wrong = [f"{path}.{key}" for key, inner in value.items() if inner is None and key != "default"]
        return wrong + [found for key, inner in value.items() for found in odd(inner, f"{path}.{key}")]

    assert odd(openapi_v2(builtin.definitions(), subresources_of)["definitions"], "") == []


CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
CORE = "io.k8s.api.core.v1"
# A document, a type in it, a field, and what is published of the field in v3 and v2, with {} for the prefix of references.
FIELDS: list[tuple[str, str, str, Any, Any]] = [
    ("apis/apiextensions.k8s.io/v1", f"{CRD}.JSONSchemaProps", "not", {"$ref": f"{{}}{CRD}.JSONSchemaProps"}, None),
    (
        "apis/apiextensions.k8s.io/v1",
        f"{CRD}.JSONSchemaProps",
        "default",
        {"allOf": [{"$ref": f"{{}}{CRD}.JSON"}]},
        {"$ref": f"{{}}{CRD}.JSON"},
    ),
    ("apis/apiextensions.k8s.io/v1", f"{CRD}.JSONSchemaProps", "$ref", {"type": "string"}, None),
    (
        "apis/apiextensions.k8s.io/v1",
        f"{CRD}.SelectableField",
        "jsonPath",
        {"type": "string", "default": ""},
        {"type": "string"},
    ),
    (
        "api/v1",
        f"{CORE}.ServiceSpec",
        "type",
        {"type": "string", "enum": ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]},
        None,
    ),
    ("api/v1", f"{CORE}.ServiceSpec", "healthCheckNodePort", {"type": "integer", "format": "int32"}, None),
    (
        "api/v1",
        f"{CORE}.LoadBalancerStatus",
        "ingress",
        {"type": "array", "items": {"$ref": f"{{}}{CORE}.LoadBalancerIngress"}, "x-kubernetes-list-type": "atomic"},
        None,
    ),
    ("api/v1", f"{CORE}.LocalObjectReference", "name", {"type": "string", "default": ""}, {"type": "string"}),
    (
        "api/v1",
        f"{CORE}.NamespaceStatus",
        "conditions",
        {
            "type": "array",
            "items": {"$ref": f"{{}}{CORE}.NamespaceCondition"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "x-kubernetes-patch-merge-key": "type",
            "x-kubernetes-patch-strategy": "merge",
        },
        None,
    ),
]


@pytest.mark.parametrize("path, name, field, in_v3, in_v2", FIELDS, ids=[f"{n}.{f}" for _, n, f, _, _ in FIELDS])
def test_fields_of_built_in_types(path: str, name: str, field: str, in_v3: Any, in_v2: Any) -> None:
    v3 = openapi_v3_document(builtin.definitions(), path, subresources_of)
    assert v3 is not None
    v2 = openapi_v2(builtin.definitions(), subresources_of)
    for types, prefix, wanted in (
        (v3["components"]["schemas"], V3_PREFIX, in_v3),
        (v2["definitions"], V2_PREFIX, in_v2 or in_v3),
    ):
        found = {k: v for k, v in types[name]["properties"][field].items() if k != "description"}
        assert found == filled(wanted, prefix)


def filled(value: Any, prefix: str) -> Any:
    if isinstance(value, list):
        return [filled(v, prefix) for v in value]
    if isinstance(value, dict):
        return {k: v.format(prefix) if k == "$ref" else filled(v, prefix) for k, v in value.items()}
    return value


def test_built_in_types_hold_no_unknown_fields() -> None:
    """What Go structs decode has the fields that are named. The older form of definitions is not described, and the rows
    of a Query have the columns that it asks for."""
    types = openapi_v2(builtin.definitions(), subresources_of)["definitions"]
    own = {name: text for name, t in types.items() if 'preserve-unknown-fields": true' in (text := json.dumps(t))}
    assert set(own) == {f"{CRD}beta1.CustomResourceDefinition", "registry.query.v1.Query"}
