"""What was authorized restricts what is answered: a user of one resourceName sees nothing of other objects.

Every resource that discovery tells of, every query that lists, watches or looks back, by a user whose only rule is
`resourceNames: [mine]` on everything. What shows of the other objects is found by a word that each has in its labels,
annotations or content, and by their uids.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import pytest_asyncio

from registry.api.answers import DocumentAnswer, Event, ListAnswer, WatchAnswer
from registry.api.confining import confine
from registry.api.request import ResourceRequest
from tests.api.client import PARTIAL, TABLE, Body, Client
from tests.api.errors import failure
from tests.api.widgets import ALL_WIDGETS, WIDGETS, define, make, names_of, widget, widgets_definition
from tests.authorization.one_name import HIDDEN, KINDS, MINE, SELECTORS, SUBRESOURCES, THEIRS, WORD, World, prepare


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(module_application: Client) -> Client:
    return await prepare(module_application.of_tenant("system"))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS.values(), ids=KINDS)
async def world(request: pytest.FixtureRequest, module_application: Client, user: Client) -> World:
    """One for all tests of a kind, in their order: the last of them deletes its objects."""
    made = World(module_application.of_tenant("system"), user, request.param)
    await made.fill()
    return made


of_the_world = pytest.mark.asyncio(loop_scope="module")


@of_the_world
async def test_lists_return_the_authorized_object_only(world: World) -> None:
    kind = world.kind
    seen = await world.look_everywhere()
    # Not for nothing: what is authorized is answered.
    assert "fieldSelector=metadata.name={mine}&" in seen
    answer = (await world.ask(kind.path, SELECTORS["mine"])).ok()
    assert [i["metadata"]["name"] for i in answer["items"]] == [kind.named(MINE)] * len(kind.places)
    across = (await world.ask(kind.path, SELECTORS["mine"], client=world.across)).ok()
    assert [i["metadata"]["name"] for i in across["items"]] == [kind.named(MINE)] * len(kind.places)
    failure(await world.ask(kind.path), 403, "Forbidden")
    if kind.path.endswith("/tenants"):
        usage = (await world.ask(kind.path, SELECTORS["mine"] + "&usage=true")).ok()
        assert [item["name"] for item in usage["items"]] == [MINE]


@of_the_world
async def test_other_objects_cannot_be_reached(world: World) -> None:
    kind = world.kind
    for name in (THEIRS, HIDDEN):
        for part in SUBRESOURCES:
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                path = f"{kind.collection()}/{kind.named(name)}{part}".format(**world.words)
                body: Body = {} if method in ("POST", "PUT", "PATCH") else None
                content = "application/merge-patch+json" if method == "PATCH" else "application/json"
                answer = await world.user.request(method, path, body, content_type=content)
                # The refusal tells the name that was asked for, and nothing else.
                assert answer.code == 403, (method, path, answer.text)
                assert WORD not in answer.text
                assert not any(uid in answer.text for uid in world.uids)
    for part in SUBRESOURCES:
        await world.ask(f"{kind.collection()}/{kind.named(MINE)}{part}".format(**world.words))
    # A collection is not authorized by a name, whatever is selected of it.
    for selector in SELECTORS.values():
        answer = await world.ask(kind.collection(), selector, "DELETE")
        assert answer.code in (403, 405), answer.text
    for place in kind.places:
        there = names_of((await world.admin.get(world.path_of(place))).ok())
        assert {kind.named(n) for n in (MINE, THEIRS, HIDDEN)} <= set(there)


@of_the_world
async def test_watches_return_the_authorized_object_only(world: World) -> None:
    kind = world.kind
    mine = SELECTORS["mine"].format(**world.words)
    once = f"{kind.collection(prefix='/watch')}/{kind.named(MINE)}"
    paths = [
        f"{kind.collection()}?watch=1&{mine}",
        f"{kind.path}?watch=1&resourceVersion=0&{mine}",
        f"{kind.path}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&{mine}",
        f"{kind.path}?watch=1&resourceVersion={world.words['revision']}&{mine}",
        f"{kind.path}?watch=1&deleted=true&{mine}",
        f"{kind.path}?watch=1&usage=true&{mine}",
        once,
        f"{once}?{mine}",
        f"{kind.path}?watch=1&labelSelector=both=yes&{mine}",
    ]
    # The old path of a watch of many is not authorized by the name that its selector requires.
    failure(await world.user.get(f"{kind.collection(prefix='/watch')}?{mine}"), 403, "Forbidden")
    async with contextlib.AsyncExitStack() as stack:
        watches = [
            (path, await stack.enter_async_context(client.watch(path, accept=accept)))
            for client in (world.user, world.across)
            for path in paths
            for accept in ("", TABLE, PARTIAL)
            if client is world.user or "/watch/" not in path
        ]
        for path, watch in watches:
            assert watch.code == 200, (path, watch.body())
        for name in (THEIRS, HIDDEN):
            await world.patch(name, "default", f"{WORD}-2")
        await world.patch(MINE, "default", "touched")
        for path, watch in watches:
            while True:
                line = await watch.line()
                world.check(path, line)
                if b"MODIFIED" in line:
                    break


@of_the_world
async def test_lists_of_deleted_objects_return_the_authorized_object_only(world: World) -> None:
    kind = world.kind
    await world.delete_all()
    await world.look_everywhere(past=True)
    answer = await world.ask(kind.path, SELECTORS["mine"] + "&deleted=true")
    if kind.path == "/api/v1/secrets":
        failure(answer, 403, "Forbidden")
        return
    items = answer.ok()["items"]
    assert [i["object"]["metadata"]["name"] for i in items] == [kind.named(MINE)] * len(kind.places)
    first = (await world.ask(kind.path, SELECTORS["mine"] + "&deleted=true&limit=1")).ok()
    assert len(first["items"]) == 1
    following = first["metadata"].get("continue")
    assert bool(following) == kind.namespaced
    if following:
        world.check("the token", base64.urlsafe_b64decode(following + "=" * (-len(following) % 4)))


async def test_a_watch_of_one_object_cannot_select_another(api: Client) -> None:
    await make(api, "a", "b")
    path = f"{WIDGETS.replace('/v1/', '/v1/watch/')}/a"
    for selector in ("metadata.name=b", "metadata.name!=a", "spec.color=grey"):
        answer = await api.get(f"{path}?fieldSelector={selector}")
        refused = failure(answer, 400, "BadRequest")
        assert refused["message"] == "fieldSelector metadata.name doesn't match requested name"


async def test_every_resource_is_covered(api: Client) -> None:
    system = api.of_tenant("system")
    await define(system, widgets_definition())
    groups = (await system.get("/apis")).ok()["groups"]
    served = ["api/v1", *(f"apis/{v['groupVersion']}" for group in groups for v in group["versions"])]
    found = set()
    for path in served:
        resources = (await system.get(f"/{path}")).ok()["resources"]
        found |= {f"/{path}/{resource['name']}" for resource in resources if "list" in resource["verbs"]}
    assert found <= {kind.path for kind in KINDS.values()}


# --- the exit that every answer passes


async def _chunks(*texts: str) -> AsyncIterator[Sequence[str]]:
    yield texts


async def _batches(*events: Event) -> AsyncGenerator[Sequence[Event], None]:
    yield events


def _object(name: str) -> str:
    return f'{{"metadata":{{"name":"{name}"}}}}'


def _request(name: str, *, administrator: bool = False) -> ResourceRequest:
    context: Any = SimpleNamespace(authorized_name=name, user=SimpleNamespace(is_administrator=administrator))
    request: Any = SimpleNamespace(context=context, served=SimpleNamespace(resource="widgets"), subresource="")
    return cast(ResourceRequest, request)


async def test_answers_of_handlers_without_selectors_are_confined(caplog: pytest.LogCaptureFixture) -> None:
    served: Any = None
    listed = confine(ListAnswer(served, 1, _chunks(_object("a"), _object("b")), remaining=7), _request("a"), "list")
    assert isinstance(listed, ListAnswer)
    assert listed.remaining is None
    assert [t async for texts in listed.chunks for t in texts] == [_object("a")]
    watched = confine(
        WatchAnswer(served, _batches(Event("ADDED", _object("b")), Event("BOOKMARK", "{}"))), _request("a"), "watch"
    )
    assert isinstance(watched, WatchAnswer)
    assert [e.type async for batch in watched.events for e in batch] == ["BOOKMARK"]
    items = [{"name": "a"}, {"name": "b"}, {"object": {"metadata": {"name": "b"}}}, {}]
    document = confine(DocumentAnswer({"metadata": {"continue": "b"}, "items": items}), _request("a"), "list")
    assert isinstance(document, DocumentAnswer)
    assert document.body == {"metadata": {}, "items": [{"name": "a"}]}
    assert len(caplog.records) == 3


@pytest.mark.parametrize("name, administrator", [("", False), ("a", True)], ids=["all", "administrator"])
def test_users_authorized_for_all_names_get_all_objects(name: str, administrator: bool) -> None:
    answer = DocumentAnswer({"items": [{"name": "a"}, {"name": "b"}]})
    assert confine(answer, _request(name, administrator=administrator), "list") is answer


# --- selecting what is gone


@pytest.mark.parametrize(
    "query, names",
    {
        "a name": ("fieldSelector=metadata.name=b", ["b"]),
        "not a name": ("fieldSelector=metadata.name!=b", ["a", "c"]),
        "a place": ("fieldSelector=metadata.namespace=nowhere", []),
        "labels": ("labelSelector=team=x", ["a", "c"]),
        "labels in pages": ("labelSelector=team=x&limit=1", ["a", "c"]),
        "labels and a name": ("labelSelector=team=x&fieldSelector=metadata.name=b", []),
    }.values(),
    ids=["a name", "not a name", "a place", "labels", "labels in pages", "labels and a name"],
)
async def test_selectors_apply_to_deleted_objects(api: Client, query: str, names: list[str]) -> None:
    for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
        (await api.post(WIDGETS, widget(name, labels={"team": team}))).ok(201)
        (await api.delete(f"{WIDGETS}/{name}")).ok()
    for path in (WIDGETS, ALL_WIDGETS):
        found, following = list[str](), ""
        while True:
            page = (await api.get(f"{path}?deleted=true&{query}&continue={following}")).ok()
            found += [item["object"]["metadata"]["name"] for item in page["items"]]
            following = page["metadata"].get("continue", "")
            if not following:
                break
        assert found == names


async def test_deleted_objects_cannot_be_selected_by_sensitive_fields(api: Client) -> None:
    answer = await api.get(f"{WIDGETS}?deleted=true&fieldSelector=spec.color=red")
    assert failure(answer, 400, "BadRequest")["message"] == "field label not supported: spec.color"


@pytest.mark.parametrize(
    "query, code, names",
    [
        ("fieldSelector=metadata.name=default", 200, ["default"]),
        ("fieldSelector=metadata.name!=default", 200, ["system"]),
        ("fieldSelector=metadata.name!=default&limit=1", 200, ["system"]),
        ("fieldSelector=metadata.name=nobody", 200, []),
        ("labelSelector=a=b", 400, None),
        ("fieldSelector=spec.domain=x", 400, None),
    ],
    ids=["a name", "not a name", "a page", "nobody", "labels", "another field"],
)
async def test_usage_is_selected_by_name(api: Client, query: str, code: int, names: list[str] | None) -> None:
    answer = await api.of_tenant("system").get(f"/apis/tenancy.registry/v1/tenants?usage=true&{query}")
    assert answer.code == code, answer.text
    if names is not None:
        assert [item["name"] for item in answer.json["items"]] == names
