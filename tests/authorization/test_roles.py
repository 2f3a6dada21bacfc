"""Roles and bindings through HTTP: defaults come when they are asked for, rights count at once, nobody grants more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.applications import Starlette

from registry.api.default_roles import ensure_default_roles
from registry.api.request import Backend
from registry.api.strategies import rbac
from registry.authentication.tokens.bearer import BearerTokens
from registry.authorization import authorizer
from registry.authorization.authorizer import TENANT_BYTES
from registry.authorization.rbac.defaults import default_objects
from registry.authorization.rbac.stored import CLUSTER_ROLES, RESOURCES
from registry.controllers import aggregation
from registry.flowcontrol.evaluation import ASIDE
from registry.store.types import Tenant, TenantName
from tests.api.client import APPLY, MERGE, Answer, Client, eventually
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, widget
from tests.application import has_own_application, shares_application

pytestmark = shares_application

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER = f"{RBAC}/clusterroles"
CLUSTER_BINDINGS = f"{RBAC}/clusterrolebindings"
ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
GROUP = "rbac.authorization.k8s.io"


class As:
    """Somebody whom the administrator acts as."""

    def __init__(self, api: Client, name: str) -> None:
        self._api = api
        self._headers = {"impersonate-user": name}

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        return await self._api.request(method, path, body, headers=dict(self._headers), **options)


def role(name: str, *rules: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def rule(resources: str, verbs: str, group: str = "test.example.com") -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


def binding(name: str, of: str, user: str, kind: str = "Role") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": of, "apiGroup": GROUP},
        "subjects": [{"kind": "User", "name": user}],
    }


def backend_of(app: Starlette) -> Backend:
    backend: Backend = app.state.backend
    return backend


async def tenant_of(app: Starlette, name: str = "default") -> Tenant:
    return await backend_of(app).store.tenant(TenantName(name))


@has_own_application
async def test_default_roles_are_created_on_first_use(api: Client, app: Starlette) -> None:
    store, tenant = backend_of(app).store, await tenant_of(app)
    ann = As(api, "ann")
    assert (await ann("GET", "/apis")).code == 200
    assert (await ann("GET", WIDGETS)).code == 403
    assert await store.lookups.newest_of(tenant, RESOURCES) == (0, 0), "a tenant whose roles nobody asks for is a row"
    roles = (await api.get(CLUSTER)).ok()["items"]
    assert [r["metadata"]["name"] for r in roles] == sorted(
        key for resource, key in default_objects() if resource == CLUSTER_ROLES
    )
    assert (await store.lookups.newest_of(tenant, RESOURCES))[0] == len(default_objects())
    view = next(r for r in roles if r["metadata"]["name"] == "view")
    assert {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]} in view["rules"]


@has_own_application
async def test_edited_default_roles_are_kept(api: Client, app: Starlette) -> None:
    ann = As(api, "ann")
    assert (await ann("GET", "/apis")).code == 200
    (await api.delete(f"{CLUSTER_BINDINGS}/system:discovery")).ok()
    assert (await ann("GET", "/apis")).code == 403
    (await api.get(CLUSTER_BINDINGS)).ok()
    failure(await api.get(f"{CLUSTER_BINDINGS}/system:discovery"), 404, "NotFound")
    assert (await ann("GET", "/apis")).code == 403


@has_own_application
async def test_missing_default_roles_and_rules_are_added(api: Client, app: Starlette) -> None:
    """A process that dies while it writes them leaves roles without bindings."""
    backend, tenant = backend_of(app), await tenant_of(app)
    (await api.get(CLUSTER)).ok()
    (await api.patch(f"{CLUSTER}/system:basic-user", {"rules": [rule("x", "get")]})).ok()
    (
        await api.patch(
            f"{CLUSTER}/system:discovery",
            {"rules": [], "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}},
        )
    ).ok()
    (await api.delete(f"{CLUSTER}/view")).ok()
    (await api.delete(CLUSTER_BINDINGS)).ok()
    assert (await As(api, "ann")("GET", "/apis")).code == 403, "its own discovery role, which is empty, is obeyed"
    await ensure_default_roles(backend, tenant)
    assert (await api.get(f"{CLUSTER}/view")).ok()["rules"]
    basic = (await api.get(f"{CLUSTER}/system:basic-user")).ok()["rules"]
    assert basic[0] == rule("x", "get")
    assert len(basic) == 4
    assert (await api.get(f"{CLUSTER}/system:discovery")).ok()["rules"] is None
    (await api.get(f"{CLUSTER_BINDINGS}/system:basic-user")).ok()


async def test_a_right_applies_from_the_write_on(api: Client) -> None:
    ann = As(api, "ann")
    (await api.post(ROLES, role("r", rule("widgets", "list")))).ok(201)
    assert (await ann("GET", WIDGETS)).code == 403
    (await api.post(BINDINGS, binding("b", "r", "ann"))).ok(201)
    assert (await ann("GET", WIDGETS)).code == 200
    (await api.delete(f"{ROLES}/r")).ok()
    refusal = failure(await ann("GET", WIDGETS), 403, "Forbidden")
    assert refusal["message"].endswith('in the namespace "default": RBAC: role.rbac.authorization.k8s.io "r" not found')


async def test_applying_a_missing_object_requires_the_right_to_create(api: Client) -> None:
    (await api.post(ROLES, role("r", rule("widgets", "patch update")))).ok(201)
    (await api.post(BINDINGS, binding("b", "r", "ann"))).ok(201)
    ann = As(api, "ann")
    path = f"{WIDGETS}/fresh?fieldManager=m"
    body = {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "fresh"}}
    refusal = failure(await ann("PATCH", path, body, content_type=APPLY), 403, "Forbidden")
    assert refusal["message"] == (
        'widgets.test.example.com "fresh" is forbidden: User "ann" cannot create resource '
        '"widgets" in API group "test.example.com" in the namespace "default"'
    )
    (await api.post(WIDGETS, widget("fresh"))).ok(201)
    (await ann("PATCH", path, body, content_type=APPLY)).ok()


async def test_a_put_creates_a_missing_role(api: Client) -> None:
    (await api.put(f"{ROLES}/r", role("r", rule("widgets", "get")))).ok(201)
    (await api.put(f"{ROLES}/r", role("r", rule("roles", "update escalate", GROUP)))).ok(200)
    (await api.post(BINDINGS, binding("b", "r", "ann"))).ok(201)
    refusal = failure(
        await As(api, "ann")("PUT", f"{ROLES}/new", role("new", rule("widgets", "get"))), 403, "Forbidden"
    )
    assert refusal["message"].startswith('roles.rbac.authorization.k8s.io "new" is forbidden: User "ann" cannot create')


async def test_users_cannot_grant_rights_that_they_lack(api: Client) -> None:
    (await api.post(ROLES, role("ed", rule("widgets", "get"), rule("roles rolebindings", "*", GROUP)))).ok(201)
    (
        await api.patch(
            f"{ROLES}/ed",
            {"rules": [rule("widgets", "get"), rule("roles rolebindings", "create get update patch", GROUP)]},
        )
    ).ok()
    (await api.post(ROLES, role("big", rule("widgets", "get delete")))).ok(201)
    (await api.post(BINDINGS, binding("b", "ed", "ann"))).ok(201)
    ann = As(api, "ann")
    (await ann("POST", ROLES, role("small", rule("widgets", "get")))).ok(201)
    lacking = (
        'user "ann" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:["test.example.com"], Resources:["widgets"], Verbs:["delete"]}'
    )
    refusal = failure(await ann("POST", ROLES, role("new", rule("widgets", "delete"))), 403, "Forbidden")
    assert refusal["message"] == f'roles.rbac.authorization.k8s.io "new" is forbidden: {lacking}'
    refusal = failure(await ann("POST", BINDINGS, binding("mine", "big", "ann")), 403, "Forbidden")
    assert refusal["message"] == f'rolebindings.rbac.authorization.k8s.io "mine" is forbidden: {lacking}'
    refusal = failure(await ann("POST", BINDINGS, binding("mine", "gone", "ann")), 404, "NotFound")
    assert refusal["message"] == 'rolebindings.rbac.authorization.k8s.io "gone" not found'
    for kind in ("", "Pod"):
        refused = await ann("POST", BINDINGS, binding("mine", "big", "ann", kind))
        assert (refused.code, refused.json["message"]) == (500, f'unsupported role reference kind: "{kind}"')
    for name, why in (("", "required."), ("a/b", "invalid: \"a/b\": may not contain '/'")):
        refusal = failure(await ann("POST", BINDINGS, binding("mine", name, "ann")), 400, "BadRequest")
        assert refusal["message"] == f"Name parameter {why}"
    # A write that changes nothing grants nothing; empty lists and maps are as absent ones.
    for labels, code in (({}, 200), ({"a": ""}, 403)):
        patch = {"metadata": {"labels": labels, "finalizers": ["a.b/c"]}}
        assert (await ann("PATCH", f"{ROLES}/big", patch, content_type=MERGE)).code == code
    # A user that may escalate, or bind this one, is allowed to.
    (await api.post(ROLES, role("esc", rule("roles", "escalate", GROUP)))).ok(201)
    (await api.post(BINDINGS, binding("esc", "esc", "ann"))).ok(201)
    (await ann("POST", ROLES, role("new", rule("widgets", "delete")))).ok(201)
    failure(await ann("POST", BINDINGS, binding("mine", "big", "ann")), 403, "Forbidden")
    (await api.patch(f"{ROLES}/esc", {"rules": [{**rule("roles", "bind", GROUP), "resourceNames": ["big"]}]})).ok()
    (await ann("POST", BINDINGS, binding("mine", "big", "ann"))).ok(201)


async def test_aggregation_requires_all_rights(api: Client) -> None:
    (await api.post(CLUSTER, role("ed", rule("clusterroles", "create", GROUP)))).ok(201)
    (await api.post(CLUSTER_BINDINGS, binding("ed", "ed", "ann", "ClusterRole"))).ok(201)
    aggregated = role("agg", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    refusal = failure(await As(api, "ann")("POST", CLUSTER, aggregated), 403, "Forbidden")
    assert refusal["message"] == (
        'clusterroles.rbac.authorization.k8s.io "agg" is forbidden: must have cluster-admin '
        "privileges to use the aggregationRule"
    )
    # Without selectors it grants nothing, so what is wrong with it is reported.
    empty = role("agg", aggregationRule={"clusterRoleSelectors": []})
    failure(await As(api, "ann")("POST", CLUSTER, empty), 422, "Invalid")
    cluster_wide = binding("mine", "gone", "ann", "Role")
    (await api.patch(f"{CLUSTER}/ed", {"rules": [rule("clusterroles clusterrolebindings", "create", GROUP)]})).ok()
    refusal = failure(await As(api, "ann")("POST", CLUSTER_BINDINGS, cluster_wide), 400, "BadRequest")
    assert refusal["message"] == "Namespace parameter required."


async def test_aggregated_roles_follow_their_parts(api: Client) -> None:
    part = role("part", rule("widgets", "list"))
    part["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    (await api.post(CLUSTER, part)).ok(201)
    (await api.post(BINDINGS, binding("b", "admin", "ann", "ClusterRole"))).ok(201)
    ann = As(api, "ann")

    async def may() -> bool:
        return (await ann("GET", WIDGETS)).code == 200

    async def may_not() -> bool:
        return not await may()

    await eventually(may)
    (await api.delete(f"{CLUSTER}/part")).ok()
    await eventually(may_not)


async def test_aggregated_rules_are_applied(api: Client) -> None:
    """The controller owns the rules by an apply, not the writer of the role; without rules it owns nothing."""
    part = role("part", rule("widgets", "list"))
    part["metadata"]["labels"] = {"a": "b"}
    (await api.post(CLUSTER, part)).ok(201)
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    (await api.post(f"{CLUSTER}?fieldManager=ann", role("agg", rule("x", "get"), aggregationRule=aggregation))).ok(201)

    async def entries(rules: list[Any]) -> dict[tuple[str, str], set[str]] | None:
        found = (await api.get(f"{CLUSTER}/agg")).ok()
        if (found["rules"] or []) != rules:
            return None
        return {(e["manager"], e["operation"]): set(e["fieldsV1"]) for e in found["metadata"]["managedFields"]}

    filled = await eventually(lambda: entries(part["rules"]))
    assert filled == {
        ("ann", "Update"): {"f:aggregationRule"},
        ("clusterrole-aggregation-controller", "Apply"): {"f:rules"},
    }
    (await api.delete(f"{CLUSTER}/part")).ok()
    emptied = await eventually(lambda: entries([]))
    assert emptied == {("ann", "Update"): {"f:aggregationRule"}}


@has_own_application
async def test_roles_left_unaggregated_by_a_crash_are_aggregated_later(
    api: Client, app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    (await api.get(CLUSTER)).ok()
    backend = backend_of(app)
    with monkeypatch.context() as dying:
        dying.setattr(backend.events, "enqueue", lambda tenant, resource, key: None)
        part = role("part", rule("widgets", "list"))
        part["metadata"]["labels"] = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        (await api.post(CLUSTER, part)).ok(201)
    backend.authorizer._touched.clear()  # as in a process that has just begun

    async def follows() -> bool:
        return rule("widgets", "list") in (await api.get(f"{CLUSTER}/admin")).ok()["rules"]

    await eventually(follows)


INVALID: dict[str, tuple[str, dict[str, Any], str]] = {
    "no verbs": (ROLES, role("r", rule("a", "")), "rules[0].verbs: Required value"),
    "no groups": (
        ROLES,
        role("r", {"resources": ["a"], "verbs": ["get"]}),
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
    ),
    "paths in a role": (
        ROLES,
        role("r", {"nonResourceURLs": ["/a"], "verbs": ["get"]}),
        'rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs',
    ),
    "both": (
        CLUSTER,
        role("r", {**rule("a", "get"), "nonResourceURLs": ["/a"]}),
        'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and '
        "non-resource URLs",
    ),
    "an empty aggregation": (
        CLUSTER,
        role("r", aggregationRule={}),
        "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector "
        "required if aggregationRule is non-nil",
    ),
    "an invalid selector of an aggregation": (
        CLUSTER,
        role("r", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b c"}}]}),
        "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
    ),
    "another kind of role": (
        BINDINGS,
        binding("b", "r", "u", "Group"),
        'roleRef.kind: Unsupported value: "Group": supported values: "Role", "ClusterRole"',
    ),
    "a role of the cluster": (
        CLUSTER_BINDINGS,
        binding("b", "r", "u"),
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
    ),
    "a subject of no kind": (
        BINDINGS,
        {**binding("b", "r", "u"), "subjects": [{"kind": "Robot", "name": "x"}]},
        'subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"',
    ),
    "an account of no namespace": (
        CLUSTER_BINDINGS,
        {**binding("b", "r", "u", "ClusterRole"), "subjects": [{"kind": "ServiceAccount", "name": "x"}]},
        "subjects[0].namespace: Required value",
    ),
    "a name of a path": (ROLES, role("a/b"), "metadata.name: Invalid value: \"a/b\": may not contain '/'"),
}


@pytest.mark.parametrize("path, body, why", INVALID.values(), ids=INVALID)
async def test_invalid_roles_and_bindings(shared_api: Client, path: str, body: dict[str, Any], why: str) -> None:
    assert why in failure(await shared_api.post(path, body), 422, "Invalid")["message"]


async def test_the_role_of_a_binding_cannot_be_changed(api: Client) -> None:
    (await api.post(BINDINGS, binding("b", "r", "ann"))).ok(201)
    refusal = failure(await api.patch(f"{BINDINGS}/b", {"roleRef": {"name": "s"}}), 422, "Invalid")
    assert refusal["message"].endswith(
        'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role",'
        '"Name":"s"}: cannot change roleRef'
    )


@has_own_application
async def test_a_user_of_another_tenant_is_bound_by_the_full_name(api: Client, app: Starlette) -> None:
    store = backend_of(app).store
    acme = await store.create_tenant(TenantName("acme"))
    token, _ = await BearerTokens(store).create(acme, "ann", ["dev"], "", None)
    stranger = api.with_token(token).of_tenant("default")
    name = "system:tenant:acme:ann"
    refusal = failure(await stranger.get(WIDGETS), 403, "Forbidden")
    assert f'User "{name}" cannot list' in refusal["message"]
    # What every tenant's own users may, he may not, and a tenant that is not there answers the same.
    failure(await stranger.get("/apis"), 403, "Forbidden")
    assert (await api.with_token(token).of_tenant("nobody").get(WIDGETS)).json == refusal
    (await api.post(ROLES, role("r", rule("widgets", "list")))).ok(201)
    (await api.post(BINDINGS, binding("same name", "r", "ann"))).ok(201)
    failure(await stranger.get(WIDGETS), 403, "Forbidden")
    (await api.post(BINDINGS, binding("full name", "r", name))).ok(201)
    (await stranger.get(WIDGETS)).ok()


async def test_reviews_return_rules_and_reasons(api: Client) -> None:
    (await api.post(ROLES, role("r", rule("widgets", "list")))).ok(201)
    (await api.post(BINDINGS, binding("b", "r", "ann"))).ok(201)
    reviews = "/apis/authorization.k8s.io/v1"
    spec = {
        "user": "ann",
        "resourceAttributes": {
            "verb": "list",
            "group": "test.example.com",
            "resource": "widgets",
            "namespace": "default",
        },
    }
    refusal = (await api.post(f"{reviews}/subjectaccessreviews", {"spec": spec})).ok(201)["status"]
    assert refusal == {"allowed": True, "reason": 'RBAC: allowed by RoleBinding "b/default" of Role "r" to User "ann"'}
    asked = await As(api, "ann")("POST", f"{reviews}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    rules = asked.ok(201)["status"]
    assert rules["incomplete"] is False
    assert {"verbs": ["list"], "apiGroups": ["test.example.com"], "resources": ["widgets"]} in rules["resourceRules"]


@has_own_application
async def test_decisions_by_many_rules_are_made_beside_the_event_loop(api: Client) -> None:
    """Each took milliseconds on it, and one for each group that a request impersonates."""
    rules = [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [f"p{i}"]} for i in range(3_000)
    ]
    (await api.post(CLUSTER, role("many", *rules, rule("widgets", "get")))).ok(201)
    (await api.post(CLUSTER_BINDINGS, binding("b", "many", "ann", "ClusterRole"))).ok(201)
    ann = As(api, "ann")

    async def aside(method: str, path: str, body: Any = None, **options: Any) -> tuple[int, float]:
        before = ASIDE._value.get()
        answer = await ann(method, path, body, **options)
        return answer.code, ASIDE._value.get() - before

    async def is_cached() -> bool:
        """Controllers may be writing the default roles."""
        return await aside("GET", f"{WIDGETS}/a") == (404, 0)

    code, count = await aside("GET", f"{WIDGETS}/a")
    assert (code, count > 0) == (404, True)
    await eventually(is_cached)
    code, count = await aside("DELETE", f"{WIDGETS}/b")
    assert (code, count > 0) == (403, True)
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    code, count = await aside("POST", reviews, {"spec": {"namespace": "default"}})
    assert (code, count > 0) == (201, True)


@has_own_application
async def test_roles_of_a_tenant_take_bounded_memory(
    api: Client, app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each text of a rule takes some 150 bytes in every process."""
    await api.get(CLUSTER)
    tenant = await tenant_of(app)
    used = TENANT_BYTES - await backend_of(app).authorizer.room(tenant)
    limit = used + 1_000_000
    monkeypatch.setattr(authorizer, "TENANT_BYTES", limit)
    monkeypatch.setattr(rbac, "TENANT_BYTES", limit)
    large = {"verbs": ["get"], "apiGroups": [""], "resources": [f"r{i}" for i in range(2_600)]}
    (await api.post(CLUSTER, role("large0", large))).ok(201)
    (await api.post(CLUSTER, role("large1", large))).ok(201)
    refused = await api.post(CLUSTER, role("large2", large))
    assert refused.code == 403
    assert "exceeded quota: tenant default, its roles and bindings may take" in refused.json["message"]
    assert (await api.put(f"{CLUSTER}/large1", role("large1", large, large))).code == 403
    subjects = {"subjects": [{"kind": "User", "name": f"u{i}", "apiGroup": GROUP} for i in range(1_000)]}
    assert (await api.post(CLUSTER_BINDINGS, binding("b", "large0", "ann", "ClusterRole") | subjects)).code == 403
    (await api.post(CLUSTER, role("small", rule("widgets", "get")))).ok(201)
    (await api.put(f"{CLUSTER}/large1", role("large1", rule("widgets", "get")))).ok(200)
    (await api.delete(f"{CLUSTER}/large0")).ok(200)
    (await api.post(CLUSTER, role("zlarge", large))).ok(201)
    # What exceeds it nonetheless, as it was written before there was the limit, grants nothing until it fits.
    (await api.post(CLUSTER, role("readers", rule("widgets", "list")))).ok(201)
    (await api.post(CLUSTER_BINDINGS, binding("readers", "readers", "ann", "ClusterRole"))).ok(201)
    ann = As(api, "ann")
    assert (await ann("GET", WIDGETS)).code == 200
    monkeypatch.setattr(authorizer, "TENANT_BYTES", used + 100_000)
    backend_of(app).authorizer._known.clear()
    assert (await ann("GET", WIDGETS)).code == 200
    entries = await backend_of(app).authorizer.entries_of(tenant)
    assert [key for (_, key), entry in entries.items() if entry.value is None] == ["zlarge"]
    monkeypatch.setattr(authorizer, "TENANT_BYTES", limit)
    (await api.delete(f"{CLUSTER}/small")).ok(200)
    entries = await backend_of(app).authorizer.entries_of(tenant)
    assert all(entry.value is not None for entry in entries.values())


@has_own_application
async def test_aggregated_rules_take_bounded_memory(
    api: Client, app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand roles that aggregate a large one would each take as much as it does."""
    await api.get(CLUSTER)
    used = TENANT_BYTES - await backend_of(app).authorizer.room(await tenant_of(app))
    monkeypatch.setattr(aggregation, "TENANT_BYTES", used + 1_000_000)
    selected = {"labels": {"large": "true"}}
    rules = {"verbs": ["get"], "apiGroups": [""], "resources": [f"r{i}" for i in range(1_600)]}
    selector = {"clusterRoleSelectors": [{"matchLabels": selected["labels"]}]}
    for i in range(6):
        made = {"metadata": {"name": f"all{i}"}, "aggregationRule": selector, "rules": []}
        (await api.post(CLUSTER, made)).ok(201)
    (await api.post(CLUSTER, {"metadata": {"name": "large", **selected}, "rules": [rules]})).ok(201)
    small = {"metadata": {"name": "small", **selected}, "rules": [rule("widgets", "get")]}

    async def aggregated() -> int:
        roles = [(await api.get(f"{CLUSTER}/all{i}")).ok(200) for i in range(6)]
        return sum(bool(role["rules"]) for role in roles)

    async def some_are_aggregated() -> bool:
        return await aggregated() == 3

    await eventually(some_are_aggregated)
    (await api.post(CLUSTER, small)).ok(201)
    assert await aggregated() == 3
    (await api.delete(f"{CLUSTER}/large")).ok(200)

    async def all_are_aggregated() -> bool:
        return await aggregated() == 6

    await eventually(all_are_aggregated)
