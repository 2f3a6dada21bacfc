"""Joins of Queries: by owner references, and by references that a definition declares."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from registry.api.query import joining
from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import NAMESPACES, define, definition
from tests.application import shares_application
from tests.query.questions import ask, post, rows_of

pytestmark = shares_application

GROUP = "test.example.com"
COUNT = {"name": "n", "function": "Count"}
TEAM = {"field": "metadata.name", "from": "Joined", "name": "team"}


def path(plural: str, namespace: str = "default") -> str:
    where = f"namespaces/{namespace}/" if namespace else ""
    return f"/apis/{GROUP}/v1/{where}{plural}"


async def put(api: Client, plural: str, kind: str, name: str, namespace: str = "default", **parts: Any) -> Any:
    metadata = {"name": name, **parts.pop("metadata", {})}
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, **parts}
    return (await api.post(path(plural, namespace), body)).ok(201)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


@pytest_asyncio.fixture(loop_scope="module")
async def shop(api: Client) -> Client:
    """Services of teams (of the same namespace) and regions (of none), with databases in any namespace."""
    text = {"type": "string"}
    await define(api, definition("teams", "Team", schema=schema(tier=text)))
    await define(api, definition("regions", "Region", scope="Cluster", schema=schema(zone=text)))
    services = definition(
        "services", "Service",
        schema=schema(team=text, regions={"type": "array", "items": text}, size={"type": "integer"},
                      db={"type": "object", "properties": {"name": text, "namespace": text}}),
    )  # fmt: skip
    services["metadata"]["annotations"] = {
        "query.registry/references": (
            f"spec.team -> teams.{GROUP}; spec.regions[*] -> regions.{GROUP};"
            f"spec.db.namespace/spec.db.name -> services.{GROUP}; spec.team -> configmaps; nonsense"
        )
    }
    await define(api, services)
    (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})).ok(201)
    for name, tier in (("red", "gold"), ("blue", "tin"), ("idle", "gold")):
        await put(api, "teams", "Team", name, spec={"tier": tier})
    await put(api, "teams", "Team", "red", "other", spec={"tier": "lead"})
    for name in ("north", "south"):
        await put(api, "regions", "Region", name, "", spec={"zone": name[0]})
    red = (await api.get(f"{path('teams')}/red")).ok()["metadata"]["uid"]
    for name, spec, owners in (
        ("a", {"team": "red", "regions": ["north", "south", "north"], "size": 1}, [red]),
        ("b", {"team": "red", "regions": ["south"], "size": 2, "db": {"name": "a"}}, [red, "another-uid"]),
        ("c", {"team": "blue", "regions": [], "size": 4, "db": {"name": "z", "namespace": "other"}}, []),
        ("d", {"team": "gone", "regions": ["west"], "size": 8}, ["another-uid"]),
        ("e", {"size": 16}, []),
    ):
        references = [
            {"apiVersion": f"{GROUP}/v1", "kind": "Team", "name": "red" if uid == red else "blue", "uid": uid}
            for uid in owners
        ]
        await put(api, "services", "Service", name, spec=spec, metadata={"ownerReferences": references})
    await put(api, "services", "Service", "z", "other", spec={"team": "red", "size": 32})
    return api


def joined(resource: str, by: str = "Reference", **more: Any) -> dict[str, Any]:
    return {"group": GROUP, "resource": resource, "by": by, **more}


SIZE = {"name": "size", "function": "Sum", "field": "spec.size"}
TIER = {"field": "spec.tier", "from": "Joined"}
CASES: dict[str, tuple[dict[str, Any], list[list[Any]]]] = {
    "by owner": ({"join": joined("teams", "Owner"), "groupBy": [TEAM], "aggregates": [COUNT]}, [["red", 2]]),
    "by owner, left": (
        {"join": joined("teams", "Owner", type="Left"), "groupBy": [TEAM], "aggregates": [COUNT, SIZE]},
        [["red", 2, 3], [None, 4, 60]]),
    "by reference": (
        {"join": joined("teams"), "groupBy": [TIER], "aggregates": [COUNT, SIZE]},
        [["gold", 2, 3], ["lead", 1, 32], ["tin", 1, 4]]),
    "in one namespace": (
        {"join": joined("teams"), "namespaces": ["default"], "groupBy": [TIER], "aggregates": [SIZE]},
        [["gold", 3], ["tin", 4]]),
    "a filter of each side": (
        {"join": joined("teams", filter="joined.spec.tier != 'tin' && object.spec.size < 30"),
         "filter": "object.spec.size > 1", "groupBy": [TEAM], "aggregates": [SIZE]}, [["red", 2]]),
    "a filter of pairs, left": (
        {"join": joined("teams", filter="joined.spec.tier == 'tin'", type="Left"), "groupBy": [TEAM], "aggregates": [COUNT]},
        [["blue", 1], [None, 5]]),
    "several others of an object": (
        {"join": joined("regions"), "groupBy": [{"field": "spec.zone", "from": "Joined"}], "aggregates": [COUNT, SIZE]},
        [["n", 1, 1], ["s", 2, 3]]),
    "in other namespaces": (
        {"join": joined("services", reference="spec.db.namespace/spec.db.name"),
         "groupBy": [{"field": "metadata.name"}, {"field": "spec.size", "from": "Joined"}]}, [["b", 1], ["c", 32]]),
    "in other namespaces, of one": (
        {"join": joined("services"), "namespaces": ["default"],
         "groupBy": [{"field": "metadata.name"}, {"field": "spec.size", "from": "Joined"}]}, [["b", 1]]),
    "values of both": (
        {"join": joined("teams"), "groupBy": [{"field": "metadata.namespace", "name": "ns"}, TEAM],
         "aggregates": [{"name": "tiers", "function": "CountDistinct", **TIER}], "having": 'row.ns == "default"',
         "orderBy": "team desc"}, [["default", "red", 1], ["default", "blue", 1]]),
}  # fmt: skip


@pytest.mark.parametrize("lookups", [0, 50], ids=["all are read", "by their names"])
async def test_joins(shop: Client, monkeypatch: pytest.MonkeyPatch, lookups: int) -> None:
    monkeypatch.setattr(joining, "MAX_LOOKUPS", lookups)
    for case, (spec, expected) in CASES.items():
        status = await ask(shop, {"group": GROUP, "resource": "services", **spec})
        assert (rows_of(status), case) == (expected, case)


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no such reference": (
        joined("teams", reference="spec.lead"),
        "spec.join.reference",
        "must declare one such reference",
    ),
    "no such resource": (joined("nosuch"), "spec.join.resource", "there is no resource"),
    "a filter": (joined("teams", filter="joined.spec.size > 1"), "spec.join.filter", "undefined field 'size'"),
    "no way": (joined("teams", "Name"), "spec.join.by", "Unsupported value"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_invalid_joins(shop: Client, case: str) -> None:
    join, field, text = WRONG[case]
    spec = {"group": GROUP, "resource": "services", "join": join, "aggregates": [COUNT]}
    status = failure(await post(shop, spec), 422, "Invalid")
    assert any(one["field"] == field and text in one["message"] for one in status["details"]["causes"]), status
    if case == "no such reference":
        assert "nonsense" in status["message"], "what of the annotation is no reference is said"


async def test_joins_are_bounded(shop: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"group": GROUP, "resource": "services", "join": joined("teams"), "aggregates": [COUNT]}
    with monkeypatch.context() as few:
        few.setattr(joining, "MAX_PAIRS", 2)
        assert "more than 2 pairs" in failure(await post(shop, spec), 400, "BadRequest")["message"]
    with monkeypatch.context() as few:
        few.setattr(joining, "MAX_EXAMINED_BYTES", 100)
        assert "more than 100 bytes" in failure(await post(shop, spec), 400, "BadRequest")["message"]


async def test_an_owner_of_another_uid_is_another_object(shop: Client) -> None:
    (await shop.delete(f"{path('teams')}/red")).ok()
    await put(shop, "teams", "Team", "red", spec={"tier": "new"})
    spec = {"group": GROUP, "resource": "services", "join": joined("teams", "Owner"), "aggregates": [COUNT]}
    assert rows_of(await ask(shop, spec)) == [[0]]
