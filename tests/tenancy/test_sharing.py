"""Definitions that tenants share: bound, upgraded in one place, let go of; and who sees what of whom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Answer, Client, eventually
from tests.api.errors import failure
from tests.api.widgets import ALL_WIDGETS, DEFINITIONS, GROUP, WIDGETS, define, names_of, widget
from tests.tenancy.sharing import BINDINGS, EXPORTS, NAME, bind, binding, consumer, reason, shared_definition
from tests.tenancy.tenants import TENANTS, make, token_of


async def test_bound_definitions_are_served_like_own_ones(api: Client, provider: Client) -> None:
    one = await consumer(api, "one")
    other = await consumer(api, "two", domain="shop")
    (await one.post(WIDGETS, widget("a"))).ok(201)
    failure(await one.post(WIDGETS, widget("b", size=11)), 422, "Invalid")
    assert names_of((await one.get(ALL_WIDGETS)).ok()) == ["a"]
    # Nobody sees anything of the others, nor the definition itself.
    for client in (other, provider):
        assert names_of((await client.get(ALL_WIDGETS)).ok()) == []
    assert (await one.get(DEFINITIONS)).ok()["items"] == []
    failure(await one.get(f"{DEFINITIONS}/{NAME}"), 404, "NotFound")
    assert (await one.get(EXPORTS)).ok()["items"] == []
    resources = (await one.get(f"/apis/{GROUP}/v1")).ok()["resources"]
    assert [r["name"] for r in resources] == ["widgets"]
    assert "size" in (await one.get(f"/openapi/v3/apis/{GROUP}/v1")).text
    # Its name is taken.
    failure(await one.post(DEFINITIONS, shared_definition()), 403, "Forbidden")


async def test_the_schema_is_stored_once(api: Client, provider: Client) -> None:
    backend: Any = api._app.state.backend  # type: ignore[attr-defined]
    for name in ("one", "two"):
        (await (await consumer(api, name)).get(ALL_WIDGETS)).ok()
    tenants = [await backend.store.tenant(name) for name in ("one", "two")]
    one, two = [(await backend.catalogs.get(tenant)).definition(GROUP, "widgets") for tenant in tenants]
    assert one is two


async def test_an_upgrade_applies_in_all_tenants_once_it_is_answered(api: Client, provider: Client) -> None:
    consumers = [await consumer(api, "one"), await consumer(api, "two", domain="shop"), await consumer(api, "three")]
    for client in consumers:
        (await client.post(WIDGETS, widget("a", size=9))).ok(201)
    upgraded = (await provider.get(f"{DEFINITIONS}/{NAME}")).ok()
    upgraded["spec"] = shared_definition(maximum=5)["spec"]
    (await provider.put(f"{DEFINITIONS}/{NAME}", upgraded)).ok()
    for client in consumers:
        failure(await client.post(WIDGETS, widget("b", size=6)), 422, "Invalid")
        (await client.post(WIDGETS, widget("c", size=5))).ok(201)
        assert names_of((await client.get(ALL_WIDGETS)).ok()) == ["a", "c"]


async def test_bound_definitions_cannot_be_deleted(api: Client, provider: Client) -> None:
    one = await consumer(api, "one")
    failure(await provider.delete(f"{DEFINITIONS}/{NAME}"), 403, "Forbidden")
    failure(await provider.delete(f"{EXPORTS}/shop"), 403, "Forbidden")
    other = {"spec": {"definitions": ["others.example.com"]}}
    failure(await provider.patch(f"{EXPORTS}/shop", other), 403, "Forbidden")
    failure(await api.of_tenant("system").delete(f"{TENANTS}/provider"), 403, "Forbidden")
    (await one.post(WIDGETS, widget("a"))).ok(201)
    # Offered to nobody any more: who has bound stays bound.
    (await provider.patch(f"{EXPORTS}/shop", {"spec": {"tenants": {"all": False}}})).ok()
    (await one.get(f"{WIDGETS}/a")).ok()


async def test_a_version_stored_by_other_tenants_cannot_be_removed(api: Client, provider: Client) -> None:
    one = await consumer(api, "one")
    (await one.post(WIDGETS, widget("a"))).ok(201)
    stored = (await provider.get(f"{DEFINITIONS}/{NAME}")).ok()
    both = shared_definition()["spec"]["versions"]
    stored["spec"]["versions"] = [{**both[0], "storage": False}, {**both[0], "name": "v2"}]
    stored = (await provider.put(f"{DEFINITIONS}/{NAME}", stored)).ok()
    stored["status"]["storedVersions"] = ["v2"]
    stored = (await provider.put(f"{DEFINITIONS}/{NAME}/status", stored)).ok()
    stored["spec"]["versions"] = stored["spec"]["versions"][1:]
    failure(await provider.put(f"{DEFINITIONS}/{NAME}", stored), 403, "Forbidden")


async def test_unbinding_removes_the_objects(api: Client, provider: Client) -> None:
    one = await consumer(api, "one")
    (await one.post(WIDGETS, widget("held", metadata={"finalizers": ["example.com/wait"]}))).ok(201)
    (await one.post(WIDGETS, widget("free"))).ok(201)
    (await one.delete(f"{BINDINGS}/b")).ok()
    failure(await one.post(WIDGETS, widget("late")), 403, "Forbidden")

    async def only_held() -> bool:
        return names_of((await one.get(ALL_WIDGETS)).ok()) == ["held"]

    await eventually(only_held)
    # The finalizer of the binding is not for clients to take away.
    (await one.patch(f"{BINDINGS}/b", {"metadata": {"finalizers": None}})).ok()
    (await one.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})).ok()

    async def unbound() -> bool:
        return (await one.get(f"{BINDINGS}/b")).code == 404

    await eventually(unbound)
    assert (await one.get(ALL_WIDGETS)).code == 404
    (await provider.delete(f"{EXPORTS}/shop")).ok()
    await define(one, shared_definition(maximum=99))
    assert names_of((await one.get(ALL_WIDGETS)).ok()) == []


async def test_a_definition_that_is_not_exported_looks_absent(api: Client, provider: Client) -> None:
    system = api.of_tenant("system")
    offered = {"all": None, "names": ["friend"], "children": True, "selector": {"matchLabels": {"tier": "gold"}}}
    (await provider.patch(f"{EXPORTS}/shop", {"spec": {"tenants": offered}})).ok()
    stranger = await make(system, "stranger")
    (await stranger.post(BINDINGS, binding(name="offered"))).ok(201)
    (await stranger.post(BINDINGS, binding("nobody", name="nobody"))).ok(201)
    statuses = [(await reason(stranger, "NotOffered", name))["status"] for name in ("offered", "nobody")]
    for status in statuses:
        status["conditions"][0].pop("lastTransitionTime")
    assert statuses[0] == statuses[1]
    await bind(await make(system, "friend"))
    await bind(await make(system, "child", parent="provider"))
    gold = {
        "apiVersion": "tenancy.registry/v1",
        "kind": "Tenant",
        "metadata": {"name": "gold", "labels": {"tier": "gold"}},
        "spec": {},
    }
    (await system.post(TENANTS, gold)).ok(201)
    await bind(system.of_tenant("gold"))


async def test_a_name_is_bound_once(api: Client, provider: Client) -> None:
    one = await make(api.of_tenant("system"), "one")
    await define(one, shared_definition())
    (await one.post(BINDINGS, binding())).ok(201)
    await reason(one, "NamingConflict")
    two = await consumer(api, "two")
    (await two.post(BINDINGS, binding(name="again"))).ok(201)
    await reason(two, "NamingConflict", "again")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({**binding(), "spec": {}}, "spec.reference", id="no reference"),
        pytest.param({**binding(), "spec": {"reference": {"tenant": "a"}}}, "spec.reference.export", id="no export"),
    ],
)
async def test_bindings_are_validated(api: Client, body: dict[str, Any], field: str) -> None:
    assert failure(await api.post(BINDINGS, body), 422, "Invalid")["details"]["causes"][0]["field"] == field


async def test_only_the_server_writes_the_status_of_a_binding(api: Client, provider: Client) -> None:
    one = await make(api.of_tenant("system"), "one")
    (await provider.patch(f"{EXPORTS}/shop", {"spec": {"tenants": {"all": False}}})).ok()
    forged = {**binding(), "status": {"phase": "Bound", "boundDefinitions": [NAME]}}
    assert (await one.post(BINDINGS, forged)).ok(201)["status"] == {"phase": "Binding"}
    await reason(one, "NotOffered")
    stored = (await one.get(f"{BINDINGS}/b")).ok()
    (await one.put(f"{BINDINGS}/b/status", {**stored, "status": forged["status"]})).ok()
    assert (await one.get(f"{BINDINGS}/b")).ok()["status"]["phase"] == "Binding"
    failure(await one.patch(f"{BINDINGS}/b", {"spec": {"reference": {"export": "x"}}}), 422, "Invalid")
    assert (await one.get(ALL_WIDGETS)).code == 404


def tenants_of(answer: Answer) -> list[tuple[str, str]]:
    return [
        (o["metadata"]["annotations"]["tenancy.registry/tenant"], o["metadata"]["name"]) for o in answer.ok()["items"]
    ]


async def test_a_provider_sees_the_bindings_of_its_exports(api: Client, provider: Client) -> None:
    await consumer(api, "elsewhere")
    for name in ("one", "two"):
        client = await consumer(api, name, domain="shop")
        for number in range(3):
            made = widget(f"w{number}", labels={"number": str(number)}, metadata={"annotations": {"a": "b"}})
            (await client.post(WIDGETS, made)).ok(201)
    stranger = await make(api.of_tenant("system"), "own", domain="shop")
    await define(stranger, shared_definition())
    (await stranger.post(WIDGETS, widget("secret"))).ok(201)
    (await provider.post(WIDGETS, widget("mine"))).ok(201)
    across = api.with_token(await token_of(api, "provider", "system:masters")).of_tenant("*")
    everything = [(tenant, f"w{number}") for tenant in ("one", "two") for number in range(3)]
    whole = await across.get(ALL_WIDGETS)
    assert tenants_of(whole) == everything
    assert whole.ok()["items"][0]["metadata"]["annotations"]["a"] == "b"
    assert tenants_of(await across.get(f"{ALL_WIDGETS}?labelSelector=number=1")) == [("one", "w1"), ("two", "w1")]
    assert tenants_of(await across.get(f"{ALL_WIDGETS}?fieldSelector=metadata.name=w2")) == [
        ("one", "w2"),
        ("two", "w2"),
    ]
    assert tenants_of(await across.get(WIDGETS)) == everything
    # Pages are of the revision of the first, whatever happens meanwhile.
    page = await across.get(f"{ALL_WIDGETS}?limit=2")
    found, token = tenants_of(page), page.ok()["metadata"]["continue"]
    (await api.of_tenant("two").delete(f"{WIDGETS}/w1")).ok()
    (await api.of_tenant("two").post(WIDGETS, widget("w9"))).ok(201)
    while token:
        page = await across.get(f"{ALL_WIDGETS}?limit=2&continue={token}")
        found, token = found + tenants_of(page), page.ok()["metadata"]["continue"]
    assert found == everything
    # Nothing but what it exports, and nothing is written there.
    failure(await across.get("/api/v1/configmaps"), 403, "Forbidden")
    failure(await across.post(WIDGETS, widget("x")), 405, "MethodNotAllowed")
    failure(await across.get(f"{WIDGETS}/w1"), 405, "MethodNotAllowed")
    plain = api.with_token(await token_of(api, "provider", "dev")).of_tenant("*")
    failure(await plain.get(ALL_WIDGETS), 403, "Forbidden")
    foreign = api.with_token(await token_of(api, "one", "system:masters")).of_tenant("*")
    failure(await foreign.get(ALL_WIDGETS), 403, "Forbidden")
    # The platform sees all of the domain.
    assert ("own", "secret") in tenants_of(await api.of_tenant("*.shop").get(ALL_WIDGETS))
    assert (await api.of_tenant("*.nowhere").get(ALL_WIDGETS)).code == 404
    # In a tenant by itself there is no such annotation.
    assert "tenancy.registry/tenant" not in (await api.of_tenant("one").get(ALL_WIDGETS)).text


async def test_only_events_of_several_tenants_are_paged_at_revision_0(api: Client, provider: Client) -> None:
    """kube-apiserver has no events in its watch cache, which ignores the limit of lists at revision 0."""
    for name in ("one", "two"):
        client = await consumer(api, name, domain="shop")
        (await client.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})).ok(201)
        event = {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default"}}
        (await client.post("/api/v1/namespaces/default/events", event)).ok(201)
    across = api.of_tenant("*.shop")
    for plural, pages in (("events", True), ("configmaps", False)):
        query = f"/api/v1/namespaces/default/{plural}?limit=1&resourceVersion=0&fieldSelector=metadata.name=a"
        listed = (await across.get(query)).ok()
        assert (len(listed["items"]), bool(listed["metadata"].get("continue"))) == ((1, True) if pages else (2, False))
