"""Who may act as whom: constrained modes, the classic right, and which refusal is told."""

from __future__ import annotations

import pytest

from registry.access.authorization import Attributes, refusal
from registry.access.identity import AUTHENTICATED, User
from registry.access.impersonating import Impersonation, ImpersonationRefused
from registry.store.types import TenantId
from tests.access.rbac.build import asked, bound, compiled, known, policy

TENANT = TenantId(1)
SA = known("sa")
PODS = asked("list pods in n")


def rule(verbs: str, resources: str, names: str = "", group: str = "") -> dict[str, list[str]]:
    made = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**made, "resourceNames": names.split()} if names else made


def wanted(name: str, *groups: str, uid: str = "", extra: dict[str, tuple[str, ...]] | None = None) -> User:
    return User(name, (*groups, AUTHENTICATED), uid, extra or {})


def checked(rules: list[dict[str, list[str]]], user: User, *groups: str, asks: Attributes = PODS,
            impersonation: Impersonation | None = None) -> User:
    found = policy(bound("r", "User sa"), cluster_roles={"r": compiled(*rules)})
    return (impersonation or Impersonation()).check(TENANT, SA, user, groups, asks,
                                                    lambda needed: found.decide(SA, needed))


AUTH = "authentication.k8s.io"
CLASSIC = [rule("impersonate", "users", "ann")]
ALLOWED = {
    "a user": (CLASSIC, wanted("ann"), ()),
    "a group": ([*CLASSIC, rule("impersonate", "groups", "g")], wanted("ann", "g"), ("g",)),
    "a uid": ([*CLASSIC, rule("impersonate", "uids", "7", AUTH)], wanted("ann", uid="7"), ()),
    "an extra": ([*CLASSIC, rule("impersonate", "userextras/team", "a", AUTH)], wanted("ann", extra={"team": ("a",)}),
                 ()),
    "an account": ([rule("impersonate", "serviceaccounts", "x")], wanted("system:serviceaccount:n:x"), ()),
    "for one thing only": ([rule("impersonate-on:user-info:list", "pods"),
                            rule("impersonate:user-info", "users", "ann", AUTH)], wanted("ann"), ()),
    "an account for one thing": ([rule("impersonate-on:serviceaccount:list", "pods"),
                                  rule("impersonate:serviceaccount", "serviceaccounts", "", AUTH)],
                                 wanted("system:serviceaccount:n:x"), ()),
}


@pytest.mark.parametrize("rules, user, groups", ALLOWED.values(), ids=ALLOWED)
def test_allowed(rules: list[dict[str, list[str]]], user: User, groups: tuple[str, ...]) -> None:
    assert checked(rules, user, *groups) == user


def test_a_node_gets_the_group_of_nodes() -> None:
    rules = [rule("impersonate-on:arbitrary-node:list", "pods"), rule("impersonate:arbitrary-node", "nodes", "a", AUTH)]
    assert checked(rules, wanted("system:node:a")).groups == ("system:nodes", AUTHENTICATED)


CONSTRAINED = [rule("impersonate-on:user-info:list", "pods"), rule("impersonate:user-info", "users groups", "", AUTH)]
REFUSED: dict[str, tuple[list[dict[str, list[str]]], User, tuple[str, ...], str]] = {
    "nothing": ([], wanted("ann"), (),
                'cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "n"'),
    "an account": ([], wanted("system:serviceaccount:n:x"), (),
                   'cannot impersonate-on:serviceaccount:list resource "pods" in API group "" in the namespace "n"'),
    "an account with groups": ([], wanted("system:serviceaccount:n:x", "g"), ("g",),
                               'cannot impersonate resource "serviceaccounts" in API group "" in the namespace "n"'),
    "a node": ([], wanted("system:node:a"), (),
               'cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" in the namespace "n"'),
    "administrators, in a constrained mode": (
        CONSTRAINED, wanted("ann", "system:masters"), ("system:masters",),
        'cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: '
        "impersonating the system:masters group is not allowed"),
}


@pytest.mark.parametrize("rules, user, groups, text", REFUSED.values(), ids=REFUSED)
def test_refused(rules: list[dict[str, list[str]]], user: User, groups: tuple[str, ...], text: str) -> None:
    with pytest.raises(ImpersonationRefused) as caught:
        checked(rules, user, *groups)
    assert refusal(SA, caught.value.attributes, caught.value.reason) == f'User "sa" {text}'


def test_who_had_the_classic_right_is_told_what_it_lacks() -> None:
    impersonation = Impersonation()
    checked(CLASSIC, wanted("ann"), impersonation=impersonation)
    with pytest.raises(ImpersonationRefused) as caught:
        checked(CLASSIC, wanted("ann", "g"), "g", impersonation=impersonation)
    assert caught.value.attributes.resource == "groups"
    assert caught.value.attributes.name == "g"


def test_a_right_that_is_gone_is_gone_at_once() -> None:
    impersonation = Impersonation()
    checked(CLASSIC, wanted("ann"), impersonation=impersonation)
    with pytest.raises(ImpersonationRefused):
        checked([], wanted("ann"), impersonation=impersonation)
