"""Watches whose definition changes: which changes end them, and when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from registry.api.definition_changes import FollowedDefinition, FollowedDomain
from registry.api.verbs.watch import TenantSource
from registry.store.reads.points import PointReader
from registry.store.types import State, Tenant, TenantId
from tests.api.client import JSON_PATCH, Client, eventually
from tests.api.widgets import ALL_WIDGETS, DEFINITIONS, GROUP, WIDGETS, define, definition, make, revision, short
from tests.application import shares_application

pytestmark = shares_application

V2 = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}}
CHANGES_THAT_END: dict[str, list[dict[str, Any]]] = {
    "a version is added": [{"op": "add", "path": "/spec/versions/-", "value": V2}],
    "the schema": [
        {"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/x", "value": {"type": "string"}}
    ],
    "a description": [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "x"}],
    "columns": [{"op": "replace", "path": "/spec/versions/0/additionalPrinterColumns", "value": []}],
    "deprecation": [{"op": "add", "path": "/spec/versions/0/deprecated", "value": True}],
    "names": [{"op": "add", "path": "/spec/names/shortNames/-", "value": "wdg"}],
    "conversion": [
        {
            "op": "replace",
            "path": "/spec/conversion",
            "value": {
                "strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/"}},
            },
        }
    ],
}


@pytest.mark.parametrize("operations", CHANGES_THAT_END.values(), ids=CHANGES_THAT_END.keys())
async def test_watches_end_when_their_definition_changes(api: Client, operations: list[dict[str, Any]]) -> None:
    await make(api, "a")
    start = await revision(api)
    async with contextlib.AsyncExitStack() as stack:
        paths = (f"{WIDGETS}?watch=1&resourceVersion={start}", f"{ALL_WIDGETS}?watch=1")
        quiet, other = [await stack.enter_async_context(api.watch(path)) for path in paths]
        assert short(await other.event()) == ("ADDED", "a")
        await make(api, "b")
        (await api.patch(f"{DEFINITIONS}/widgets.{GROUP}", operations, JSON_PATCH)).ok()
        # Both get what came before the change, and end without an error.
        assert [short(e) for e in await quiet.until_end()] == [("ADDED", "b")]
        assert [short(e) for e in await other.until_end()] == [("ADDED", "b")]


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Awaitable[bool]]:
    """Tells whether the process has begun to read the changes of definitions."""
    domains: list[FollowedDomain] = []
    make_domain = FollowedDomain.__init__

    def noted(self: FollowedDomain, task: asyncio.Task[None]) -> None:
        make_domain(self, task)
        domains.append(self)

    async def are_followed() -> bool:
        return bool(domains) and domains[-1].compared_at is not None

    monkeypatch.setattr(FollowedDomain, "__init__", noted)
    return are_followed


async def test_a_watch_whose_definition_changes_while_it_begins_ends(
    api: Client, following: Callable[[], Awaitable[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change has been compared with all watches of the process before this one follows its definition."""
    await define(api, definition("gadgets", "Gadget"))
    follow = TenantSource.follow

    async def late(self: TenantSource, wake: Callable[[], None], revision: int) -> FollowedDefinition:
        (await api.patch(f"{DEFINITIONS}/widgets.{GROUP}", CHANGES_THAT_END["the schema"], JSON_PATCH)).ok()
        assert await early.until_end() == []
        return await follow(self, wake, revision)

    async with contextlib.AsyncExitStack() as stack:
        paths = (WIDGETS, WIDGETS.replace("widgets", "gadgets"))
        # The second keeps the process following the domain when the first has ended.
        early, _ = [await stack.enter_async_context(api.watch(f"{path}?watch=1")) for path in paths]
        await eventually(following)
        start = await revision(api)
        monkeypatch.setattr(TenantSource, "follow", late)
        watch = await stack.enter_async_context(api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}"))
        # A quiet watch looks by itself after BOOKMARK_SECONDS.
        async with asyncio.timeout(20):
            assert await watch.until_end() == []


async def test_the_start_of_a_watch_reads_the_state_of_its_tenant_once(
    api: Client, following: Callable[[], Awaitable[bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[TenantId] = []
    state = PointReader.state

    async def noted(self: PointReader, tenant: Tenant) -> State:
        reads.append(tenant.id)
        return await state(self, tenant)

    async with api.watch(f"{WIDGETS}?watch=1"):
        await eventually(following)
        start = await revision(api)
        await make(api, "a")
        monkeypatch.setattr(PointReader, "state", noted)
        async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as watch:
            assert short(await watch.event()) == ("ADDED", "a")
    assert len(reads) == 1


async def test_watches_survive_updates_that_do_not_change_the_definition(api: Client) -> None:
    start = await revision(api)
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as watch:
        changes = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
        (await api.patch(f"{DEFINITIONS}/widgets.{GROUP}", changes, JSON_PATCH)).ok()
        await define(api, definition("gadgets", "Gadget"))
        await make(api, "a")
        assert short(await watch.event()) == ("ADDED", "a")


async def test_a_watch_started_after_a_definition_change_uses_the_new_definition(api: Client) -> None:
    start = await revision(api)
    await make(api, "a")
    operations = CHANGES_THAT_END["the schema"]
    (await api.patch(f"{DEFINITIONS}/widgets.{GROUP}", operations, JSON_PATCH)).ok()
    async with api.watch(f"{WIDGETS}?watch=1&resourceVersion={start}") as watch:
        assert short(await watch.event()) == ("ADDED", "a")
        await make(api, "b")
        assert short(await watch.event()) == ("ADDED", "b")
