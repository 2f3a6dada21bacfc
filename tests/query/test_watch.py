"""Filtered watches equal the filtered list plus its changes; other places where filters apply."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

from tests.api.client import PARTIAL, TABLE, Client
from tests.api.errors import failure
from tests.api.widgets import ALL_WIDGETS, WIDGETS, make, names_of, widget
from tests.application import has_own_application, shares_application
from tests.query.lists import INDEX, declare, fill, query
from tests.tenancy.sharing import consumer
from tests.tenancy.tenants import token_of

pytestmark = shares_application

LARGE = quote("object.spec.size >= 3")


def short(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"].get("name", "")


async def test_a_filtered_watch_shows_objects_that_start_and_stop_matching(api: Client) -> None:
    await fill(api)
    async with api.watch(f"{WIDGETS}?watch=1&filter={LARGE}") as watch:
        assert sorted([short(e) for e in await watch.events(3)]) == [("ADDED", "a"), ("ADDED", "e"), ("ADDED", "f")]
        (await api.patch(f"{WIDGETS}/b", {"spec": {"size": 7}})).ok()
        assert short(await watch.event()) == ("ADDED", "b")
        (await api.patch(f"{WIDGETS}/d", {"spec": {"size": 1}})).ok()
        (await api.patch(f"{WIDGETS}/b", {"spec": {"color": "red"}})).ok()
        assert short(await watch.event()) == ("MODIFIED", "b")
        gone = (await api.patch(f"{WIDGETS}/b", {"spec": {"size": 1}})).ok()
        event = await watch.event()
        assert short(event) == ("DELETED", "b")
        assert event["object"]["spec"] == {"size": 7, "color": "red", "parts": ["y"]}
        assert event["object"]["metadata"]["resourceVersion"] == gone["metadata"]["resourceVersion"]
        (await api.delete(f"{WIDGETS}/b")).ok()
        (await api.delete(f"{WIDGETS}/a")).ok()
        assert short(await watch.event()) == ("DELETED", "a")


async def test_a_watch_equals_the_list_plus_changes(api: Client) -> None:
    """What a client keeps by the events of a watch is, at the end, the list; whatever was written in between."""
    chance = random.Random(4)
    wanted = 'object.spec.size > 2 && object.spec.color.startsWith("r") || object.metadata.labels.keep == "yes"'
    await fill(api)
    begun = await query(api, filter=wanted)
    kept = {item["metadata"]["name"]: item for item in begun["items"]}
    at = begun["metadata"]["resourceVersion"]
    for _ in range(150):
        name = f"n{chance.randrange(8)}"
        spec: dict[str, Any] = {"size": chance.randrange(6), "color": chance.choice(("red", "rose", "blue"))}
        match chance.randrange(4):
            case 0:
                await api.delete(f"{WIDGETS}/{name}")
            case 1:
                await api.post(WIDGETS, widget(name, labels={"keep": chance.choice(("yes", "no"))}, **spec))
            case _:
                await api.patch(f"{WIDGETS}/{name}", {"spec": spec})
    await make(api, "last", size=5, color="red")
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={at}&filter={quote(wanted)}") as watch:
        while True:
            event = await watch.event()
            name = event["object"]["metadata"]["name"]
            assert (event["type"] == "ADDED") is (name not in kept), event
            if event["type"] == "DELETED":
                del kept[name]
            else:
                kept[name] = event["object"]
            if name == "last":
                break
    assert kept == {item["metadata"]["name"]: item for item in (await query(api, filter=wanted))["items"]}


async def test_unsupported_parameters_of_watches(api: Client) -> None:
    for parameters, text in (
        ("filter=object.metadata.creationTimestamp%20%3C%20now", "cannot use now"),
        ("filter=object.sise", "undefined field"),
        ("orderBy=spec.size", "parameters of lists"),
        ("count=exact", "parameters of lists"),
    ):
        status = failure(await api.get(f"{WIDGETS}?watch=1&{parameters}"), 400, "BadRequest")
        assert text in status["message"]


async def test_delete_collection_honours_the_filter(api: Client) -> None:
    await fill(api)
    (await api.delete(f"{WIDGETS}?filter={LARGE}")).ok()
    assert names_of((await api.get(WIDGETS)).ok()) == ["b", "c", "d"]
    failure(await api.delete(f"{WIDGETS}?offset=1"), 400, "BadRequest")


async def test_deleted_objects_are_filtered(api: Client) -> None:
    await fill(api)
    (await api.delete(WIDGETS)).ok()
    found = (await api.get(f"{WIDGETS}?deleted=true&filter={LARGE}")).ok()
    assert [item["object"]["metadata"]["name"] for item in found["items"]] == ["a", "e", "f"]
    before = (await api.get(f"{WIDGETS}?deleted=true&orderBy=spec.size%20desc&limit=2")).ok()
    assert [item["object"]["metadata"]["name"] for item in before["items"]] == ["f", "a"]
    assert before["metadata"]["remainingItemCount"] == 4
    (await api.post(WIDGETS, widget("later", size=4))).ok(201)
    (await api.delete(f"{WIDGETS}/later")).ok()
    token = before["metadata"]["continue"]
    rest = (await api.get(f"{WIDGETS}?deleted=true&orderBy=spec.size%20desc&continue={token}")).ok()
    assert [item["object"]["metadata"]["name"] for item in rest["items"]] == ["e", "d", "b", "c"]
    by_label = quote("team=a,query.registry/order-by=spec.size,query.registry/offset=1")
    found = (await api.get(f"{WIDGETS}?deleted=true&labelSelector={by_label}")).ok()
    assert [item["object"]["metadata"]["name"] for item in found["items"]] == ["e", "c"]
    for wrong in ("orderBy=spec.sise", "count=all", "offset=10001", f"orderBy=spec.size&continue={token}"):
        failure(await api.get(f"{WIDGETS}?deleted=true&{wrong}"), 400, "BadRequest")


async def test_tables_partial_metadata_and_past_revisions(api: Client) -> None:
    await fill(api)
    await declare(api, INDEX)
    path = f"{WIDGETS}?filter={LARGE}&orderBy=spec.size%20desc&limit=2&count=exact"
    table = (await api.get(path, accept=TABLE)).ok()
    assert [row["cells"][0] for row in table["rows"]] == ["f", "a"]
    assert table["metadata"]["remainingItemCount"] == 1
    partial = (await api.get(path, accept=PARTIAL.replace("PartialObjectMetadata", "PartialObjectMetadataList"))).ok()
    assert [item["metadata"]["name"] for item in partial["items"]] == ["f", "a"]
    at = partial["metadata"]["resourceVersion"]
    (await api.delete(f"{WIDGETS}/f")).ok()
    (await api.patch(f"{WIDGETS}/b", {"spec": {"size": 20}})).ok()
    past = await query(api, filter="object.spec.size >= 3", orderBy="spec.size desc", resourceVersion=at,
                       resourceVersionMatch="Exact")  # fmt: skip
    assert names_of(past) == ["f", "a", "e"]
    assert past["metadata"]["resourceVersion"] == at


async def test_builtin_kinds(api: Client) -> None:
    for name, value in (("one", "1"), ("two", "2"), ("three", "3")):
        (
            await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}, "data": {"n": value}})
        ).ok(201)
    path = "/api/v1/namespaces/default/configmaps"
    assert names_of(await query(api, path, filter='object.data.n > "1"', orderBy="data['n'] desc")) == ["three", "two"]
    assert "one" in names_of(await query(api, "/api/v1/configmaps", filter='object.metadata.name == "one"'))
    (await api.post("/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"x": "1"}})).ok(
        201
    )
    secrets = "/api/v1/namespaces/default/secrets"
    status = failure(await api.get(f"{secrets}?filter={quote('object.data.x == b')}"), 400, "BadRequest")
    assert "undeclared" in status["message"]
    for hidden in ("has(object.data.x)", 'object.data["x"] == b"1"', "object.?data.x.hasValue()"):
        assert "sensitive" in failure(await api.get(f"{secrets}?filter={quote(hidden)}"), 400, "BadRequest")["message"]
    ordered = quote("data['x']")
    assert "sensitive" in failure(await api.get(f"{secrets}?orderBy={ordered}"), 400, "BadRequest")["message"]


@has_own_application
async def test_several_tenants(api: Client, provider: Client) -> None:
    clients = [await consumer(api, name, domain="shop") for name in ("one", "two")]
    for number, client in enumerate(clients):
        await make(client, "a", size=number)
        await make(client, "b", size=number + 1)
    across = api.with_token(await token_of(api, "provider", "system:masters")).of_tenant("*")
    large = quote("object.spec.size >= 1")
    found = (await across.get(f"{ALL_WIDGETS}?filter={large}")).ok()
    assert [
        (i["metadata"]["annotations"]["tenancy.registry/tenant"], i["metadata"]["name"]) for i in found["items"]
    ] == [("one", "b"), ("two", "a"), ("two", "b")]
    assert names_of((await across.get(f"{ALL_WIDGETS}?filter={large}&limit=2")).ok()) == ["b", "a"]
    await several_tenants_in_order(across, clients[1])
    at = (await across.get(f"{ALL_WIDGETS}?limit=1")).ok()["metadata"]["resourceVersion"]
    async with across.watch(f"{ALL_WIDGETS}?watch=1&resourceVersion={at}&filter={large}") as watch:
        (await clients[0].patch(f"{WIDGETS}/b", {"spec": {"size": 0}})).ok()
        (await clients[0].patch(f"{WIDGETS}/a", {"spec": {"size": 3}})).ok()
        assert [short(e) for e in await watch.events(2)] == [("DELETED", "b"), ("ADDED", "a")]


async def several_tenants_in_order(across: Client, other: Client) -> None:
    """Sorted across tenants, equal ones by tenant; pages are of one revision."""

    def places(found: Any) -> list[tuple[str, str]]:
        items = [item["metadata"] for item in found["items"]]
        return [(item["annotations"]["tenancy.registry/tenant"], item["name"]) for item in items]

    path = f"{ALL_WIDGETS}?orderBy=spec.size%20desc,metadata.name"
    wanted = [("two", "b"), ("two", "a"), ("one", "b"), ("one", "a")]
    assert places((await across.get(path)).ok()) == wanted
    answer = await across.get(f"{path}&limit=1&count=exact&offset=1")
    page = answer.ok()
    assert (places(page), answer.header("x-total-count"), page["metadata"]["remainingItemCount"]) == (
        wanted[1:2],
        "4",
        2,
    )
    (await other.post(WIDGETS, widget("c", size=1))).ok(201)
    rest = (await across.get(f"{path}&continue={page['metadata']['continue']}")).ok()
    assert places(rest) == wanted[2:]
    assert rest["metadata"]["resourceVersion"] == page["metadata"]["resourceVersion"]
    (await other.delete(f"{WIDGETS}/c")).ok()
    table = (await across.get(f"{path}&limit=2", accept=TABLE)).ok()
    assert [row["cells"][0] for row in table["rows"]] == ["b", "a"]
    counted = await across.get(f"{ALL_WIDGETS}?count=exact&limit=3")
    assert counted.header("x-total-count") == "4"
    token = counted.ok()["metadata"]["continue"]
    assert places((await across.get(f"{ALL_WIDGETS}?continue={token}")).ok()) == [("two", "b")]
    by_label = quote("query.registry/order-by=spec.size,query.registry/count=exact")
    assert places((await across.get(f"{ALL_WIDGETS}?labelSelector={by_label}&limit=1")).ok()) == [("one", "a")]
    for wrong in ("orderBy=spec.sise", "count=all", f"orderBy=spec.size&continue={token}"):
        failure(await across.get(f"{ALL_WIDGETS}?{wrong}"), 400, "BadRequest")
