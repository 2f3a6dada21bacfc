"""Who may act as whom: constrained modes, the classic right, and which refusal is reported."""

from __future__ import annotations

import pytest

from registry.authentication.user import AUTHENTICATED, User
from registry.authorization.attributes import refusal
from registry.authorization.impersonation_authz import Impersonation, ImpersonationRefused
from registry.store.types import TenantId
from tests.authorization.rbac.build import attributes_of, bound, compiled, known, policy

TENANT = TenantId(1)
SA = known("sa")
PODS = attributes_of("list pods in n")


def rule(verbs: str, resources: str, names: str = "", group: str = "") -> dict[str, list[str]]:
    made = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**made, "resourceNames": names.split()} if names else made


def wanted(name: str, *groups: str, uid: str = "", extra: dict[str, tuple[str, ...]] | None = None) -> User:
    return User(name, (*groups, AUTHENTICATED), uid, extra or {})


def checked(
    rules: list[dict[str, list[str]]], user: User, *groups: str, impersonation: Impersonation | None = None
) -> User:
    return in_mode(rules, user, *groups, impersonation=impersonation)[0]


def in_mode(
    rules: list[dict[str, list[str]]], user: User, *groups: str, impersonation: Impersonation | None = None
) -> tuple[User, str]:
    found = policy(bound("r", "User sa"), cluster_roles={"r": compiled(*rules)})
    return (impersonation or Impersonation()).check(
        TENANT, SA, user, groups, PODS, lambda needed: found.decide(SA, needed)
    )


AUTH = "authentication.k8s.io"
CLASSIC = [rule("impersonate", "users", "ann")]
ALLOWED = {
    "a user": (CLASSIC, wanted("ann"), ()),
    "a group": ([*CLASSIC, rule("impersonate", "groups", "g")], wanted("ann", "g"), ("g",)),
    "a uid": ([*CLASSIC, rule("impersonate", "uids", "7", AUTH)], wanted("ann", uid="7"), ()),
    "an extra": (
        [*CLASSIC, rule("impersonate", "userextras/team", "a", AUTH)],
        wanted("ann", extra={"team": ("a",)}),
        (),
    ),
    "an account": ([rule("impersonate", "serviceaccounts", "x")], wanted("system:serviceaccount:n:x"), ()),
    "for one thing only": (
        [rule("impersonate-on:user-info:list", "pods"), rule("impersonate:user-info", "users", "ann", AUTH)],
        wanted("ann"),
        (),
    ),
    "an account for one thing": (
        [
            rule("impersonate-on:serviceaccount:list", "pods"),
            rule("impersonate:serviceaccount", "serviceaccounts", "", AUTH),
        ],
        wanted("system:serviceaccount:n:x"),
        (),
    ),
    "nearly an account, so a user": (
        [rule("impersonate", "users", "system:serviceaccount:n:Not_one")],
        wanted("system:serviceaccount:n:Not_one"),
        (),
    ),
    "nearly a node, so a user": (
        [
            rule("impersonate-on:user-info:list", "pods"),
            rule("impersonate:user-info", "users", "system:node:Not_one", AUTH),
        ],
        wanted("system:node:Not_one"),
        (),
    ),
    "many groups by the right to all": (
        [
            rule("impersonate-on:user-info:list", "pods"),
            rule("impersonate:user-info", "users", "ann", AUTH),
            rule("impersonate:user-info", "groups", "*", AUTH),
        ],
        wanted("ann", "a", "b", "c", "d"),
        ("a", "b", "c", "d"),
    ),
    "many extras by the right to all": (
        [
            rule("impersonate-on:user-info:list", "pods"),
            rule("impersonate:user-info", "users", "ann", AUTH),
            rule("impersonate:user-info", "userextras/*", "*", AUTH),
        ],
        wanted("ann", extra={"x.io/a": ("1", "2"), "x.io/b": ("3", "4")}),
        (),
    ),
}


@pytest.mark.parametrize("rules, user, groups", ALLOWED.values(), ids=ALLOWED)
def test_allowed(rules: list[dict[str, list[str]]], user: User, groups: tuple[str, ...]) -> None:
    assert checked(rules, user, *groups) == user


def test_a_node_gets_the_group_of_nodes() -> None:
    rules = [rule("impersonate-on:arbitrary-node:list", "pods"), rule("impersonate:arbitrary-node", "nodes", "a", AUTH)]
    assert checked(rules, wanted("system:node:a")).groups == ("system:nodes", AUTHENTICATED)


CONSTRAINED = [rule("impersonate-on:user-info:list", "pods"), rule("impersonate:user-info", "users groups", "", AUTH)]
REFUSED: dict[str, tuple[list[dict[str, list[str]]], User, tuple[str, ...], str]] = {
    "nothing": (
        [],
        wanted("ann"),
        (),
        'cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "n"',
    ),
    "an account": (
        [],
        wanted("system:serviceaccount:n:x"),
        (),
        'cannot impersonate-on:serviceaccount:list resource "pods" in API group "" in the namespace "n"',
    ),
    "an account with groups": (
        [],
        wanted("system:serviceaccount:n:x", "g"),
        ("g",),
        'cannot impersonate resource "serviceaccounts" in API group "" in the namespace "n"',
    ),
    "a node": (
        [],
        wanted("system:node:a"),
        (),
        'cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" in the namespace "n"',
    ),
    "administrators, in a constrained mode": (
        CONSTRAINED,
        wanted("ann", "system:masters"),
        ("system:masters",),
        'cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: '
        "impersonating the system:masters group is not allowed",
    ),
    "administrators, by whom the user is not allowed either": (
        [rule("impersonate-on:user-info:list", "pods")],
        wanted("ann", "system:masters"),
        ("system:masters",),
        'cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope',
    ),
    "fewer groups are asked for one by one": (
        [
            *CONSTRAINED[:1],
            rule("impersonate:user-info", "users", "", AUTH),
            rule("impersonate:user-info", "groups", "*", AUTH),
        ],
        wanted("ann", "a", "b", "c"),
        ("a", "b", "c"),
        'cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope',
    ),
    "an extra without a domain": (
        CONSTRAINED,
        wanted("ann", extra={"team": ("a",)}),
        (),
        'cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: '
        'impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "team": must be a '
        'domain-prefixed path (such as "acme.io/foo")',
    ),
    "an extra of a wrong domain and path": (
        CONSTRAINED,
        wanted("ann", extra={"x_y/a b": ("a",)}),
        (),
        'cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: '
        'impersonating an invalid key in extra is not allowed: [extra.key: Invalid value: "x_y": a lowercase RFC 1123 '
        "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), extra.key: Invalid value: \"a b\": "
        "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')]",
    ),
    "an extra in capitals": (
        CONSTRAINED,
        wanted("ann", extra={"x.io/A": ("a",)}),
        (),
        'cannot impersonate:user-info resource "userextras" in API group "authentication.k8s.io" at the cluster scope: '
        'impersonating a non-lowercase key in extra is not allowed: "x.io/A"',
    ),
}


@pytest.mark.parametrize("rules, user, groups, text", REFUSED.values(), ids=REFUSED)
def test_refused(rules: list[dict[str, list[str]]], user: User, groups: tuple[str, ...], text: str) -> None:
    with pytest.raises(ImpersonationRefused) as caught:
        checked(rules, user, *groups)
    assert refusal(SA, caught.value.attributes, caught.value.reason) == f'User "sa" {text}'


def test_the_authorizing_constraint_is_reported() -> None:
    one_thing = [rule("impersonate-on:user-info:list", "pods"), rule("impersonate:user-info", "users", "", AUTH)]
    assert in_mode(one_thing, wanted("ann"))[1] == "impersonate:user-info"
    assert in_mode(CLASSIC, wanted("ann"))[1] == ""


def test_a_user_with_the_legacy_permission_gets_the_missing_one_named() -> None:
    impersonation = Impersonation()
    checked(CLASSIC, wanted("ann"), impersonation=impersonation)
    with pytest.raises(ImpersonationRefused) as caught:
        checked(CLASSIC, wanted("ann", "g"), "g", impersonation=impersonation)
    assert caught.value.attributes.resource == "groups"
    assert caught.value.attributes.name == "g"


def test_a_revoked_right_has_no_effect_at_once() -> None:
    impersonation = Impersonation()
    checked(CLASSIC, wanted("ann"), impersonation=impersonation)
    with pytest.raises(ImpersonationRefused):
        checked([], wanted("ann"), impersonation=impersonation)
