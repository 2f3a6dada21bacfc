"""A server whose PostgreSQL fails over, seen by its clients: --database-url names both hosts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from tests.api.widgets import WIDGETS
from tests.faults.clients import ServerClient, Watcher, eventually, revision_of
from tests.replication import Node, cluster, url_of
from tests.running import running_server

pytestmark = pytest.mark.slow


@contextlib.contextmanager
def _served(nodes: tuple[Node, Node], folder: Path) -> Iterator[tuple[str, str]]:
    arguments = ("--database-url", url_of(*nodes), "--plain-http", "--no-sql-views")
    with running_server(folder / "server", *arguments) as server:
        yield server.url, server.token


@contextlib.asynccontextmanager
async def _client(url: str, token: str) -> AsyncIterator[ServerClient]:
    async with ServerClient(url, token) as client:
        await client.define_widgets()
        yield client


async def test_writes_and_watches_continue_after_a_synchronous_failover(folder: Path, migrated_node: Node) -> None:
    with (
        cluster(migrated_node, synchronous=True) as (primary, standby),
        _served((primary, standby), folder) as (url, token),
    ):
        async with _client(url, token) as client:
            before = [revision_of((await client.create(f"before-{n}")).json()) for n in range(5)]
            watcher = Watcher(client, before[0])
            await watcher.reach(before[-1])
            watches = watcher.watches
            primary.kill()
            standby.promote()
            after = await eventually(lambda: _created(client, "after"))
            await watcher.reach(after)
            await watcher.stop()
            assert [name for _, _, name in watcher.seen] == [*(f"before-{n}" for n in range(1, 5)), "after"]
            assert watcher.watches == watches, "the watch was not begun again"
            names = [item["metadata"]["name"] for item in (await client.get(WIDGETS))["items"]]
            assert len(names) == 6


async def test_lost_revisions_are_expired_after_an_asynchronous_failover(folder: Path, migrated_node: Node) -> None:
    """Those who have seen what is lost get 410, in a watch that is open, in a new one, and for the rest of a list."""
    with cluster(migrated_node) as (primary, standby), _served((primary, standby), folder) as (url, token):
        async with _client(url, token) as client:
            kept = [revision_of((await client.create(f"kept-{n}")).json()) for n in range(3)]
            standby.reaches(primary)
            standby.leave(primary)
            lost = [revision_of((await client.create(f"lost-{n}")).json()) for n in range(30)]
            page = await client.get(f"{WIDGETS}?limit=5")
            token_of_page = page["metadata"]["continue"]
            seen: list[int] = []
            open_watch = asyncio.create_task(_until_error(url, token, kept[-1], seen))
            await eventually(lambda: _holds(seen, lost[-1]))
            primary.kill()
            standby.promote()
            code = await asyncio.wait_for(open_watch, 60)
            assert code == 410
            after = await eventually(lambda: _created(client, "after"))
            assert after > lost[-1]
            assert await _until_error(url, token, lost[10]) == 410
            rest = await client.request("GET", f"{WIDGETS}?limit=5&continue={token_of_page}")
            assert rest.status_code == 410, rest.text
            assert (await client.request("GET", f"{WIDGETS}/lost-3")).status_code == 404
            names = [item["metadata"]["name"] for item in (await client.get(WIDGETS))["items"]]
            assert names == ["after", "kept-0", "kept-1", "kept-2"]
            watcher = Watcher(client, kept[-1])
            await watcher.reach(after)
            await watcher.stop()
            assert [name for _, _, name in watcher.seen] == ["after"]


async def _created(client: ServerClient, name: str) -> int:
    """The revision of a new object; 0 where it could not be made."""
    answer = await client.create(name)
    return revision_of(answer.json()) if answer.status_code == 201 else 0


async def _holds(seen: list[int], revision: int) -> bool:
    return revision in seen


async def _until_error(url: str, token: str, revision: int, seen: list[int] | None = None) -> int:
    """The code of the ERROR event that ends a watch; the revisions of those before it are appended to `seen`."""
    headers = {"Authorization": f"Bearer {token}"}
    path = f"{url}{WIDGETS}?watch=1&resourceVersion={revision}"
    async with (
        httpx.AsyncClient(trust_env=False, timeout=60, headers=headers) as other,
        other.stream("GET", path) as answer,
    ):
        if answer.status_code != 200:
            return answer.status_code
        async for line in answer.aiter_lines():
            event = json.loads(line)
            if event["type"] == "ERROR":
                return int(event["object"]["code"])
            if seen is not None:
                seen.append(revision_of(event["object"]))
    return 0
