"""Authorization of Queries: they read only what the user may list, in each namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import NAMESPACES, WIDGETS, define, definition, make
from tests.audit.auditing import EVERYTHING, auditing
from tests.query.lists import INDEX, declare, fill
from tests.query.questions import QUERIES, ask, counts, post, rows_of, widgets_in

RBAC = "rbac.authorization.k8s.io"
CLUSTER = f"/apis/{RBAC}/v1/clusterroles"
CLUSTER_BINDINGS = f"/apis/{RBAC}/v1/clusterrolebindings"
BINDINGS = f"/apis/{RBAC}/v1/namespaces/default/rolebindings"
COUNT = {"name": "n", "function": "Count"}
OWNED = {"group": "test.example.com", "resource": "gadgets", "by": "Owner", "type": "Left"}


def role(name: str, resources: str, verbs: str) -> dict[str, Any]:
    rule = {"apiGroups": ["test.example.com"], "resources": [resources], "verbs": verbs.split()}
    return {"metadata": {"name": name}, "rules": [rule]}


def binding(name: str, of: str, user: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": of, "apiGroup": RBAC},
        "subjects": [{"kind": "User", "name": user}],
    }


@pytest.fixture
async def granted(api: Client) -> Client:
    """ann may list widgets in `default` and `one`; bob everywhere; gadgets only in `default`."""
    await fill(api)
    await define(api, definition("gadgets", "Gadget"))
    for name in ("one", "two"):
        (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).ok(201)
        await make(api, f"of-{name}", path=WIDGETS.replace("default", name))
    (await api.post(CLUSTER, role("lister", "widgets", "list"))).ok(201)
    (await api.post(CLUSTER, role("reader", "widgets", "get watch"))).ok(201)
    (await api.post(CLUSTER, role("gadgets", "gadgets", "list"))).ok(201)
    for namespace in ("default", "one"):
        path = BINDINGS.replace("default", namespace)
        (await api.post(path, binding("ann", "lister", "ann"))).ok(201)
        (await api.post(path, binding("carol", "reader", "carol"))).ok(201)
    (await api.post(BINDINGS, binding("gadgets", "gadgets", "ann"))).ok(201)
    (await api.post(CLUSTER_BINDINGS, binding("bob", "lister", "bob"))).ok(201)
    return api


# Who asks what, and where they are refused; None: they are not.
CASES: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "all namespaces, of two": ("ann", widgets_in(aggregates=[COUNT]), 'cannot list resource "widgets" in API group "test.example.com" at the cluster scope'),
    "one namespace": ("ann", widgets_in("one", aggregates=[COUNT]), None),
    "both namespaces": ("ann", widgets_in("one", "default", aggregates=[COUNT]), None),
    "another one too": ("ann", widgets_in("one", "two", aggregates=[COUNT]), 'in the namespace "two"'),
    "all namespaces": ("bob", widgets_in(aggregates=[COUNT]), None),
    "get is not list": ("carol", widgets_in("one", aggregates=[COUNT]), 'in the namespace "one"'),
    "nobody": ("dave", widgets_in("one", aggregates=[COUNT]), 'in the namespace "one"'),
    "a join": ("ann", widgets_in("default", aggregates=[COUNT], join=OWNED), None),
    "a join elsewhere": ("ann", widgets_in("one", aggregates=[COUNT], join=OWNED), 'cannot list resource "gadgets"'),
    "a join of all": ("bob", widgets_in(aggregates=[COUNT], join=OWNED), 'cannot list resource "gadgets"'),
    "a filter is no way around": ("ann", widgets_in(aggregates=[COUNT], filter='object.metadata.namespace == "one"'), "at the cluster scope"),
}  # fmt: skip


@pytest.mark.parametrize("indexed", [False, True], ids=["objects", "entries"])
async def test_queries_require_the_right_to_list(granted: Client, indexed: bool) -> None:
    if indexed:
        await declare(granted, INDEX)
    for case, (user, spec, refused) in CASES.items():
        answer = await post(granted, spec, user)
        if refused is None:
            assert (answer.code, case) == (201, case)
        else:
            status = failure(answer, 403, "Forbidden")
            assert f'User "{user}"' in status["message"], case
            assert refused in status["message"], (case, status["message"])
    by_namespace = {"groupBy": [{"field": "metadata.namespace", "name": "ns"}], "aggregates": [COUNT]}
    assert rows_of(await ask(granted, widgets_in("one", "default", **by_namespace), "ann")) == [
        ["default", 6],
        ["one", 1],
    ]
    assert counts(await ask(granted, widgets_in(aggregates=[COUNT]), "bob")) == 8


async def test_unauthorized_queries_reveal_nothing(granted: Client) -> None:
    """Without rights the answer is the same whether a resource is there or not."""
    for resource in ("widgets", "nosuch"):
        spec = {"group": "test.example.com", "resource": resource, "aggregates": [COUNT]}
        status = failure(await post(granted, spec, "dave"), 403, "Forbidden")
        assert f'cannot list resource "{resource}"' in status["message"]
    failure(await post(granted, {"resource": "secrets", "aggregates": [COUNT]}, "bob"), 403, "Forbidden")


async def test_every_authenticated_user_may_create_queries(granted: Client) -> None:
    review = {"spec": {"resourceAttributes": {"group": "query.registry", "resource": "queries", "verb": "create"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    may = await granted.post(path, review, headers={"impersonate-user": "dave"})
    assert may.ok(201)["status"]["allowed"] is True
    review["spec"]["resourceAttributes"]["verb"] = "list"
    assert (await granted.post(path, review, headers={"impersonate-user": "dave"})).ok(201)["status"][
        "allowed"
    ] is False
    anonymous = granted.with_token("")
    assert (await anonymous.post(QUERIES, {"spec": widgets_in(aggregates=[COUNT])})).code in (401, 403)


async def test_the_audit_log_has_the_query_and_what_it_read(api_database: str, tmp_path: Path) -> None:
    async with auditing(api_database, tmp_path, EVERYTHING) as api:
        spec = {"resource": "configmaps", "namespaces": ["default"], "aggregates": [COUNT]}
        assert (await post(api, spec)).code == 201
    events = [line for line in (tmp_path / "audit.log").read_text().splitlines() if '"queries"' in line]
    assert any('"query.registry/reads":"configmaps in default"' in line for line in events)
    assert any('"function":"Count"' in line for line in events)
