"""Audit policies: which rule decides, and which files are none."""

from __future__ import annotations

import pytest

from registry.audit.policy import AuditLevel, PolicyError, parse
from registry.authentication.user import User
from registry.authorization.attributes import Attributes

POLICY = b"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: ["system:quiet"]}
- {level: Request, userGroups: [watched], verbs: [delete]}
- {level: RequestResponse, resources: [{group: g, resources: [widgets, "widgets/status"], resourceNames: [a]}],
   namespaces: [ns]}
- {level: Request, resources: [{group: g, resources: ["*/scale", "gadgets/*"]}], omitStages: [ResponseStarted]}
- {level: None, nonResourceURLs: ["/healthz*", /version]}
- {level: Request, namespaces: [""]}
- {level: Metadata, resources: [{group: other}]}
"""


def of(
    verb: str = "get",
    resource: str = "",
    group: str = "g",
    namespace: str = "ns",
    name: str = "",
    sub: str = "",
    path: str = "/x",
) -> Attributes:
    return Attributes(verb, path, resource, sub, group, namespace, name)


CASES: dict[str, tuple[Attributes, str, AuditLevel]] = {
    "a user": (of(resource="widgets", name="a"), "system:quiet", AuditLevel.NONE),
    "a group and verb": (of("delete", "anything", "h"), "member", AuditLevel.REQUEST),
    "a group, another verb": (of("get", "anything", "h"), "member", AuditLevel.NONE),
    "a named object": (of(resource="widgets", name="a"), "u", AuditLevel.REQUEST_RESPONSE),
    "its status": (of(resource="widgets", name="a", sub="status"), "u", AuditLevel.REQUEST_RESPONSE),
    "its scale": (of(resource="widgets", name="a", sub="scale"), "u", AuditLevel.REQUEST),
    "its history": (of(resource="widgets", name="a", sub="history"), "u", AuditLevel.NONE),
    "another name": (of(resource="widgets", name="b"), "u", AuditLevel.NONE),
    "another namespace": (of(resource="widgets", name="a", namespace="m"), "u", AuditLevel.NONE),
    "any subresource": (of(resource="gadgets", sub="status"), "u", AuditLevel.REQUEST),
    "the resource itself": (of(resource="gadgets"), "u", AuditLevel.REQUEST),
    "a path": (of(path="/healthz/ping"), "u", AuditLevel.NONE),
    "no namespace": (of(resource="others", namespace=""), "u", AuditLevel.REQUEST),
    "a whole group": (of(resource="x", group="other"), "u", AuditLevel.METADATA),
    "no rule": (of(path="/metrics"), "u", AuditLevel.NONE),
}


@pytest.mark.parametrize("attributes, name, level", CASES.values(), ids=CASES.keys())
def test_the_first_rule_that_matches_decides(attributes: Attributes, name: str, level: AuditLevel) -> None:
    user = User(name, ("watched",) if name == "member" else ())
    assert parse(POLICY).decide(user, attributes).level is level


def test_stages_are_omitted_by_either() -> None:
    policy = parse(POLICY)
    decision = policy.decide(User("u"), of(resource="gadgets"))
    assert decision.omit_stages == {"RequestReceived", "ResponseStarted"}
    assert policy.decide(None, of(resource="x", group="other")).omit_stages == {"RequestReceived"}
    # Rules for users do not match whom nobody knows.
    assert policy.decide(None, of("delete", "anything", "h")).level is AuditLevel.NONE


def rule(text: str) -> str:
    return f"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{text}]"


BAD: dict[str, tuple[str, str]] = {
    "no YAML": ("a: [", "yaml: line 1"),
    "another kind": ("apiVersion: v1\nkind: Pod", "kind Policy"),
    "an old version": ("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]", "audit.k8s.io/v1"),
    "no rules": ("apiVersion: audit.k8s.io/v1\nkind: Policy", "rules"),
    "an unknown field": (rule("{level: None, user: [a]}"), 'unknown field "rules.0..user"'),
    "no level": (rule("{}"), "level"),
    "an unknown level": (rule("{level: All}"), "level"),
    "an unknown stage": (rule("{level: None, omitStages: [Never]}"), "Never"),
    "resources and paths": (rule("{level: None, nonResourceURLs: [/a], namespaces: [a]}"), "both"),
    "a path without slash": (rule("{level: None, nonResourceURLs: [a]}"), "begin"),
    "a star amid": (rule('{level: None, nonResourceURLs: ["/*/a"]}'), "end"),
    "a group with a version": (rule("{level: None, resources: [{group: a/v1}]}"), "group"),
    "names without resources": (rule("{level: None, resources: [{group: a, resourceNames: [b]}]}"), "resourceNames"),
    "users that are no list": (rule("{level: None, users: a}"), "users of type"),
}


@pytest.mark.parametrize("text, why", BAD.values(), ids=BAD.keys())
def test_invalid_policies(text: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        parse(text.encode())
