"""Rules of built-in kinds: how often kube-apiserver's validators find one fault, and what decoding and validation refuse."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.api.client import APPLY, MERGE, TABLE, Client
from tests.api.errors import failure
from tests.api.widgets import GROUP
from tests.application import shares_application, shares_tenant

pytestmark = [shares_application, shares_tenant]


CORE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
BAD = {"labels": {"a b": "c"}, "finalizers": ["x"]}
RULE = {"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}
BINDING = {"spec": {"policyName": "p", "validationActions": ["Deny"]}}


@pytest.mark.parametrize(
    "path, spec, created, updated, uids",
    [
        pytest.param(f"{CORE}/configmaps", {}, (1, 1), (4, 2), 2, id="config map"),
        pytest.param(f"{CORE}/serviceaccounts", {}, (1, 1), (4, 2), 2, id="service account"),
        pytest.param("/api/v1/namespaces", {}, (1, 1), (4, 2), 2, id="namespace"),
        pytest.param(f"{CORE}/limitranges", {"spec": {"limits": []}}, (1, 1), (3, 1), 1, id="limit range"),
        pytest.param(f"{CORE}/resourcequotas", {}, (1, 1), (3, 1), 2, id="quota"),
        pytest.param(f"{CORE}/services", {"spec": {"ports": [{"port": 80}]}}, (1, 1), (3, 1), 2, id="service"),
        pytest.param(f"{RBAC}/roles", {"rules": []}, (1, 1), (4, 2), 2, id="role"),
        pytest.param(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases", {"spec": {}}, (1, 0), (3, 0), 2, id="lease"
        ),
        pytest.param(f"{ADMISSION}/validatingadmissionpolicybindings", BINDING, (1, 0), (3, 0), 1, id="policy binding"),
        pytest.param(f"{ADMISSION}/mutatingwebhookconfigurations", {}, (1, 0), (3, 0), 1, id="webhooks"),
    ],
)
async def test_causes_are_repeated_by_each_validator(
    api: Client, path: str, spec: dict[str, Any], created: tuple[int, int], updated: tuple[int, int], uids: int
) -> None:
    """`created` and `updated` count the causes of a label, and of a finalizer that is neither standard nor qualified."""
    body = {"metadata": {"name": "m"}, **spec}
    refused = failure(await api.post(path, {**body, "metadata": {"name": "m", **BAD}}), 422, "Invalid")
    assert _counts(refused) == created
    (await api.post(path, body)).ok(201)
    refused = failure(await api.patch(f"{path}/m", {"metadata": BAD}, MERGE), 422, "Invalid")
    assert _counts(refused) == updated
    refused = failure(await api.patch(f"{path}/m", {"metadata": {"uid": "u"}}, MERGE), 422, "Invalid")
    assert [c["field"] for c in refused["details"]["causes"]] == ["metadata.uid"] * uids


def _counts(status: dict[str, Any]) -> tuple[int, int]:
    fields = Counter(cause["field"] for cause in status["details"]["causes"])
    return fields["metadata.labels"], fields["metadata.finalizers[0]"]


@pytest.mark.parametrize("path, order", [(f"{CORE}/configmaps", [0, 1, 0, 1]), (f"{RBAC}/roles", [0, 0, 1, 1])])
async def test_errors_of_a_changed_role_are_those_of_the_whole_object_first(
    api: Client, path: str, order: list[int]
) -> None:
    (await api.post(path, {"metadata": {"name": "order"}})).ok(201)
    change = {"metadata": {"finalizers": ["x", "a/b/c"]}}
    causes = failure(await api.patch(f"{path}/order", change), 422, "Invalid")["details"]["causes"]
    fields = ["metadata.finalizers", "metadata.finalizers[0]"]
    assert [cause["field"] for cause in causes] == [fields[position] for position in order]


@pytest.mark.parametrize("named", [True, False])
async def test_a_definition_of_a_collection_is_deleted_as_any_other_object(api: Client, named: bool) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = f"widgets.{GROUP}"
    options = {"preconditions": {"uid": "other"}, "dryRun": ["All"]}
    target = f"{path}/{name}" if named else f"{path}?fieldSelector=metadata.name={name}"
    status = failure(await api.delete(target, options), 409, "Conflict")
    assert ("failed: UID in precondition" in status["message"]) is named
    assert status["details"]["kind"] == ("customresourcedefinitions" if named else "CustomResourceDefinition")


async def test_namespaces_cannot_be_selected_by_namespace(api: Client) -> None:
    status = failure(await api.get("/api/v1/namespaces?fieldSelector=metadata.namespace=x"), 400, "BadRequest")
    assert status["message"] == "field label not supported: metadata.namespace"
    (await api.get(f"{ADMISSION}/validatingwebhookconfigurations?fieldSelector=metadata.namespace=x")).ok(200)


def _limit(**bounds: Any) -> dict[str, Any]:
    return {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", **bounds}]}}


def _quota(*scopes: tuple[str, str]) -> dict[str, Any]:
    expressions = [{"scopeName": scope, "operator": operator} for scope, operator in scopes]
    return {"metadata": {"name": "q"}, "spec": {"scopeSelector": {"matchExpressions": expressions}}}


EXPRESSIONS = "spec.scopeSelector.matchExpressions"


@pytest.mark.parametrize(
    "path, body, causes",
    [
        pytest.param(
            f"{CORE}/limitranges",
            _limit(max={"pods": "1"}, maxLimitRequestRatio={"pods": "1"}),
            [f"spec.limits[0].{name}[pods]" for name in ("max", "default", "defaultRequest", "maxLimitRequestRatio")],
            id="a resource that containers do not have",
        ),
        pytest.param(
            f"{CORE}/limitranges",
            _limit(maxLimitRequestRatio={"nope": "1"}),
            ["spec.limits[0].maxLimitRequestRatio[nope]"] * 2,
            id="no resource",
        ),
        pytest.param(
            f"{CORE}/resourcequotas",
            _quota(("Terminating", "Exists"), ("NotTerminating", "Exists")),
            [EXPRESSIONS],
            id="scopes that exclude each other",
        ),
        pytest.param(
            "/api/v1/namespaces",
            {"metadata": {"name": "f"}, "spec": {"finalizers": [""]}},
            ["spec.finalizers"] * 3,
            id="an empty finalizer",
        ),
        pytest.param(
            f"{ADMISSION}/mutatingadmissionpolicybindings",
            {
                "metadata": {"name": "b"},
                "spec": {"policyName": "p", "matchResources": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
            },
            ["spec.matchResources.resourceRules.operations"],
            id="a binding to an operation that cannot be mutated",
        ),
    ],
)
async def test_refused(api: Client, path: str, body: dict[str, Any], causes: list[str]) -> None:
    status = failure(await api.post(path, body), 422, "Invalid")
    assert [cause["field"] for cause in status["details"]["causes"]] == causes


@pytest.mark.parametrize(
    "path, body, message",
    [
        pytest.param(
            f"{CORE}/resourcequotas",
            {"spec": {"hard": "x"}},
            "string into Go struct field ResourceQuotaSpec.spec.hard of type v1.ResourceList",
            id="a named map",
        ),
        pytest.param(
            f"{CORE}/configmaps",
            {"binaryData": {"b": [1, "x"]}},
            "string into Go struct field ConfigMap.binaryData of type uint8",
            id="bytes as an array",
        ),
        pytest.param(
            f"{ADMISSION}/validatingadmissionpolicies",
            {"spec": {"matchConstraints": {"resourceRules": [{"resources": 1}]}}},
            "number into Go struct field NamedRuleWithOperations.spec.matchConstraints.resourceRules."
            "RuleWithOperations.Rule.resources of type []string",
            id="a field of a struct embedded twice",
        ),
        pytest.param(
            f"{ADMISSION}/validatingwebhookconfigurations",
            {"webhooks": [{"rules": [{"scope": 1}]}]},
            "number into Go struct field RuleWithOperations.webhooks.rules.Rule.scope of type v1.ScopeType",
            id="a field of an embedded struct",
        ),
        pytest.param(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": {"fieldSelector": {"requirements": [1]}}}},
            "number into Go struct field FieldSelectorAttributes.spec.resourceAttributes.fieldSelector.requirements "
            "of type v1.FieldSelectorRequirement",
            id="a requirement on fields",
        ),
    ],
)
async def test_undecodable(api: Client, path: str, body: dict[str, Any], message: str) -> None:
    assert failure(await api.post(path, body), 400, "BadRequest")["message"].endswith(
        f"json: cannot unmarshal {message}"
    )


async def test_bytes_may_be_an_array_of_numbers(api: Client) -> None:
    body = {"metadata": {"name": "bytes"}, "binaryData": {"empty": [], "some": [0, None, 255]}}
    assert (await api.post(f"{CORE}/configmaps", body)).ok(201)["binaryData"] == {"empty": "", "some": "AAD/"}


async def test_a_review_of_rules_does_not_repeat_the_question(api: Client) -> None:
    answer = (await api.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "a"}})).ok(
        201
    )
    assert (answer["metadata"], answer["spec"]) == ({}, {})


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com/status"),
        ("GET", "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com/status"),
        ("PUT", "/api/v1/namespaces/nothing/finalize"),
    ],
)
async def test_subresources_without_a_table(api: Client, method: str, path: str) -> None:
    body = {"metadata": {"name": "nothing"}} if method == "PUT" else None
    answer = await api.request(method, path, body, accept=TABLE)
    assert failure(answer, 406, "NotAcceptable")["message"].startswith("only the following media types are accepted")
    assert (await api.request(method, path, body, accept=f"{TABLE},application/json")).code == 404


@pytest.mark.parametrize(
    "query, code",
    [
        ("resourceVersion=1x", 500),
        ("resourceVersionMatch=bad", 422),
        ("fieldSelector=a%3Db", 400),
        ("labelSelector=!!", 400),
        ("timeoutSeconds=x", 400),
        ("limit=1", 406),
    ],
)
async def test_options_of_a_watch_come_before_its_stream(api: Client, query: str, code: int) -> None:
    """YAML is a form of lists, but not of streams: what the options are is known before (handlers/get.go, watch.go)."""
    for path in ("/api/v1/configmaps", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"):
        answer = await api.get(f"{path}?watch=1&{query}", accept="application/yaml")
        assert (answer.code, answer.header("content-type")) == (code, "application/yaml"), answer.body
        assert ("code: 406" in answer.text) == (code == 406)


JSON_ONLY = "406: Not Acceptable\n\nAvailable representations: application/json"
ALL = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.parametrize(
    "method, path, accept, message, details",
    [
        pytest.param("GET", "/version", "text/plain", JSON_ONLY, {}, id="the version as text"),
        pytest.param(
            "GET",
            "/api/v1",
            "application/*",
            f"406: Not Acceptable\n\nAvailable representations: {ALL}",
            {},
            id="a range",
        ),
        pytest.param(
            "GET", "/apis", "text/plain", f"only the following media types are accepted: {ALL}", None, id="groups"
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/default/configmaps/a",
            "application/*",
            f"406: Not Acceptable\n\nAvailable representations: {ALL}",
            {},
            id="a range for an object",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/default/configmaps",
            "application/json;as=Foo;v=v1;g=meta.k8s.io",
            f"only the following media types are accepted: {ALL}",
            None,
            id="a form that no resource has",
        ),
        pytest.param(
            "POST",
            REVIEWS,
            TABLE,
            f"only the following media types are accepted: {ALL}",
            None,
            id="a table of a review",
        ),
    ],
)
async def test_not_acceptable(
    api: Client, method: str, path: str, accept: str, message: str, details: dict[str, Any] | None
) -> None:
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}} if method == "POST" else None
    status = failure(await api.request(method, path, body, accept=accept), 406, "NotAcceptable")
    assert (status["message"], status.get("details")) == (message, details)


async def test_the_resources_of_the_core_group_have_no_version(api: Client) -> None:
    """The only document of kube-apiserver with a kind and no apiVersion."""
    assert "apiVersion" not in (await api.get("/api/v1")).ok()
    assert (await api.get("/apis/rbac.authorization.k8s.io/v1")).ok()["apiVersion"] == "v1"


async def test_options_of_a_deletion_are_of_their_group(api: Client) -> None:
    status = failure(await api.delete(f"{CORE}/configmaps/none", {"kind": "Foo"}), 400, "BadRequest")
    assert status["message"].startswith('no kind "Foo" is registered for version "meta.k8s.io/v1" in scheme')


@pytest.mark.parametrize(
    "path, kind, spec, field",
    [
        pytest.param(
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            {"webhooks": [{}]},
            "webhooks[0].name",
            id="webhook",
        ),
        pytest.param(
            "mutatingadmissionpolicies",
            "MutatingAdmissionPolicy",
            {"spec": {"matchConditions": [{}]}},
            "spec.matchConditions[0].name",
            id="match condition",
        ),
    ],
)
async def test_an_applied_item_without_its_name_is_invalid(
    api: Client, path: str, kind: str, spec: dict[str, Any], field: str
) -> None:
    """In Go the name is empty, which the type of an apply allows, and validation refuses."""
    body = {"apiVersion": ADMISSION.removeprefix("/apis/"), "kind": kind, "metadata": {"name": "x"}, **spec}
    answer = await api.patch(f"{ADMISSION}/{path}/x?fieldManager=m", json.dumps(body), APPLY)
    causes = failure(answer, 422, "Invalid")["details"]["causes"]
    assert (field, "Required value") in [(cause["field"], cause["message"]) for cause in causes]


async def test_unknown_fields_and_wrong_types_of_an_applied_service(api: Client) -> None:
    for spec, message in (
        ({"nobody": 1}, ".spec.nobody: field not declared in schema"),
        ({"clusterIPs": {}}, ".spec.clusterIPs: expected list, got &{map[]}"),
    ):
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": spec}
        answer = await api.patch(f"{CORE}/services/x?fieldManager=m", json.dumps(body), APPLY)
        assert failure(answer, 500, "")["message"].endswith(message)
