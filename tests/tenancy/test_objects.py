"""Tenants as objects: there with the answer, suspended, limited and gone with the answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, define, widget, widgets_definition
from tests.application import shares_application, shares_tenant
from tests.tenancy.tenants import CONFIG_MAPS, TENANTS, change, config_map, make, tenant


@pytest.fixture
def system(api: Client) -> Client:
    return api.of_tenant("system")


async def gone(system: Client, name: str) -> None:
    async def look() -> bool:
        return (await system.get(f"{TENANTS}/{name}")).code == 404

    await eventually(look)


async def test_tenants_that_always_exist(api: Client, system: Client) -> None:
    items = (await system.get(TENANTS)).ok()["items"]
    assert [(t["metadata"]["name"], t["status"]["phase"]) for t in items] == [
        ("default", "Active"),
        ("system", "Active"),
    ]
    for name in ("default", "system"):
        failure(await system.delete(f"{TENANTS}/{name}"), 403, "Forbidden")
        failure(await change(system, name, {"suspended": True}), 422, "Invalid")
    # Elsewhere there is no such kind.
    assert (await api.get(TENANTS)).code == 404


async def test_a_tenant_is_usable_once_its_creation_is_answered(system: Client) -> None:
    acme = await make(system, "acme", displayName="Acme Corp")
    assert (await acme.get("/api/v1/namespaces/default")).ok()["status"]["phase"] == "Active"
    (await acme.post(CONFIG_MAPS, config_map("a"))).ok(201)
    await define(acme, widgets_definition())
    (await acme.post(WIDGETS, widget("a"))).ok(201)
    found = (await system.get(f"{TENANTS}/acme")).ok()
    assert found["status"]["phase"] == "Active"
    assert found["status"]["conditions"][0]["type"] == "Ready"
    assert found["metadata"]["finalizers"] == ["tenancy.registry/content"]


@pytest.mark.parametrize(
    "name, message",
    [
        ("Acme", "lower case"),
        ("a.b", "DNS label"),
        ("-a", "DNS label"),
        ("a" * 64, "DNS label"),
        ("registry", "reserved"),
        ("system-x", "reserved"),
        ("all", "reserved"),
    ],
)
@shares_tenant
@shares_application
async def test_invalid_tenant_names(system: Client, name: str, message: str) -> None:
    answer = await system.post(TENANTS, tenant(name))
    assert message in failure(answer, 422, "Invalid")["message"]


@pytest.mark.parametrize(
    "spec, message",
    [
        ({"parent": "nobody"}, "there is no such tenant"),
        ({"parent": "acme"}, "there is no such tenant"),
        ({"sqlSchema": "pg_x"}, "PostgreSQL's own"),
        ({"sqlSchema": "A b"}, "should match"),
        ({"domain": "a/b"}, "should match"),
        ({"deletionProtection": "Maybe"}, "Unsupported value"),
        ({"quotas": {"objects": -1}}, "greater than or equal to 0"),
        ({"quotas": {"concurrentRequests": 0}}, "greater than or equal to 1"),
    ],
)
@shares_tenant
@shares_application
async def test_invalid_tenants(system: Client, spec: dict[str, Any], message: str) -> None:
    assert message in failure(await system.post(TENANTS, tenant("acme", **spec)), 422, "Invalid")["message"]
    failure(await system.of_tenant("acme").get(CONFIG_MAPS), 404, "NotFound")


async def test_the_tree_has_no_cycles(system: Client) -> None:
    await make(system, "a")
    await make(system, "b", parent="a")
    await make(system, "c", parent="b")
    for name in "bc":
        assert "above itself" in failure(await change(system, "a", {"parent": name}), 422, "Invalid")["message"]
    # Two changes that each were right alone: one of them comes second.
    (await change(system, "c", {"parent": "a"})).ok()
    answers = await asyncio.gather(change(system, "b", {"parent": "c"}), change(system, "c", {"parent": "b"}))
    assert sorted(a.code for a in answers) == [200, 422]


async def test_a_tenant_with_children_cannot_be_deleted(system: Client) -> None:
    await make(system, "a")
    await make(system, "b", parent="a")
    refused = failure(await system.delete(f"{TENANTS}/a"), 403, "Forbidden")
    assert 'the tenant "b" is below it' in refused["message"]
    (await system.delete(f"{TENANTS}/b")).ok()
    (await system.delete(f"{TENANTS}/a")).ok()
    await gone(system, "a")


async def test_a_schema_has_one_tenant(system: Client) -> None:
    await make(system, "a", sqlSchema="reports")
    answer = await system.post(TENANTS, tenant("b", sqlSchema="reports"))
    assert 'the tenant "a" has this schema' in failure(answer, 422, "Invalid")["message"]


async def test_tenants_of_one_domain_share_their_revisions(system: Client) -> None:
    a = await make(system, "a", domain="fleet")
    b = await make(system, "b", domain="fleet")
    revisions = []
    for client, name in ((a, "x"), (b, "x"), (a, "y")):
        made = (await client.post(CONFIG_MAPS, config_map(name))).ok(201)
        revisions.append(int(made["metadata"]["resourceVersion"]))
    assert revisions == sorted(set(revisions))
    refused = failure(await change(system, "a", {"domain": "another"}), 422, "Invalid")
    assert "domain cannot be changed" in refused["message"]


async def test_a_suspended_tenant_is_read_only(system: Client) -> None:
    acme = await make(system, "acme")
    (await acme.post(CONFIG_MAPS, config_map("a"))).ok(201)
    (await change(system, "acme", {"suspended": True})).ok()
    assert (await system.get(f"{TENANTS}/acme")).ok()["status"]["phase"] == "Suspended"
    (await acme.get(f"{CONFIG_MAPS}/a")).ok()
    for answer in (
        await acme.post(CONFIG_MAPS, config_map("b")),
        await acme.delete(f"{CONFIG_MAPS}/a"),
        await acme.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "z"}}),
    ):
        assert 'the tenant "acme" is suspended' in failure(answer, 403, "Forbidden")["message"]
    (await change(system, "acme", {"suspended": False})).ok()
    (await acme.post(CONFIG_MAPS, config_map("b"))).ok(201)


async def test_a_protected_tenant_cannot_be_deleted(system: Client) -> None:
    await make(system, "acme", protected=True)
    refused = failure(await system.delete(f"{TENANTS}/acme"), 403, "Forbidden")
    assert "set spec.protected to false" in refused["message"]
    (await change(system, "acme", {"protected": False})).ok()
    (await system.delete(f"{TENANTS}/acme")).ok()
    await gone(system, "acme")


async def test_a_deleted_tenant_disappears_at_once_and_frees_its_name_after_the_removal(system: Client) -> None:
    acme = await make(system, "acme")
    made = (await acme.post(CONFIG_MAPS, config_map("a"))).ok(201)
    ended = (await system.delete(f"{TENANTS}/acme")).ok()
    assert ended["status"]["phase"] == "Terminating"
    failure(await acme.get(f"{CONFIG_MAPS}/a"), 404, "NotFound")
    failure(await acme.post(CONFIG_MAPS, config_map("b")), 404, "NotFound")
    await gone(system, "acme")
    again = await make(system, "acme")
    failure(await again.get(f"{CONFIG_MAPS}/a"), 404, "NotFound")
    assert (await again.post(CONFIG_MAPS, config_map("a"))).ok(201)["metadata"]["uid"] != made["metadata"]["uid"]


async def test_the_object_limit_is_exact_under_concurrent_creates(system: Client) -> None:
    acme = await make(system, "acme")
    (await acme.get(CONFIG_MAPS)).ok()
    await wait_until_idle(acme)
    here = await count(acme)
    (await change(system, "acme", {"quotas": {"objects": here + 5}})).ok()
    answers = await asyncio.gather(*(acme.post(CONFIG_MAPS, config_map(f"a{i}")) for i in range(40)))
    assert sorted(a.code for a in answers) == [201] * 5 + [403] * 35
    refused = next(a for a in answers if a.code == 403)
    assert failure(refused, 403, "Forbidden")["message"].endswith(
        f"exceeded quota: tenant acme, requested: objects=1, used: objects={here + 5}, limited: objects={here + 5}"
    )
    made = next(a for a in answers if a.code == 201).json["metadata"]["name"]
    (await acme.delete(f"{CONFIG_MAPS}/{made}")).ok()
    (await acme.post(CONFIG_MAPS, config_map("again"))).ok(201)


async def test_the_limits_of_bytes_definitions_and_namespaces(system: Client) -> None:
    acme = await make(system, "acme")
    (await acme.get(CONFIG_MAPS)).ok()
    await wait_until_idle(acme)
    (await change(system, "acme", {"quotas": {"bytes": 60_000, "definitions": 1, "namespaces": 5}})).ok()
    answer = await acme.post(CONFIG_MAPS, config_map("large", 60_000))
    assert "exceeded quota: tenant acme, requested: bytes=" in failure(answer, 403, "Forbidden")["message"]
    (await acme.post(CONFIG_MAPS, config_map("a", 10_000))).ok(201)
    # What does not grow is never refused.
    (await change(system, "acme", {"quotas": {"bytes": 100}})).ok()
    (await acme.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "z"}})).ok()
    failure(await acme.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "z" * 10}}), 403, "Forbidden")
    (await change(system, "acme", {"quotas": {"bytes": None}})).ok()
    await define(acme, widgets_definition())
    second = widgets_definition()
    second["metadata"] = {"name": "gadgets.test.example.com"}
    second["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    answer = await acme.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", second)
    assert "definitions=1" in failure(answer, 403, "Forbidden")["message"]
    namespaces = [
        await acme.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in ("one", "two")
    ]
    assert [a.code for a in namespaces] == [201, 403]
    assert "namespaces=5" in namespaces[1].json["message"]


async def test_the_space_of_indexes_counts_among_the_bytes(system: Client) -> None:
    acme = await make(system, "acme")
    made = widgets_definition()
    made["metadata"]["annotations"] = {"query.registry/condition": "true"}
    await define(acme, made)
    for name in ("a", "b"):
        (await acme.post(WIDGETS, widget(name, color="w" * 200))).ok(201)
    await wait_until_idle(acme)

    async def indexed() -> tuple[str, str]:
        conditions = (await acme.get(f"{DEFINITIONS}/widgets.{GROUP}")).ok()["status"]["conditions"]
        return next(((c["reason"], c["message"]) for c in conditions if c["type"] == "Indexed"), ("", ""))

    async def complete() -> bool:
        return (await indexed())[0] == "Complete"

    await eventually(complete)
    used = await used_bytes(acme)
    (await change(system, "acme", {"quotas": {"bytes": used + 7000}})).ok()
    # An index that is built meets the limit, and so does a write whose body alone would have room.
    words = {"metadata": {"annotations": {"query.registry/search": "spec.color"}}}
    many = " ".join(f"{n:05}" for n in range(100))
    (await acme.post(WIDGETS, widget("c", color=many))).ok(201)
    (await acme.patch(f"{DEFINITIONS}/widgets.{GROUP}", words)).ok()

    async def refused() -> bool:
        return (await indexed())[0] == "QuotaExceeded"

    await eventually(refused)
    assert f"limited {used + 7000}" in (await indexed())[1]
    answer = await acme.post(WIDGETS, widget("d", color=many))
    assert "exceeded quota: tenant acme, requested: bytes=" in failure(answer, 403, "Forbidden")["message"]
    (await change(system, "acme", {"quotas": {"bytes": None}})).ok()
    (await acme.post(WIDGETS, widget("d", color=many))).ok(201)
    (await acme.patch(f"{DEFINITIONS}/widgets.{GROUP}", {"metadata": {"labels": {"built": "again"}}})).ok()
    await eventually(complete)
    # A refusal that led to the next attempt would stand there again and again.
    assert (await reasons(acme)).count("QuotaExceeded") == 1
    for name in "abcd":
        (await acme.delete(f"{WIDGETS}/{name}")).ok()


async def reasons(client: Client) -> list[str]:
    """What the condition of the indexes said, one after the other."""
    versions = (await client.get(f"{DEFINITIONS}/widgets.{GROUP}/history?object=true&diff=none")).ok()["items"]
    said = [
        condition["reason"]
        for version in reversed(versions)
        for condition in (version["object"].get("status", {}).get("conditions") or ())
        if condition["type"] == "Indexed"
    ]
    return [reason for reason, before in zip(said, ["", *said], strict=False) if reason != before]


async def used_bytes(client: Client) -> int:
    store: Any = client._app.state.backend.store  # type: ignore[attr-defined]
    name = client.prefix.rpartition("/")[2]
    return int((await store.tenancy.usage([name]))[name].bytes)


async def count(client: Client) -> int:
    store: Any = client._app.state.backend.store  # type: ignore[attr-defined]
    name = client.prefix.rpartition("/")[2]
    return int((await store.tenancy.usage([name]))[name].objects)


async def wait_until_idle(client: Client) -> None:
    """Until the controllers have given the tenant's namespaces what they have."""

    async def look() -> bool:
        return await count(client) >= 13

    await eventually(look)


async def test_usage_equals_the_stored_objects(system: Client) -> None:
    acme = await make(system, "acme")
    made = widgets_definition()
    made["metadata"]["annotations"] = {"query.registry/index": "spec.size", "query.registry/search": "spec.color"}
    await define(acme, made)
    for i in range(10):
        (await acme.post(WIDGETS, widget(f"w{i}", size=i, color="dark red"))).ok(201)
    (await acme.patch(f"{WIDGETS}/w1", {"metadata": {"labels": {"ä": None, "a": "b"}}})).ok()
    (await acme.delete(f"{WIDGETS}/w2")).ok()
    await wait_until_idle(acme)
    store: Any = system._app.state.backend.store  # type: ignore[attr-defined]
    async with store._pool.connection() as connection:
        cursor = await connection.execute("""
            SELECT t.name, t.objects = c.n, t.bytes = c.bytes, t.definitions = c.definitions,
                t.namespaces = c.namespaces
            FROM tenants t JOIN (
                SELECT tenant_id, count(*) AS n, sum(octet_length(body) + coalesce(registry_index_bytes(index_entries), 0)) AS bytes,
                    count(*) FILTER (WHERE resource = 'customresourcedefinitions.apiextensions.k8s.io') AS definitions,
                    count(*) FILTER (WHERE resource = 'namespaces') AS namespaces
                FROM objects GROUP BY tenant_id
            ) c ON c.tenant_id = t.id ORDER BY t.name""")
        rows = await cursor.fetchall()
    assert [row[0] for row in rows] == ["acme", "default", "system"]
    assert all(all(row[1:]) for row in rows), rows


async def test_usage_requires_the_right_to_read_it(system: Client) -> None:
    acme = await make(system, "acme", quotas={"objects": 100})
    await define(acme, widgets_definition())
    one = (await system.get(f"{TENANTS}/acme/usage")).ok()
    assert (one["kind"], one["name"], one["limits"]) == ("TenantUsage", "acme", {"objects": 100})
    assert one["used"].keys() == {"objects", "bytes", "definitions", "namespaces"}
    assert one["used"]["definitions"] == 1
    names, following = [], ""
    while True:
        page = (await system.get(f"{TENANTS}?usage=true&limit=2&continue={following}")).ok()
        assert page["kind"] == "TenantUsageList"
        names += [item["name"] for item in page["items"]]
        following = page["metadata"].get("continue", "")
        if not following:
            break
    assert names == sorted(names)
    assert {"acme", "default", "system"} <= set(names)
    failure(await system.get(f"{TENANTS}/nosuch/usage"), 404, "NotFound")
    failure(await system.post(f"{TENANTS}/acme/usage", {}), 405, "MethodNotAllowed")
    assert (await acme.get(f"{TENANTS}?usage=true")).code == 404
    eve = {"impersonate-user": "eve"}
    failure(await system.get(f"{TENANTS}?usage=true", headers=eve), 403, "Forbidden")
    failure(await system.get(f"{TENANTS}/acme/usage", headers=eve), 403, "Forbidden")
