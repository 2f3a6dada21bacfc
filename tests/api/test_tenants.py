"""Tenants: equal names in each of them, and isolation in every verb, list and watch."""

from __future__ import annotations

import random

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, NAMESPACES, WIDGETS, make, names_of, widget
from tests.application import new_tenant, shares_application

pytestmark = shares_application


@pytest_asyncio.fixture(loop_scope="module")
async def other(module_application: Client) -> Client:
    return await new_tenant(module_application)


async def test_a_bare_path_is_the_default_tenant(shared_api: Client) -> None:
    [made] = await make(shared_api, "a")
    assert (await shared_api.of_tenant("default").get(f"{WIDGETS}/a")).ok() == made


@pytest.mark.parametrize("path", [WIDGETS, DEFINITIONS, "/apis", "/openapi/v3", NAMESPACES, "/api/v1/x"])
async def test_an_unknown_tenant_is_not_found(api: Client, path: str) -> None:
    answer = await api.of_tenant("nobody").get(path)
    assert failure(answer, 404, "NotFound")["message"] == "the tenant does not exist"


async def test_no_verb_reaches_another_tenant(api: Client, other: Client) -> None:
    [mine] = await make(api, "a", size=1)
    a = f"{WIDGETS}/a"
    failure(await other.get(a), 404, "NotFound")
    failure(await other.put(a, mine), 404, "NotFound")
    failure(await other.patch(a, {"spec": {"size": 2}}), 404, "NotFound")
    failure(await other.delete(a), 404, "NotFound")
    assert (await other.delete(WIDGETS)).ok()["items"] == []
    [theirs] = await make(other, "a", size=9)
    assert theirs["metadata"]["uid"] != mine["metadata"]["uid"]
    assert (await api.get(a)).ok() == mine
    (await other.delete(a)).ok()
    assert (await api.get(a)).ok() == mine


async def test_definitions_and_namespaces_are_a_tenants_own(api: Client, other: Client) -> None:
    (await other.delete(f"{DEFINITIONS}/widgets.test.example.com")).ok()
    (await other.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}})).ok(201)
    await make(api, "a")
    assert "theirs" not in names_of((await api.get(NAMESPACES)).ok())
    assert names_of((await api.get(DEFINITIONS)).ok()) == ["widgets.test.example.com"]


async def test_a_continue_token_is_not_valid_in_another_tenant(api: Client, other: Client) -> None:
    await make(api, "a", "b", "c")
    await make(other, "x", "y")
    first = (await api.get(f"{WIDGETS}?limit=1")).ok()
    answer = await other.get(f"{WIDGETS}?continue={first['metadata']['continue']}")
    if answer.code == 200:
        assert set(names_of(answer.json)) <= {"x", "y"}
    else:
        failure(answer, answer.code, answer.json["reason"])


STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["create", "update", "delete", "collection"]), st.sampled_from("ab")),
    min_size=4,
    max_size=14,
)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(steps=STEPS, seed=st.integers(0, 1000))
async def test_random_writes_of_two_tenants_stay_separate(
    api: Client, other: Client, steps: list[tuple[bool, str, str]], seed: int
) -> None:
    """Each tenant's objects, and the events of its watch, are those of a model that knows that tenant only."""
    clients = {False: api, True: other}
    models: dict[bool, dict[str, int]] = {False: {}, True: {}}
    events: dict[bool, list[tuple[str, str, int]]] = {False: [], True: []}
    sizes = random.Random(seed)
    starts = {}
    for which, client in clients.items():
        (await client.delete(WIDGETS)).ok()
        starts[which] = (await client.get(WIDGETS)).ok()["metadata"]["resourceVersion"]
    for which, verb, name in steps:
        client, model, size = clients[which], models[which], sizes.randrange(1, 1 << 40)
        path = f"{WIDGETS}/{name}"
        if verb == "create":
            answer = await client.post(WIDGETS, widget(name, size=size))
            assert answer.code == (409 if name in model else 201)
            if name not in model:
                model[name] = size
                events[which].append(("ADDED", name, size))
        elif verb == "update":
            answer = await client.patch(path, {"spec": {"size": size}})
            assert answer.code == (200 if name in model else 404)
            if name in model:
                model[name] = size
                events[which].append(("MODIFIED", name, size))
        elif verb == "delete":
            answer = await client.delete(path)
            assert answer.code == (200 if name in model else 404)
            if name in model:
                events[which].append(("DELETED", name, model.pop(name)))
        else:
            (await client.delete(WIDGETS)).ok()
            events[which] += [("DELETED", n, model[n]) for n in sorted(model)]
            model.clear()
    for which, client in clients.items():
        items = (await client.get(WIDGETS)).ok()["items"]
        assert {i["metadata"]["name"]: i["spec"]["size"] for i in items} == models[which]
        async with client.watch(f"{WIDGETS}?watch=1&resourceVersion={starts[which]}") as watch:
            seen = [
                (e["type"], e["object"]["metadata"]["name"], e["object"]["spec"]["size"])
                for e in await watch.events(len(events[which]))
            ]
        # A collection's deletions go side by side: their order is the commits'.
        assert sorted(seen) == sorted(events[which])
