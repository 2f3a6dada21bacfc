"""Which requests rules, selectors and the match policy select."""

from __future__ import annotations

from typing import Any

import pytest

from registry.admission.attributes import AdmissionAttributes, Resource
from registry.admission.rules import Match
from registry.admission.selectors import selector_errors

GROUP = "test.example.com"
V1 = Resource(GROUP, "v1", "widgets", GROUP, "v1", "Widget")
V2 = Resource(GROUP, "v2", "widgets", GROUP, "v2", "Widget")
NAMESPACE = Resource("", "v1", "namespaces", "", "v1", "Namespace")


def attributes(**changes: Any) -> AdmissionAttributes:
    written = {"metadata": {"labels": {"t": "x"}}}
    made = AdmissionAttributes("CREATE", V1, "", "default", "a", written, None, None, False, {}, [V2])
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def rule(**changes: Any) -> dict[str, Any]:
    return {"apiGroups": [GROUP], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]} | changes


@pytest.mark.parametrize(
    "match, request_, expected",
    [
        pytest.param({"resourceRules": [rule()]}, {}, V1, id="all of it"),
        pytest.param({"resourceRules": [rule(operations=["UPDATE"])]}, {}, None, id="another operation"),
        pytest.param({"resourceRules": [rule(operations=["*"])]}, {"operation": "DELETE"}, V1, id="any operation"),
        pytest.param(
            {"resourceRules": [rule(apiGroups=["*"], apiVersions=["*"], resources=["*"])]}, {}, V1, id="anything"
        ),
        pytest.param({"resourceRules": [rule(apiGroups=[""])]}, {}, None, id="another group"),
        pytest.param({"resourceRules": [rule()]}, {"subresource": "status"}, None, id="a subresource must be named"),
        pytest.param(
            {"resourceRules": [rule(resources=["widgets/status"])]}, {"subresource": "status"}, V1, id="it is"
        ),
        pytest.param({"resourceRules": [rule(resources=["widgets/*"])]}, {"subresource": "scale"}, V1, id="any part"),
        pytest.param(
            {"resourceRules": [rule(resources=["*/scale"])]}, {"subresource": "scale"}, V1, id="part of anything"
        ),
        pytest.param({"resourceRules": [rule(resources=["*"])]}, {"subresource": "scale"}, None, id="* has no parts"),
        pytest.param({"resourceRules": [rule(resources=["*/*"])]}, {"subresource": "scale"}, V1, id="*/* has"),
        pytest.param({"resourceRules": [rule(apiVersions=["v2"])]}, {}, V2, id="equivalent"),
        pytest.param({"resourceRules": [rule(apiVersions=["v2"])], "matchPolicy": "Exact"}, {}, None, id="exact"),
        pytest.param({"resourceRules": [rule(scope="Cluster")]}, {}, None, id="cluster scope"),
        pytest.param({"resourceRules": [rule(scope="Namespaced")]}, {}, V1, id="namespaced scope"),
        pytest.param(
            {"resourceRules": [rule(scope="Cluster", apiGroups=[""], resources=["namespaces"])]},
            {"resource": NAMESPACE, "namespace": "a"},
            NAMESPACE,
            id="a namespace is not namespaced",
        ),
        pytest.param({"resourceRules": [rule(resourceNames=["a"])]}, {}, V1, id="by name"),
        pytest.param({"resourceRules": [rule(resourceNames=["b"])]}, {}, None, id="another name"),
        pytest.param(
            {"resourceRules": [rule()], "excludeResourceRules": [rule(resourceNames=["a"])]}, {}, None, id="excluded"
        ),
        pytest.param({"resourceRules": [rule()], "objectSelector": {"matchLabels": {"t": "x"}}}, {}, V1, id="labels"),
        pytest.param(
            {"resourceRules": [rule()], "objectSelector": {"matchLabels": {"t": "y"}}}, {}, None, id="other labels"
        ),
        pytest.param(
            {"resourceRules": [rule(operations=["*"])], "objectSelector": {"matchLabels": {"t": "x"}}},
            {"object": None, "old_object": {"metadata": {"labels": {"t": "x"}}}},
            V1,
            id="labels of the old object",
        ),
        pytest.param(
            {
                "resourceRules": [rule()],
                "objectSelector": {
                    "matchExpressions": [
                        {"key": "u", "operator": "DoesNotExist"},
                        {"key": "t", "operator": "In", "values": ["x", "y"]},
                        {"key": "t", "operator": "NotIn", "values": ["z"]},
                        {"key": "t", "operator": "Exists"},
                    ]
                },
            },
            {},
            V1,
            id="requirements",
        ),
        pytest.param({}, {}, V1, id="a binding without rules"),
    ],
)
def test_requests_that_match(match: dict[str, Any], request_: dict[str, Any], expected: Resource | None) -> None:
    assert Match(match).resource(attributes(**request_)) == expected


def test_a_webhook_without_rules_matches_nothing() -> None:
    assert Match({}, rules="rules", empty_matches=False).resource(attributes()) is None


SELECTED = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}


@pytest.mark.parametrize(
    "request_, needs, labels, expected",
    [
        pytest.param({}, True, {"env": "prod"}, True, id="selected"),
        pytest.param({}, True, {}, False, id="not selected"),
        pytest.param({"namespace": ""}, False, None, True, id="cluster-scoped objects are in no namespace"),
        pytest.param(
            {"resource": NAMESPACE, "object": {"metadata": {"labels": {"env": "prod"}}}},
            False,
            None,
            True,
            id="a namespace that is written is matched by its new labels",
        ),
        pytest.param(
            {"resource": NAMESPACE, "operation": "DELETE", "object": None},
            True,
            {"env": "prod"},
            True,
            id="one that is deleted by those it has",
        ),
    ],
)
def test_namespaces(request_: dict[str, Any], needs: bool, labels: dict[str, str] | None, expected: bool) -> None:
    match, made = Match(SELECTED), attributes(**request_)
    assert match.needs_namespace(made) is needs
    assert match.selects_namespace(made, labels) is expected


@pytest.mark.parametrize(
    "selector, expected",
    [
        pytest.param(None, [], id="none"),
        pytest.param(
            {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, [], id="good"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            ["s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
            id="in",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]},
            [
                "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ],
            id="exists",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Near"}]},
            ['s.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator'],
            id="operator",
        ),
    ],
)
def test_selectors_that_are_wrong(selector: dict[str, Any] | None, expected: list[str]) -> None:
    assert [error.message() for error in selector_errors(selector, "s")] == expected
