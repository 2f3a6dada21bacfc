"""Follow-up work of a process that died after a commit is done by another process."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from registry.api.dependents import DeletedObject
from registry.api.options import DeleteOptions, WriteOptions
from registry.api.request import QUOTAS, ResourceRequest
from registry.api.verbs.create import create_object
from registry.authorization.rbac.stored import CLUSTER_ROLES
from registry.codec.stored import decode_stored
from registry.controllers.controller_client import ControllerClient
from registry.controllers.garbage import collector
from registry.controllers.garbage.absent_owner_cache import AbsentOwnerCache
from registry.controllers.garbage.deletion import Garbage
from registry.controllers.garbage.references import served_by_name
from registry.controllers.work import Work
from registry.flowcontrol import time_slice
from registry.store.types import DomainId, ObjectKey, TenantName, Uid
from registry.tasks import running
from tests.api.client import eventually
from tests.controllers.processes import WIDGETS, born, key, manager_of, names, process, widgets

COUNT = f"count/{WIDGETS}"


@pytest.fixture
async def dying(api_database: str) -> AsyncIterator[ControllerClient]:
    """It has said that it lives, for a moment, and handles nothing of what it commits."""
    async with process(api_database) as client:
        await client.backend.store.heartbeats(seconds=0.05).renew(0.0)
        yield client


@pytest.fixture
async def next_one(api_database: str) -> AsyncIterator[ControllerClient]:
    async with process(api_database) as client:
        yield client


async def _left(client: ControllerClient, expected: set[str]) -> None:
    async def so() -> bool:
        return await names(client) == expected

    await eventually(so)


async def test_dependents_of_objects_deleted_by_a_crashed_process(
    dying: ControllerClient, next_one: ControllerClient
) -> None:
    root = await born(dying, "root")
    child = await born(dying, "child", root)
    await born(dying, "grandchild", child)
    await dying.delete(await widgets(dying), key("root"), DeleteOptions())
    assert await names(next_one) == {"child", "grandchild"}
    async with manager_of(next_one):
        await _left(next_one, set())

        async def is_recovered() -> bool:
            return await next_one.backend.store.heartbeats().dead() == []

        await eventually(is_recovered)


async def test_objects_with_absent_owners_created_by_a_crashed_process(
    dying: ControllerClient, next_one: ControllerClient
) -> None:
    nobody = {"metadata": {"name": "nobody", "uid": "00000000-0000-4000-8000-000000000001"}}
    await born(dying, "child", nobody)
    async with manager_of(next_one):
        await _left(next_one, set())


async def _born_in(client: ControllerClient, name: str) -> None:
    """Creates a role whose owner does not exist."""
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000001"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    metadata = {"name": name, "ownerReferences": [owner]}
    await client.create("rbac.authorization.k8s.io", "v1", "clusterroles", "", {**role, "metadata": metadata})


def _hang(monkeypatch: pytest.MonkeyPatch, is_hostile: Callable[[Work], bool]) -> None:
    reconcile = Garbage.reconcile

    async def hang(garbage: Garbage, work: Work, **more: Any) -> None:
        if is_hostile(work):
            await asyncio.Event().wait()
        await reconcile(garbage, work, **more)

    monkeypatch.setattr(Garbage, "reconcile", hang)


async def test_recovery_does_not_wait_for_tenants_without_room(
    dying: ControllerClient, next_one: ControllerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is read by domains, and those of the tenants whose work hangs, more than are read side by side, come
    first. A process that crashed later is recovered, too."""
    _hang(monkeypatch, lambda work: work.tenant.name.startswith("bad"))
    monkeypatch.setattr(collector, "_TURN_SECONDS", 0.3)
    store = dying.backend.store
    hanging: set[DomainId] = set()
    for number in range(5):
        bad = ControllerClient(dying.backend, await store.create_tenant(TenantName(f"bad{number}")))
        hanging.add(bad.tenant.domain)
        for role in range(30):
            await _born_in(bad, f"r{role}")
    other = ControllerClient(dying.backend, await store.create_tenant(TenantName("other")))
    await _born_in(other, "r")
    manager = manager_of(next_one)
    manager._collector._queue._limit = 60

    async def is_collected() -> bool:
        row, _ = await store.load(other.tenant, CLUSTER_ROLES, ObjectKey("r"))
        return row is None

    async def is_recovered() -> bool:
        return await store.heartbeats().dead() == []

    async with manager:
        await eventually(is_collected)
        await eventually(is_recovered)
        await _born_in(other, "r")
        await store.heartbeats(seconds=0.05).renew(1.0)
        await eventually(is_collected)
        # Were this process to crash, another would go on.
        assert manager._collector.oldest_pending().keys() >= hanging


async def test_work_that_fails_for_long_keeps_the_heartbeat_of_its_tenant_only(
    dying: ControllerClient, next_one: ControllerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart read the log of all tenants from the first failure on."""
    _hang(monkeypatch, lambda work: work.tenant.id == dying.tenant.id)
    monkeypatch.setattr(collector, "_LATE_SECONDS", 0.5)
    store = next_one.backend.store
    other = ControllerClient(next_one.backend, await store.create_tenant(TenantName("other")))
    heartbeats = dying.backend.store.heartbeats(seconds=0)
    before = await heartbeats.dead()
    async with manager_of(next_one) as manager:
        await born(next_one, "child", {"metadata": {"name": "nobody", "uid": "00000000-0000-4000-8000-000000000001"}})
        begun = datetime.datetime.now(datetime.UTC)
        await asyncio.sleep(1.5)  # ages are in seconds
        await _born_in(other, "r")
        manager._collector._heartbeats = store.heartbeats(seconds=0)
        await manager._collector._renew()
        [found] = [one for one in await heartbeats.dead() if one not in before]
        assert found.since is not None
        assert found.since > begun + datetime.timedelta(seconds=1)
        assert list(found.late) == [next_one.tenant.domain]
        assert found.late[next_one.tenant.domain] < begun


async def test_heartbeats_of_domains(api_database: str, dying: ControllerClient, next_one: ControllerClient) -> None:
    """They end with the work, or with that of the process; a server of an earlier release knows none of them."""
    domain, heartbeats = dying.tenant.domain, dying.backend.store.heartbeats(seconds=0)

    async def late() -> list[tuple[bool, list[DomainId]]]:
        return [(one.since is None, list(one.late)) for one in await next_one.backend.store.heartbeats().dead()]

    await heartbeats.renew(1.0, {domain: 100.0, DomainId(domain + 1): 200.0})
    assert await late() == [(False, [domain, domain + 1])]
    await heartbeats.renew(1.0, {domain: 100.0})
    assert await late() == [(False, [domain])]
    async with await psycopg.AsyncConnection.connect(api_database, autocommit=True) as connection:
        await connection.execute("DELETE FROM leaders WHERE name LIKE 'duties/%' OR name LIKE 'session/%'")
    assert await late() == [(True, [domain])]
    [found] = await heartbeats.dead()
    await heartbeats.forget(found)
    assert await late() == []
    await heartbeats.renew(1.0, {domain: 100.0})
    await heartbeats.end()
    assert await late() == []


def _never(work: Work) -> None:
    raise AssertionError(f"{work} needs nothing")


async def test_an_object_for_which_nothing_is_due_needs_no_definitions(
    dying: ControllerClient, next_one: ControllerClient
) -> None:
    """The sweep finds definitions that are being established, whose catalog changes with each of them."""
    await born(dying, "object")
    garbage = Garbage(next_one, AbsentOwnerCache(), _never, _never)
    await garbage.reconcile(Work(next_one.tenant, WIDGETS, key("object")))
    await garbage.reconcile(Work(next_one.tenant, WIDGETS, key("none")))
    assert next_one.backend.catalogs.recall(next_one.tenant) is None


async def test_deleted_objects_of_many_owners_that_wait_are_bounded(
    next_one: ControllerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects were counted, and not their owners: each may refer to 20,000."""
    monkeypatch.setattr(collector, "GONE_LIMIT", 1_000)
    waiting = collector.Collector(next_one.backend)
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": f"u{i}"} for i in range(400)]
    deleted = [DeletedObject("", "ConfigMap", "default", name, Uid(name), owners) for name in "ab"]
    waiting.notify_gone(next_one.tenant, deleted[0])
    dropped = [dict(waiting._unread)]
    waiting.notify_gone(next_one.tenant, deleted[1])
    dropped.append(waiting._unread)
    assert [list(unread) for unread in dropped] == [[], [next_one.tenant.domain]]  # it is found in the change log
    assert waiting._gone[next_one.tenant.id] == deleted[:1]


async def test_others_run_while_unfinished_work_is_enqueued(
    api_database: str, next_one: ControllerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand objects held the event loop for a tenth of a second."""
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    for number in range(20):
        await born(next_one, f"w{number}")
    async with await psycopg.AsyncConnection.connect(api_database, autocommit=True) as connection:
        await connection.execute("UPDATE objects SET pending = true WHERE resource = %s", [WIDGETS])
    manager = manager_of(next_one)
    steps: list[int] = []
    enqueue = manager._collector.enqueue_swept

    def record(*work: Any) -> None:
        steps.append(turns)
        enqueue(*work)

    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(manager._collector, "enqueue_swept", record)
    async with running(turn(), "another"):
        await manager._enqueue_pending()
    assert len(steps) == len(set(steps)) >= 20


@pytest.mark.parametrize("policy, left", [("Foreground", set()), ("Orphan", {"child"})])
async def test_owners_marked_by_a_crashed_process(
    dying: ControllerClient, next_one: ControllerClient, policy: str, left: set[str]
) -> None:
    root = await born(dying, "root")
    await born(dying, "child", root)
    await dying.delete(await widgets(dying), key("root"), DeleteOptions(propagation_policy=policy))
    assert await names(next_one) == {"root", "child"}
    async with manager_of(next_one):
        await _left(next_one, left)


async def test_an_owner_waiting_for_a_child_released_by_another_process(
    dying: ControllerClient, next_one: ControllerClient
) -> None:
    """Its own process has died, and who frees the child does not know of the owner until it looks."""
    root = await born(dying, "root")
    await born(dying, "child", root, finalizers=["example.com/hold"])
    await dying.delete(await widgets(dying), key("root"), DeleteOptions(propagation_policy="Foreground"))
    async with manager_of(next_one):

        async def child_is_marked() -> bool:
            row, _ = await next_one.backend.store.load(
                next_one.tenant, (await widgets(dying)).resource_name, key("child")
            )
            return row is not None and '"deletionTimestamp"' in row.body

        await eventually(child_is_marked)
        await next_one.change(
            "test.example.com",
            "widgets",
            key("child"),
            lambda old: {**old, "metadata": {**old["metadata"], "finalizers": []}},
        )
        await _left(next_one, set())


async def test_a_graceful_stop_leaves_no_work(api_database: str, next_one: ControllerClient) -> None:
    async with manager_of(next_one) as manager:
        root = await born(next_one, "root")
        await born(next_one, "child", root)
        await next_one.delete(await widgets(next_one), key("root"), DeleteOptions())
        await _left(next_one, set())

        async def idle() -> bool:
            return manager.is_idle

        await eventually(idle)
    with psycopg.connect(api_database) as connection:
        assert connection.execute("SELECT name FROM leaders WHERE name LIKE 'duties/%'").fetchall() == []


async def test_a_stop_with_pending_work_leaves_it_to_the_next_process(
    api_database: str, next_one: ControllerClient
) -> None:
    async with process(api_database) as first:
        async with manager_of(first):
            root = await born(first, "root")
            await born(first, "child", root)
            await first.delete(await widgets(first), key("root"), DeleteOptions())
            # It ends before anything could follow: nothing has been awaited since the commit.
        if "child" in await names(next_one):
            assert await next_one.backend.store.heartbeats().dead()
    async with manager_of(next_one):
        await _left(next_one, set())


async def test_two_concurrent_managers_reconcile_once(dying: ControllerClient, next_one: ControllerClient) -> None:
    roots = [await born(dying, f"root-{i}") for i in range(5)]
    for i, root in enumerate(roots):
        await asyncio.gather(*(born(dying, f"child-{i}-{j}", root) for j in range(4)))
    served = await widgets(dying)
    async with manager_of(dying), manager_of(next_one):
        deleting = (dying if i % 2 else next_one for i in range(5))
        await asyncio.gather(*(one.delete(served, key(f"root-{i}"), DeleteOptions()) for i, one in enumerate(deleting)))
        await _left(next_one, set())
        store = next_one.backend.store
        upto = (await store.state(next_one.tenant)).revision
        deleted = [
            c.key
            async for part in store.changes(next_one.tenant, served.resource_name, after=0, upto=upto)
            for c in part
            if c.type == "DELETED"
        ]
        assert len(deleted) == len(set(deleted)) == 25


async def test_a_live_process_keeps_its_work(dying: ControllerClient, next_one: ControllerClient) -> None:
    """Only those that have not renewed them in time are taken for dead."""
    await dying.backend.store.heartbeats(seconds=600).renew(0.0)
    assert await next_one.backend.store.heartbeats().dead() == []
    await born(dying, "child", {"metadata": {"name": "owner", "uid": "00000000-0000-4000-8000-000000000001"}})
    await dying.backend.store.heartbeats(seconds=0).renew(5.0)
    [found] = await next_one.backend.store.heartbeats().dead()
    since = found.since
    assert found.name == dying.backend.store.process
    assert since is not None
    another = found._replace(since=since - datetime.timedelta(seconds=1))
    await next_one.backend.store.heartbeats().forget(another)
    assert await next_one.backend.store.heartbeats().dead(), "it has said something else meanwhile"
    await next_one.backend.store.heartbeats().forget(found)
    assert await next_one.backend.store.heartbeats().dead() == []
    pages = [page async for page, _ in next_one.backend.store.heartbeats().missed_changes(since, dying.tenant.domain)]
    # The namespaces of the template, too, when it is not older than what is looked at.
    changed = {(o.resource, o.last_body is None) for page in pages for o in page}
    assert changed - {("namespaces", True)} == {((await widgets(dying)).resource_name, True)}


async def test_a_killed_process_is_detected_by_its_session(api_database: str, next_one: ControllerClient) -> None:
    """Its connections end with it: nobody waits until its time is over."""
    async with process(api_database) as killed:
        await killed.backend.store.heartbeats(seconds=600).renew(0.0)
        assert await next_one.backend.store.heartbeats().dead() == []

    async def is_dead() -> bool:
        return [one.name for one in await next_one.backend.store.heartbeats().dead()] == [killed.backend.store.process]

    await eventually(is_dead)


async def test_usage_left_wrong_by_a_crashed_process_is_recounted(
    dying: ControllerClient, next_one: ControllerClient, api_database: str
) -> None:
    """It deletes what it had counted, and tells nobody."""

    async def used() -> str:
        row, _ = await next_one.backend.store.load(next_one.tenant, QUOTAS, key("q"))
        assert row is not None
        status = decode_stored('{"metadata":{' + row.body).get("status") or {}
        return str((status.get("used") or {}).get(COUNT, ""))

    async def becomes(wanted: str) -> None:
        async def so() -> bool:
            return await used() == wanted

        await eventually(so)

    catalog = await dying.catalog()
    served = served_by_name(catalog, QUOTAS)
    assert served is not None
    request = ResourceRequest(dying.backend, dying.context(), catalog, served, "default", "", "", {})
    wanted = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {COUNT: "5"}}}
    await create_object(request, wanted, WriteOptions(), "tests", "create")
    async with manager_of(next_one):
        await becomes("0")
    await born(dying, "a")
    assert await used() == "1"
    await dying.delete(await widgets(dying), key("a"), DeleteOptions())
    assert await used() == "1"
    async with manager_of(next_one):
        await becomes("0")
        # And again without a reason, in its time: as if by a hand in the database.
        with psycopg.connect(api_database) as connection:
            right, wrong = f'"used":{{"{COUNT}":"0"}}', f'"used":{{"{COUNT}":"4"}}'
            changed = connection.execute(
                "UPDATE objects SET body = replace(body, %s, %s) WHERE resource ="
                " 'resourcequotas' AND strpos(body, %s) > 0",
                [right, wrong, right],
            )
            assert changed.rowcount == 1
        await becomes("0")
