"""History over REST: revisions with differences, an object at a revision, deleted objects, and who may see them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.histories import past_of, revision_of
from tests.api.widgets import (
    ALL_WIDGETS,
    DEFINITIONS,
    GROUP,
    NAMESPACES,
    SCHEMA,
    WIDGETS,
    define,
    definition,
    make,
    widget,
)
from tests.application import shares_application

pytestmark = shares_application


SECRETS = "/api/v1/namespaces/default/secrets"


async def test_history_lists_changes_newest_first(api: Client) -> None:
    [made] = await make(api, "a", size=1)
    patched = (await api.patch(f"{WIDGETS}/a?fieldManager=tuner", {"spec": {"size": 2, "parts": ["x"]}})).ok()
    (await api.delete(f"{WIDGETS}/a")).ok()
    answer = (await api.get(f"{WIDGETS}/a/history")).ok()
    assert (answer["apiVersion"], answer["kind"]) == ("history.registry/v1", "HistoryList")
    deleted, updated, created = answer["items"]
    assert [i["operation"] for i in answer["items"]] == ["Delete", "Update", "Create"]
    assert [i["verb"] for i in answer["items"]] == ["delete", "patch", "create"]
    assert {i["user"] for i in answer["items"]} == {"admin"}
    assert {i["uid"] for i in answer["items"]} == {made["metadata"]["uid"]}
    assert updated["fieldManager"] == "tuner"
    assert updated["resourceVersion"] == patched["metadata"]["resourceVersion"] == deleted["previousResourceVersion"]
    assert updated["diff"] == {"metadata": {"generation": 2}, "spec": {"size": 2, "parts": ["x"]}}
    assert created["diff"]["spec"] == {"size": 1, "color": "grey"}
    assert "managedFields" not in created["diff"]["metadata"]
    assert "diff" not in deleted


@pytest.mark.parametrize(
    "query, expected",
    [
        (
            "?diff=json",
            [
                {"op": "replace", "path": "/metadata/generation", "value": 2},
                {"op": "replace", "path": "/spec/size", "value": 2},
            ],
        ),
        ("?diff=none", None),
    ],
    ids=["json", "none"],
)
async def test_forms_of_differences(api: Client, query: str, expected: Any) -> None:
    await make(api, "a", size=1)
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    found = (await past_of(api, "a", query))[0].get("diff")
    assert (found and sorted(found, key=lambda o: o["path"])) == expected


async def test_history_comes_in_pages(api: Client) -> None:
    await make(api, "a", size=0)
    for size in range(1, 6):
        (await api.patch(f"{WIDGETS}/a", {"spec": {"size": size}})).ok()
    sizes, token = [], ""
    while True:
        answer = (await api.get(f"{WIDGETS}/a/history?limit=2&object=true&continue={token}")).ok()
        sizes.append([i["object"]["spec"]["size"] for i in answer["items"]])
        token = answer["metadata"].get("continue", "")
        if not token:
            break
    assert sizes == [[5, 4], [3, 2], [1, 0]]


async def test_a_state_at_a_revision(api: Client) -> None:
    [made] = await make(api, "a", size=1)
    await make(api, "b")
    between = await revision_of(api, "b")
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    (await api.delete(f"{WIDGETS}/a")).ok()
    exact = "resourceVersionMatch=Exact&resourceVersion="
    at = "atResourceVersion="
    for path in (f"{WIDGETS}/a?{at}", f"{WIDGETS}/a/history?{at}"):
        assert (await api.get(path + between)).ok() == made
    before = str(int(made["metadata"]["resourceVersion"]) - 1)
    failure(await api.get(f"{WIDGETS}/a?{at}{before}"), 404, "NotFound")
    failure(await api.get(f"{WIDGETS}/a?{at}0"), 400, "BadRequest")
    listed = (await api.get(f"{WIDGETS}?{exact}{between}")).ok()
    assert [i.get("spec") for i in listed["items"]] == [made["spec"], None]


async def test_deleted_objects_are_listed(api: Client) -> None:
    (await api.post(NAMESPACES, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "other"}})).ok(201)
    other = WIDGETS.replace("default", "other")
    await make(api, "a", "b", "c", "d", size=1)
    await make(api, "z", path=other)
    for path in (f"{WIDGETS}/a", f"{WIDGETS}/b", f"{WIDGETS}/c", f"{other}/z"):
        (await api.delete(path)).ok()
    await make(api, "b")  # it is there again

    def names(answer: dict[str, Any]) -> list[str]:
        return [i["object"]["metadata"]["name"] for i in answer["items"]]

    answer = (await api.get(f"{WIDGETS}?deleted=true")).ok()
    assert answer["kind"] == "DeletedList"
    assert names(answer) == ["a", "c"]
    assert answer["items"][0]["operation"] == "Delete"
    assert answer["items"][0]["user"] == "admin"
    assert answer["items"][0]["object"]["spec"] == {"size": 1, "color": "grey"}
    page = (await api.get(f"{ALL_WIDGETS}?deleted=true&limit=2")).ok()
    rest = (await api.get(f"{ALL_WIDGETS}?deleted=true&limit=2&continue={page['metadata']['continue']}")).ok()
    assert (names(page), names(rest), "continue" in rest["metadata"]) == (["a", "c"], ["z"], False)
    # Anything else is an ordinary list.
    assert (await api.get(f"{WIDGETS}?deleted=false")).ok()["kind"] == "WidgetList"


REFUSED: dict[str, tuple[str, str, Any, int, str]] = {
    "history of what never was": ("GET", f"{WIDGETS}/never/history", None, 404, "NotFound"),
    "restore of what never was": ("POST", f"{WIDGETS}/never/restore", {"resourceVersion": "1"}, 404, "NotFound"),
    "no revision": ("POST", f"{WIDGETS}/a/restore", {}, 400, "BadRequest"),
    "an invalid revision": ("POST", f"{WIDGETS}/a/restore", {"resourceVersion": "x"}, 400, "BadRequest"),
    "a number": ("POST", f"{WIDGETS}/a/restore", {"resourceVersion": 7}, 400, "BadRequest"),
    "another body": ("POST", f"{WIDGETS}/a/restore", {"resourceVersion": "1", "spec": {}}, 400, "BadRequest"),
    "no JSON": ("POST", f"{WIDGETS}/a/restore", b"{", 400, "BadRequest"),
    "another verb": ("POST", f"{WIDGETS}/a/history", {}, 405, "MethodNotAllowed"),
    "a get of restore": ("GET", f"{WIDGETS}/a/restore", None, 405, "MethodNotAllowed"),
    "no such form": ("GET", f"{WIDGETS}/a/history?diff=xml", None, 400, "BadRequest"),
    "a bad token": ("GET", f"{WIDGETS}/a/history?continue=x", None, 400, "BadRequest"),
    "secrets' history": ("GET", f"{SECRETS}/a/history", None, 403, "Forbidden"),
    "secrets at a revision": ("GET", f"{SECRETS}/a?atResourceVersion=1", None, 403, "Forbidden"),
    "secrets that are gone": ("GET", f"{SECRETS}?deleted=true", None, 403, "Forbidden"),
    "secrets brought back": ("POST", f"{SECRETS}/a/undelete", {}, 403, "Forbidden"),
    "reviews": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/a/undelete", {}, 404, "NotFound"),
}


@pytest.mark.parametrize("method, path, body, code, reason", REFUSED.values(), ids=REFUSED.keys())
async def test_refusals(shared_api: Client, method: str, path: str, body: Any, code: int, reason: str) -> None:
    await make(shared_api, "a")
    failure(await shared_api.request(method, path, body), code, reason)


async def test_another_tenant_sees_nothing(api: Client) -> None:
    await make(api, "a")
    (await api.delete(f"{WIDGETS}/a")).ok()
    other = api.of_tenant("system")
    assert (await other.get(f"{WIDGETS}/a/history")).code == 404
    assert (await other.get(f"{WIDGETS}?deleted=true")).code == 404


async def test_history_has_its_own_permissions(api: Client) -> None:
    """A stranger is refused in the words of the subresource."""
    await make(api, "a")
    headers = {"impersonate-user": "stranger"}
    for path, verb, sub in (
        (f"{WIDGETS}/a/history", "get", "history"),
        (f"{WIDGETS}?deleted=true", "list", "deleted"),
        (f"{WIDGETS}/a?atResourceVersion=1", "get", "history"),
    ):
        said = failure(await api.get(path, headers=headers), 403, "Forbidden")["message"]
        assert f'cannot {verb} resource "widgets/{sub}"' in said


async def test_definitions_have_a_history(api: Client) -> None:
    name = f"widgets.{GROUP}"
    first = (await api.get(f"{DEFINITIONS}/{name}")).ok()
    (await api.patch(f"{DEFINITIONS}/{name}", {"spec": {"names": {"shortNames": ["ww"]}}})).ok()
    wanted = {"resourceVersion": first["metadata"]["resourceVersion"]}
    back = (await api.post(f"{DEFINITIONS}/{name}/restore", wanted)).ok(200)
    assert back["spec"] == first["spec"]


async def test_default_roles_include_the_permissions(api: Client) -> None:
    """Not by rights to the objects themselves, but by those to the subresources."""
    [first] = await make(api, "a", size=1)
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"

    async def grant(user: str, verbs: list[str], *resources: str) -> None:
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": user},
            "rules": [{"apiGroups": [GROUP], "resources": list(resources), "verbs": verbs}],
        }
        (await api.post(f"{rbac}/roles", role)).ok(201)
        bound = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        (await api.post(f"{rbac}/rolebindings", bound)).ok(201)

    await grant("reader", ["*"], "widgets")
    await grant("historian", ["get", "create", "list"], "widgets/history", "widgets/restore", "widgets/deleted")
    wanted = {"resourceVersion": first["metadata"]["resourceVersion"]}
    for user, code in (("reader", 403), ("historian", 200)):
        headers = {"impersonate-user": user}
        assert (await api.get(f"{WIDGETS}/a/history", headers=headers)).code == code
        assert (await api.get(f"{WIDGETS}?deleted=true", headers=headers)).code == code
        assert (
            await api.get(f"{WIDGETS}/a?atResourceVersion={first['metadata']['resourceVersion']}", headers=headers)
        ).code == code
        assert (await api.post(f"{WIDGETS}/a/restore", wanted, headers=headers)).code == code
        assert (await api.post(f"{WIDGETS}/a/undelete", {}, headers=headers)).code == 403
    assert (await past_of(api, "a"))[0]["user"] == "historian"


async def test_states_of_another_and_of_a_removed_version(api: Client) -> None:
    made = definition("things", "Thing")
    made["spec"]["versions"] = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": SCHEMA}}
        for name in ("v1", "v2")
    ]
    await define(api, made)
    path, name = f"/apis/{GROUP}/v1/namespaces/default/things", f"{DEFINITIONS}/things.{GROUP}"
    (await api.post(path, {**widget("a", size=1), "kind": "Thing"})).ok(201)
    (await api.patch(f"{path}/a", {"spec": {"size": 2}})).ok()
    later = path.replace("/v1/", "/v2/")
    seen = (await api.get(f"{later}/a/history?object=true")).ok()["items"]
    assert {item["object"]["apiVersion"] for item in seen} == {f"{GROUP}/v2"}
    versions = [{**v, "storage": v["name"] == "v2"} for v in made["spec"]["versions"]]
    (await api.patch(name, {"spec": {"versions": versions}})).ok()
    (await api.patch(f"{later}/a", {"spec": {"size": 3}})).ok()
    (await api.patch(f"{name}/status", {"status": {"storedVersions": ["v2"]}})).ok()
    (await api.patch(name, {"spec": {"versions": versions[1:]}})).ok()
    newest, *old = (await api.get(f"{later}/a/history")).ok()["items"]
    assert "v1" in newest["message"]  # the state before it cannot be shown
    assert all("invalid group/version" in item["message"] for item in old)
    assert [item["operation"] for item in (newest, *old)] == ["Update", "Update", "Create"]
