"""Statistics of a kind and dependents of an object over REST: exact counts, authorization, bounds."""

from __future__ import annotations

import datetime
from typing import Any

import psycopg
import pytest

from registry.api.verbs import dependents, statistics
from registry.store.reads import statistics as reads
from tests.api.client import Client
from tests.api.widgets import ALL_WIDGETS, GROUP, NAMESPACES, SCHEMA, WIDGETS, define, definition, make, widget
from tests.application import has_own_application, shares_application

pytestmark = shares_application

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1"
ANN = {"Impersonate-User": "ann"}
CONDITION = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("type", "status", "lastTransitionTime", "reason")},
}
GADGET_SCHEMA = {
    "type": "object",
    "properties": {
        "status": {
            "type": "object",
            "properties": {"conditions": {"type": "array", "items": CONDITION}},
            "x-kubernetes-preserve-unknown-fields": True,
        }
    },
}
GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"


async def figures(api: Client, path: str = ALL_WIDGETS, query: str = "", **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"{path}?statistics=true{query}", **options)).ok()
    return found


async def grant(api: Client, verbs: list[str], *resources: str, namespace: str = "default") -> None:
    """Gives ann a right on resources of any group in a namespace."""
    name = "-".join([*verbs, *resources])
    rules = [{"apiGroups": ["*"], "resources": list(resources), "verbs": verbs}]
    base = f"{ROLES}/namespaces/{namespace}"
    (await api.post(f"{base}/roles", {"metadata": {"name": name}, "rules": rules})).ok(201)
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    (await api.post(f"{base}/rolebindings", binding)).ok(201)


def sums(found: dict[str, Any]) -> dict[str, int]:
    return {name: sum(one[name] for one in found["buckets"]) for name in ("created", "updated", "deleted")}


# -- statistics
@has_own_application
async def test_writes_and_objects_are_counted_by_time(api: Client) -> None:
    await make(api, "a", "b", "c", size=1)
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    (await api.delete(f"{WIDGETS}/b")).ok()
    found = await figures(api, query="&sinceSeconds=3600&buckets=6")
    assert (found["apiVersion"], found["kind"]) == ("statistics.registry/v1", "Statistics")
    assert found["metadata"]["resourceVersion"] == (await api.get(ALL_WIDGETS)).ok()["metadata"]["resourceVersion"]
    assert found["objects"] == 2
    assert sums(found) == {"created": 3, "updated": 1, "deleted": 1}
    assert len(found["buckets"]) == 6
    assert [one["objects"] for one in found["buckets"]] == [0, 0, 0, 0, 0, 2]
    times = [datetime.datetime.fromisoformat(one["time"]) for one in found["buckets"]]
    assert times == sorted(times)
    assert times[0] == datetime.datetime.fromisoformat(found["since"])
    assert "conditions" not in found


async def test_objects_older_than_the_interval_count_as_its_initial_value(api: Client, api_database: str) -> None:
    await make(api, "old", "older", size=1)
    async with await psycopg.AsyncConnection.connect(api_database, autocommit=True) as connection:
        await connection.execute("UPDATE changes SET at = at - interval '2 hours'")
    await make(api, "new", size=1)
    found = await figures(api, query="&sinceSeconds=3600&buckets=2")
    assert (sums(found)["created"], [one["objects"] for one in found["buckets"]]) == (1, [2, 3])
    found = await figures(api, query="&sinceSeconds=14400&buckets=5")
    assert [one["created"] for one in found["buckets"]] == [0, 0, 2, 0, 1]


async def test_one_namespace(api: Client) -> None:
    (await api.post(NAMESPACES, {"metadata": {"name": "default-2"}})).ok(201)
    await make(api, "a", size=1)
    await make(api, "a", "b", path=WIDGETS.replace("/default/", "/default-2/"), size=1)
    assert (await figures(api, WIDGETS))["objects"] == 1
    assert sums(await figures(api, WIDGETS.replace("/default/", "/default-2/")))["created"] == 2
    assert (await figures(api))["objects"] == 3


async def test_statistics_do_not_cross_tenants(api: Client) -> None:
    await make(api, "a", size=1)
    system = api.of_tenant("system")
    tenant = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": "other"}}
    (await system.post("/apis/tenancy.registry/v1/tenants", tenant)).ok(201)
    other = api.of_tenant("other")
    await define(other, definition())
    found = await figures(other)
    assert (found["objects"], sums(found)["created"]) == (0, 0)


async def test_statistics_need_the_right_to_list(api: Client) -> None:
    await make(api, "a", size=1)
    refused = await api.get(f"{WIDGETS}?statistics=true", headers=ANN)
    assert refused.code == 403
    assert refused.json["message"].endswith(
        f'User "ann" cannot list resource "widgets" in API group "{GROUP}" in the namespace "default"'
    )
    await grant(api, ["list"], "widgets")
    assert (await figures(api, WIDGETS, headers=ANN))["objects"] == 1
    assert (await api.get(f"{ALL_WIDGETS}?statistics=true", headers=ANN)).code == 403


@pytest.mark.parametrize(
    "query, message",
    [
        ("&sinceSeconds=0", "sinceSeconds: must be a number from 1 to 31622400"),
        ("&sinceSeconds=1e9", "sinceSeconds: must be a number from 1 to 31622400"),
        ("&sinceSeconds=99999999999999999999", "sinceSeconds: must be a number from 1 to 31622400"),
        ("&sinceSeconds=٣", "sinceSeconds: must be a number from 1 to 31622400"),
        ("&buckets=501", "buckets: must be a number from 1 to 500"),
        ("&buckets=-1", "buckets: must be a number from 1 to 500"),
        ("&labelSelector=a", "statistics are of all objects, so labelSelector cannot be a parameter"),
        ("&fieldSelector=metadata.name=a", "statistics are of all objects, so fieldSelector cannot be a parameter"),
    ],
)
async def test_wrong_parameters(api: Client, query: str, message: str) -> None:
    answer = await api.get(f"{ALL_WIDGETS}?statistics=true{query}")
    assert (answer.code, answer.json["kind"], answer.json["message"]) == (400, "Status", message)


async def test_too_many_writes_are_refused(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "MAX_WRITES", 2)
    await make(api, "a", "b", "c", size=1)
    monkeypatch.setattr(statistics, "MAX_WRITES", 2)
    answer = await api.get(f"{ALL_WIDGETS}?statistics=true&sinceSeconds=600")
    assert answer.code == 400
    assert answer.json["message"] == "there were more than 2 writes in 600 seconds: choose a smaller sinceSeconds"


async def test_without_the_parameter_it_is_a_list(api: Client) -> None:
    await make(api, "a", size=1)
    assert (await api.get(f"{ALL_WIDGETS}?statistics=false")).ok()["kind"] == "WidgetList"


async def test_wildcard_requests_have_no_statistics(api: Client) -> None:
    answer = await api.of_tenant("*").get("/api/v1/configmaps?statistics=true")
    assert (answer.code, answer.json["message"]) == (400, "statistics are of one tenant")


async def make_gadget(api: Client, name: str, *conditions: Any) -> None:
    gadget = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget", "metadata": {"name": name}}
    (await api.post(GADGETS, {**gadget, "status": {"conditions": list(conditions)}})).ok(201)


def since(seconds: float) -> str:
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


async def test_time_in_the_status_of_a_condition(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await define(api, definition("gadgets", "Gadget", schema=GADGET_SCHEMA))
    await make_gadget(api, "a", {"type": "Ready", "status": "True", "lastTransitionTime": since(1800)})
    await make_gadget(api, "b", {"type": "Ready", "status": "True", "lastTransitionTime": since(90)})
    await make_gadget(api, "c", {"type": "Ready", "status": "True", "lastTransitionTime": since(8 * 86_400)})
    await make_gadget(api, "d", {"type": "Ready", "status": "False", "lastTransitionTime": "no time"})
    await make_gadget(api, "e", {"status": "True"}, {"type": "Ready"})
    found = (await figures(api, GADGETS, "&conditions=true"))["conditions"]
    assert (found["examined"], found["complete"]) == (5, True)
    false, true = found["states"]
    assert false == {"type": "Ready", "status": "False", "objects": 1}
    assert (true["status"], true["objects"]) == ("True", 3)
    assert 1795 <= true["medianSeconds"] <= 2400
    counts = {one.get("belowSeconds"): one["objects"] for one in true["durations"]}
    assert counts == {60: 0, 600: 1, 3600: 1, 21_600: 0, 86_400: 0, 604_800: 0, None: 1}
    monkeypatch.setattr(statistics, "MAX_OBJECTS", 2)
    assert (await figures(api, GADGETS, "&conditions=true"))["conditions"]["complete"] is False


@has_own_application
async def test_the_status_of_conditions_over_time(
    api: Client, api_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of each of four hours: `a` becomes ready in the second and not ready in the third; `b` is deleted in
    the fourth, in which `c` is created."""
    await define(api, definition("gadgets", "Gadget", schema=GADGET_SCHEMA))
    await make_gadget(api, "a", {"type": "Ready", "status": "False"})
    await make_gadget(api, "b", {"type": "Ready", "status": "True"}, {"type": "Old", "status": "True"})
    for status in ("True", "False"):
        changed = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
        (await api.patch(f"{GADGETS}/a", changed)).ok()
    (await api.delete(f"{GADGETS}/b")).ok()
    await make_gadget(api, "c", {"type": "Ready", "status": "Unknown"})
    hours = (3.5, 3.5, 2.5, 1.5, 0.5, 0.5)
    async with await psycopg.AsyncConnection.connect(api_database, autocommit=True) as connection:
        logged = await connection.execute("SELECT revision FROM changes WHERE resource = %s ORDER BY revision",
                                          [f"gadgets.{GROUP}"])  # fmt: skip
        for [revision], ago in zip(await logged.fetchall(), hours, strict=True):
            await connection.execute(
                "UPDATE changes SET at = now() - %s * interval '1 hour' WHERE revision = %s", [ago, revision]
            )
    query = "&conditions=true&sinceSeconds=14400&buckets=4"
    counts = (await figures(api, GADGETS, query))["conditions"]["counts"]
    assert {(one["type"], one["status"]): one["objects"] for one in counts} == {
        ("Ready", "False"): [1, 0, 1, 1],
        ("Ready", "True"): [1, 2, 1, 0],
        ("Ready", "Unknown"): [0, 0, 0, 1],
        ("Old", "True"): [1, 1, 1, 0],
    }
    assert (await figures(api, GADGETS.replace("default", "other"), query))["conditions"]["counts"] == []
    monkeypatch.setattr(statistics, "_PAGE", 2)
    assert (await figures(api, GADGETS, query))["conditions"]["counts"] == counts
    monkeypatch.setattr(statistics, "MAX_CHANGES", 5)
    assert "counts" not in (await figures(api, GADGETS, query))["conditions"]


# -- dependents
def owned_by(
    owner: dict[str, Any], name: str, kind: str = "Widget", api_version: str = f"{GROUP}/v1"
) -> dict[str, Any]:
    reference = {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {"name": name, "ownerReferences": [reference]}


async def dependents_of(api: Client, query: str = "", **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"{WIDGETS}/a?dependents=true{query}", **options)).ok()
    return found


def named(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["kind"], item["metadata"]["name"]) for item in found["items"]]


async def test_dependents_of_all_kinds(api: Client) -> None:
    [owner] = await make(api, "a", size=1)
    await make(api, "unrelated", size=1)
    (await api.post(CONFIGMAPS, {"metadata": owned_by(owner, "settings")})).ok(201)
    (await api.post(WIDGETS, widget(metadata=owned_by(owner, "b")))).ok(201)
    found = await dependents_of(api)
    assert (found["apiVersion"], found["kind"]) == ("relations.registry/v1", "DependentList")
    assert named(found) == [("ConfigMap", "settings"), ("Widget", "b")]
    config, part = found["items"]
    assert (config["apiVersion"], config["resource"]) == ("v1", "configmaps")
    assert (part["apiVersion"], part["resource"]) == (f"{GROUP}/v1", "widgets")
    assert part["metadata"]["ownerReferences"] == owned_by(owner, "b")["ownerReferences"]
    assert set(part["metadata"]) == {"name", "namespace", "uid", "creationTimestamp", "ownerReferences"}
    assert "continue" not in found["metadata"]
    assert (await api.get(f"{WIDGETS}/none?dependents=true")).code == 404


async def test_dependents_come_in_pages(api: Client) -> None:
    [owner] = await make(api, "a", size=1)
    for name in ("p", "q", "r", "s", "t"):
        (await api.post(WIDGETS, widget(metadata=owned_by(owner, name)))).ok(201)
    pages, token = [], ""
    while True:
        found = await dependents_of(api, f"&limit=2&continue={token}")
        pages.append([name for _, name in named(found)])
        token = found["metadata"].get("continue", "")
        if not token:
            break
    assert [page for page in pages if page] == [["p", "q"], ["r", "s"], ["t"]]
    assert (await api.get(f"{WIDGETS}/a?dependents=true&continue=x")).code == 400
    of_a_list = (await api.get(f"{WIDGETS}?limit=1")).ok()["metadata"]["continue"]
    assert (await api.get(f"{WIDGETS}/a?dependents=true&continue={of_a_list}")).code == 400


async def test_only_what_the_user_may_list_is_shown(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    [owner] = await make(api, "a", size=1)
    (await api.post(CONFIGMAPS, {"metadata": owned_by(owner, "settings")})).ok(201)
    for name in ("b", "c"):
        (await api.post(WIDGETS, widget(metadata=owned_by(owner, name)))).ok(201)
    assert (await api.get(f"{WIDGETS}/a?dependents=true", headers=ANN)).code == 403
    await grant(api, ["get"], "widgets")
    assert named(await dependents_of(api, headers=ANN)) == []
    await grant(api, ["list"], "configmaps")
    assert named(await dependents_of(api, headers=ANN)) == [("ConfigMap", "settings")]
    # What is passed over is bounded in one request, which then says where to go on.
    monkeypatch.setattr(dependents, "MAX_EXAMINED", 1)
    monkeypatch.setattr(dependents, "MAX_LIMIT", 1)
    token = (await dependents_of(api, headers=ANN))["metadata"]["continue"]
    second = await dependents_of(api, f"&continue={token}", headers=ANN)
    assert second["items"] == []
    assert second["metadata"]["continue"]


async def test_the_uid_of_an_owner_in_another_namespace_does_not_count(api: Client) -> None:
    [owner] = await make(api, "a", size=1)
    (await api.post(NAMESPACES, {"metadata": {"name": "second"}})).ok(201)
    path = WIDGETS.replace("/default/", "/second/")
    blocked = {**owned_by(owner, "b"), "finalizers": ["test.example.com/stay"]}
    (await api.post(path, widget(metadata=blocked))).ok(201)
    assert named(await dependents_of(api)) == []


async def test_dependents_of_cluster_scoped_objects(api: Client) -> None:
    await define(api, definition("teams", "Team", scope="Cluster", schema=SCHEMA))
    team = {"apiVersion": f"{GROUP}/v1", "kind": "Team", "metadata": {"name": "t"}}
    owner = (await api.post(f"/apis/{GROUP}/v1/teams", team)).ok(201)
    (await api.post(WIDGETS, widget(metadata=owned_by(owner, "b", "Team")))).ok(201)
    found = (await api.get(f"/apis/{GROUP}/v1/teams/t?dependents=true")).ok()
    assert named(found) == [("Widget", "b")]
