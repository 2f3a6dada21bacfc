"""Selectors in access reviews: what is refused, and what is answered although a part of it is not understood."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Answer, Client
from tests.api.errors import failure
from tests.application import shares_application

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
ATTRIBUTES = "spec.resourceAttributes"


async def ask(api: Client, **selectors: Any) -> Answer:
    return await api.post(
        REVIEWS,
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "list", "resource": "configmaps", **selectors}},
        },
    )


def needs(operator: str, *values: str, key: str = "a") -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@shares_application
@pytest.mark.parametrize(
    ("field", "label", "reported"),
    [
        pytest.param({"rawSelector": "a=b,c!=d"}, {"rawSelector": "a in (b),!c"}, "", id="texts"),
        pytest.param({"rawSelector": "a"}, {"rawSelector": "a in b"}, "field; label", id="texts that are none"),
        pytest.param({"rawSelector": "a=b=c"}, None, "field", id="an unescaped character"),
        pytest.param({"requirements": [needs("In", "b"), needs("NotIn", "b")]}, None, "", id="fields"),
        pytest.param({"requirements": [needs("In", "b", "c")]}, None, "field", id="fields of several values"),
        pytest.param(
            {"requirements": [needs("Exists"), needs("In", "b")]}, None, "partially field", id="one that exists"
        ),
        pytest.param(None, {"requirements": [needs("In", "b", "c"), needs("Exists")]}, "", id="labels"),
        pytest.param(None, {"requirements": [needs("Near", "b")]}, "label", id="an operator to come"),
        pytest.param(None, {"requirements": [needs("Near"), needs("Exists")]}, "partially label", id="one of two"),
    ],
)
async def test_unsupported_requirements_are_ignored(shared_api: Client, field: Any, label: Any, reported: str) -> None:
    given = {"fieldSelector": field, "labelSelector": label}
    status = (await ask(shared_api, **{name: value for name, value in given.items() if value})).ok(201)["status"]
    assert status["allowed"]
    texts = [
        f"{ATTRIBUTES}.{part.split()[-1]}Selector {'partially ' if 'partially' in part else ''}ignored due to"
        " parse error"
        for part in reported.split("; ")
        if part
    ]
    assert status.get("evaluationError", "") == "; ".join(texts)


@shares_application
@pytest.mark.parametrize(
    ("name", "selector", "fields"),
    [
        ("fieldSelector", {}, ["requirements"]),
        (
            "labelSelector",
            {"rawSelector": "a=b", "requirements": [needs("In")]},
            ["rawSelector", "requirements[0].values"],
        ),
        (
            "fieldSelector",
            {"requirements": [needs("Exists", "b", key="")]},
            ["requirements[0].key", "requirements[0].values"],
        ),
        (
            "labelSelector",
            {"requirements": [needs("Near", "-", key="/")]},
            ["requirements[0].key", "requirements[0].values[0]"],
        ),
    ],
    ids=["neither", "both", "a field without a name", "no labels"],
)
async def test_invalid_reviews(shared_api: Client, name: str, selector: Any, fields: list[str]) -> None:
    causes = failure(await ask(shared_api, **{name: selector}), 422, "Invalid")["details"]["causes"]
    found = dict.fromkeys(cause["field"] for cause in causes)
    assert [*found] == [f"{ATTRIBUTES}.{name}.{field}" for field in fields]


GROUP = "/apis/authorization.k8s.io/v1"


async def of_others(api: Client, spec: dict[str, Any], *, local: bool = False, **metadata: Any) -> Answer:
    kind, path = (
        ("LocalSubjectAccessReview", f"{GROUP}/namespaces/default/localsubjectaccessreviews")
        if local
        else ("SubjectAccessReview", f"{GROUP}/subjectaccessreviews")
    )
    return await api.post(
        path, {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
    )


@shares_application
async def test_all_errors_are_reported_in_order(shared_api: Client) -> None:
    asked = {"nonResourceAttributes": {"path": "/x"}, "resourceAttributes": {"fieldSelector": {}}}
    causes = failure(await of_others(shared_api, asked, name="x"), 422, "Invalid")["details"]["causes"]
    assert [cause["field"] for cause in causes] == [
        "spec.nonResourceAttributes",
        "spec.user",
        f"{ATTRIBUTES}.fieldSelector.requirements",
        "metadata",
    ]


@shares_application
async def test_a_local_review_has_a_namespace_and_nothing_else(shared_api: Client) -> None:
    spec = {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "default"}}
    assert (await of_others(shared_api, spec, local=True, namespace="default")).ok(201)["status"] == {"allowed": False}
    status = failure(await of_others(shared_api, spec, local=True, name="x"), 422, "Invalid")
    assert 'metadata: Invalid value: {"name":"x","namespace":"default",' in status["message"]
    assert status["message"].endswith("]}: must be empty except for namespace")


@shares_application
async def test_the_status_sent_by_a_client_is_dropped(shared_api: Client) -> None:
    spec = {"user": "ann", "nonResourceAttributes": {"path": "/x", "verb": "get"}}
    review = (await of_others(shared_api, spec, uid="u", creationTimestamp="2020-01-01T00:00:00Z")).ok(201)
    assert "uid" not in review["metadata"]
    failure(await of_others(shared_api, spec, uid="u", generation=1), 422, "Invalid")


@shares_application
async def test_an_extra_without_values(shared_api: Client) -> None:
    spec = {"user": "ann", "extra": {"a": None, "b": ["c"]}, "nonResourceAttributes": {"path": "/x", "verb": "get"}}
    review = (await of_others(shared_api, spec)).ok(201)
    assert review["spec"]["extra"] == {"a": None, "b": ["c"]}
    assert review["status"] == {"allowed": False}


@shares_application
async def test_a_status_in_the_question_has_an_owner(tenant_api: Client) -> None:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "none"},
        "status": {"authenticated": True, "user": {"username": "u"}},
    }
    review = (await tenant_api.post("/apis/authentication.k8s.io/v1/tokenreviews", body)).ok(201)
    assert "authenticated" not in review["status"]
    assert review["status"]["user"] == {"username": "u"}
    (entry,) = review["metadata"]["managedFields"]
    assert entry["fieldsV1"]["f:status"] == {"f:authenticated": {}, "f:user": {"f:username": {}}}
