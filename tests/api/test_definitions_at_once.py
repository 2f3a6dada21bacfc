"""Definitions created concurrently: all are served, and a name requested by two is accepted for one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
import pytest

from registry.api.bound_definitions import DEFINITIONS as DEFINITIONS_RESOURCE
from registry.api.catalog import TenantCatalog
from registry.api.catalogs import Catalogs, WrittenDefinition
from registry.api.dependents import WriteEvents
from registry.api.request import CatalogStale, ResourceRequest
from registry.api.served import Served
from registry.api.strategies.definition import DefinitionStrategy
from registry.api.verbs import driver
from registry.codec.json_encode import encode_json_text
from registry.controllers import establishment, indexing
from registry.definitions.decode import decode_definition
from registry.flowcontrol.evaluation import Evaluations
from registry.store.store import Store
from registry.store.types import Guards, ObjectKey, ResourceName, Row, State, Tenant
from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, WIDGETS, define, definition, established
from tests.application import shares_application

pytestmark = shares_application
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
OTHER = definition("others", "Other", group="others.example.com")


async def test_definitions_created_together_are_established(api: Client) -> None:
    made = [definition(f"many{n}s", f"Many{n}", group="many.example.com") for n in range(12)]
    answers = await asyncio.gather(*[api.post(DEFINITIONS, one) for one in made])
    assert [a.code for a in answers] == [201] * len(made)
    await asyncio.gather(*[established(api, one["metadata"]["name"]) for one in made])
    for one in made:
        (await api.get(f"/apis/many.example.com/v1/{one['spec']['names']['plural']}")).ok(200)


async def test_steps_share_transactions_on_a_busy_event_loop(
    api: Client, api_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant that has kept the loop busy is evaluated in threads: its statuses are ready one after the other."""
    monkeypatch.setattr(Evaluations, "owes", lambda *_: True)
    made = [definition(f"busy{n}s", f"Busy{n}", group="busy.example.com") for n in range(24)]
    await asyncio.gather(*[api.post(DEFINITIONS, one) for one in made])
    await asyncio.gather(*[established(api, one["metadata"]["name"]) for one in made])
    with psycopg.connect(api_database) as connection:
        steps, transactions = connection.execute(
            "SELECT count(*), count(DISTINCT batch) FROM changes WHERE key LIKE 'busy%' AND type = 'MODIFIED'"
        ).fetchone() or (0, 0)
    assert steps == 2 * len(made)
    assert transactions < len(made)


async def test_a_definition_is_read_once_for_its_statuses(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each status makes its definition due again, and nothing is due then: that is known without reading it."""
    read: list[str] = []
    load = Store.load

    async def note_load(store: Store, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> Any:
        if resource == "customresourcedefinitions.apiextensions.k8s.io":
            read.append(key)
        return await load(store, tenant, resource, key)

    async def is_served(plural: str) -> bool:
        return (await api.get(f"/apis/once.example.com/v1/{plural}")).code == 200

    monkeypatch.setattr(Store, "load", note_load)
    made = [definition(f"once{n}s", f"Once{n}", group="once.example.com") for n in range(4)]
    for one in made:  # one after the other, so that whatever the one before made due has been looked at
        await api.post(DEFINITIONS, one)
        await eventually(partial(is_served, one["spec"]["names"]["plural"]))
    assert read == [one["metadata"]["name"] for one in made]


@pytest.fixture
def without_indexing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indexes are built after the test: their controller reads the catalog a tenth of a second after a definition was
    written, and so what has just been written of the next one, before the catalog gets it."""
    for name in ("_QUIET_SECONDS", "_MAX_DEBOUNCE_SECONDS"):
        monkeypatch.setattr(indexing, name, 60.0)


@pytest.mark.usefixtures("without_indexing")
async def test_what_this_process_has_established_is_not_read(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog gets it as it was written: the same as it would read, and only if nothing else has changed."""
    read: list[ResourceName] = []
    adopted: list[tuple[Catalogs, Tenant, Sequence[WrittenDefinition]]] = []
    changes, adopt = Store.changes, Catalogs.adopt

    def note_changes(store: Store, tenant: Tenant, resource: ResourceName, **upto: int) -> Any:
        read.append(resource)
        return changes(store, tenant, resource, **upto)

    async def note_adopted(
        catalogs: Catalogs, tenant: Tenant, before: Guards, after: Guards, written: Sequence[WrittenDefinition]
    ) -> None:
        await adopt(catalogs, tenant, before, after, written)
        adopted.append((catalogs, tenant, written))

    await define(api, OTHER)
    monkeypatch.setattr(Store, "changes", note_changes)
    monkeypatch.setattr(Catalogs, "adopt", note_adopted)
    for n in range(3):
        await api.post(DEFINITIONS, definition(f"given{n}s", f"Given{n}", group="given.example.com"))
        await eventually(partial(_has, adopted, n + 1))
        (await api.get(f"/apis/given.example.com/v1/given{n}s")).ok(200)
    assert DEFINITIONS_RESOURCE not in read
    catalogs, tenant, written = adopted[-1]
    known = catalogs.recall(tenant)
    assert known is not None
    stored = await catalogs._entries([one.row for one in written])
    # By their texts, in which equal schemas are the same: versions are not compared by value.
    assert repr([known.entries[key] for key in stored]) == repr([*stored.values()])
    now = known.guards.definitions
    for before, after in ((now + 1, now + 2), (0, now)):
        await catalogs.adopt(tenant, Guards(before, 0), Guards(after, 0), written)
        assert catalogs.recall(tenant) is known


@pytest.mark.usefixtures("without_indexing")
async def test_a_create_that_finds_a_status_waits_until_the_process_knows_it(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The status is in the database a moment before its write is answered: nothing is read for it."""
    read: list[ResourceName] = []
    committed, found, known = asyncio.Event(), asyncio.Event(), asyncio.Event()
    changes, commit, state = Store.changes, establishment._commit, Store.state

    def note_changes(store: Store, tenant: Tenant, resource: ResourceName, **upto: int) -> Any:
        read.append(resource)
        return changes(store, tenant, resource, **upto)

    async def commit_late(*write: Any) -> Any:
        outcome = await commit(*write)
        committed.set()
        await known.wait()
        return outcome

    async def note_state(store: Store, tenant: Tenant) -> State:
        current = await state(store, tenant)
        if committed.is_set():
            found.set()
        return current

    await define(api, OTHER)
    monkeypatch.setattr(Store, "changes", note_changes)
    monkeypatch.setattr(Store, "state", note_state)
    monkeypatch.setattr(establishment, "_commit", commit_late)
    await api.post(DEFINITIONS, definition("firsts", "First", group="late.example.com"))
    await committed.wait()
    second = asyncio.create_task(api.post(DEFINITIONS, definition("seconds", "Second", group="late.example.com")))
    await found.wait()
    known.set()
    assert (await second).code == 201
    assert DEFINITIONS_RESOURCE not in read


async def _has(things: Sequence[Any], count: int) -> bool:
    return len(things) >= count


@pytest.mark.usefixtures("without_indexing")
async def test_a_request_is_evaluated_again_only_if_its_own_definition_has_changed(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not because another has been established."""
    stale: list[str] = []
    catalogs: list[TenantCatalog] = []
    for_resource, check_fresh = Catalogs.for_resource, ResourceRequest.check_fresh

    async def first_catalog(of: Catalogs, tenant: Tenant, group: str, plural: str) -> TenantCatalog:
        catalogs.append(await for_resource(of, tenant, group, plural))
        return catalogs[0]

    def note_stale(request: ResourceRequest, state: State) -> None:
        try:
            check_fresh(request, state)
        except CatalogStale:
            # A read of the definition itself may find a status before the process knows that it has written it.
            if request.served.resource_name != DEFINITIONS_RESOURCE:
                stale.append(request.served.resource.name)
            raise

    adopted: list[Tenant] = []
    reloaded: list[Tenant] = []
    adopt, reload = Catalogs.adopt, Catalogs._reload

    async def note_adopted(of: Catalogs, tenant: Tenant, *written: Any) -> None:
        await adopt(of, tenant, *written)
        adopted.append(tenant)

    async def note_reloaded(of: Catalogs, tenant: Tenant, guards: Guards | None) -> TenantCatalog:
        known = of.recall(tenant)
        catalog = await reload(of, tenant, guards)
        if catalog is not known:
            reloaded.append(tenant)
        return catalog

    monkeypatch.setattr(Catalogs, "adopt", note_adopted)
    monkeypatch.setattr(Catalogs, "_reload", note_reloaded)
    monkeypatch.setattr(Catalogs, "for_resource", first_catalog)
    monkeypatch.setattr(ResourceRequest, "check_fresh", note_stale)
    await define(api, definition("calms", "Calm", group="calm.example.com"))
    path = "/apis/calm.example.com/v1/namespaces/default/calms"
    for number in range(10):
        await eventually(partial(_has, adopted, number + 1))  # it replaces the catalog
        for noted in (catalogs, stale, reloaded):
            noted.clear()
        (await api.get(path)).ok()  # its catalog is held on to from here on
        others = f"other{number}s"
        await define(api, definition(others, f"Other{number}", group="calm.example.com"))
        (await api.get(path)).ok()
        (await api.get(f"/apis/calm.example.com/v1/{others}")).ok()
        calm = {"apiVersion": "calm.example.com/v1", "kind": "Calm", "metadata": {"name": f"a{number}"}}
        (await api.post(path, calm)).ok(201)
        (await api.get(f"{path}/a{number}")).ok()
        # The process notes in its present catalog what it has established. A busy one may have loaded another meanwhile.
        if not stale or not reloaded:
            break
    assert stale == []
    names = {"plural": "calms", "kind": "Calm", "shortNames": ["ca"]}
    (await api.patch(f"{DEFINITIONS}/calms.calm.example.com", {"spec": {"names": names}})).ok()
    (await api.get(path)).ok()
    assert "calms" in stale


async def test_a_request_that_definitions_overtake_may_be_sent_again(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant whose script writes policies for half a minute has not found a fault of the server."""

    def change(_: ResourceRequest, state: State) -> None:
        raise CatalogStale(state.guards)

    monkeypatch.setattr(driver, "DEFINITIONS_SECONDS", 0.0)
    monkeypatch.setattr(ResourceRequest, "check_fresh", change)
    answer = await api.get(WIDGETS)
    assert (answer.code, answer.json["reason"]) == (503, "ServiceUnavailable")
    assert answer.header("retry-after") == "1"


RULE = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["nothing"], "operations": ["CREATE"]}
POLICY = {
    "metadata": {"name": "any"},
    "spec": {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [RULE]}},
}


@pytest.mark.parametrize(
    ("path", "other", "times"), [(DEFINITIONS, OTHER, 1), (POLICIES, POLICY, 2)], ids=["crd", "policy"]
)
async def test_a_definition_is_decoded_again_only_if_policies_have_changed(
    api: Client, monkeypatch: pytest.MonkeyPatch, path: str, other: dict[str, Any], times: int
) -> None:
    """Each definition that is established meanwhile moves the guards of the tenant, but is none of its business."""
    decoded: list[str] = []
    catalogs: list[TenantCatalog] = []
    for_resource = Catalogs.for_resource

    def note_decode(obj: Any) -> Any:
        decoded.append(obj["metadata"]["name"])
        return decode_definition(obj)

    async def first_catalog(of: Catalogs, tenant: Tenant, group: str, plural: str) -> TenantCatalog:
        catalogs.append(await for_resource(of, tenant, group, plural))
        return catalogs[0]

    monkeypatch.setattr(DefinitionStrategy, "_decode_struct", staticmethod(note_decode))
    monkeypatch.setattr(Catalogs, "for_resource", first_catalog)
    (await api.get(DEFINITIONS)).ok()
    (await api.post(path, other)).ok(201)
    if path == DEFINITIONS:
        await established(api, other["metadata"]["name"])
    (await api.post(DEFINITIONS, definition("owns", "Own", group="own.example.com"))).ok(201)
    assert decoded.count("owns.own.example.com") == times


async def test_a_definition_is_decoded_once_for_its_statuses(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    object_of = Served.object

    def note_object(served: Served, row: Row) -> Any:
        if row.resource == DEFINITIONS_RESOURCE:  # a policy of the test before may still be reconciled
            decoded.append(row.key)
        return object_of(served, row)

    monkeypatch.setattr(Served, "object", note_object)
    one = definition("singles", "Single", group="single.example.com")
    await define(api, one)
    assert decoded == [one["metadata"]["name"]]


async def test_a_status_write_leaves_the_canonical_spec(api: Client) -> None:
    """The stored spec is taken over as it is, also when a client sends another one with a status."""
    one = definition("kept", "Kept", group="kept.example.com")
    one["spec"]["conversion"] = {"strategy": "None"}
    await define(api, one)
    stored = (await api.get(f"{DEFINITIONS}/kept.kept.example.com")).ok()
    sent = {**stored, "spec": {**stored["spec"], "preserveUnknownFields": False, "scope": "Cluster"}}
    sent["status"] = {**stored["status"], "storedVersions": ["v1"]}
    answer = (await api.put(f"{DEFINITIONS}/kept.kept.example.com/status", sent)).ok()
    assert [*answer] == [*stored]
    assert encode_json_text(answer["spec"]) == encode_json_text(stored["spec"])
    owned = [e["fieldsV1"] for e in stored["metadata"]["managedFields"] if e.get("subresource") == "status"]
    assert [[*fields] for fields in owned] == [["f:status"]]


async def test_only_one_of_several_definitions_gets_a_kind(api: Client) -> None:
    made = [definition(f"rival{n}s", "Rival", group="rivals.example.com") for n in range(6)]
    await asyncio.gather(*[api.post(DEFINITIONS, one) for one in made])

    async def look() -> list[str] | None:
        found = [await accepted(api, one["metadata"]["name"]) for one in made]
        return found if "" not in found else None

    statuses: list[str] = await eventually(look)
    assert sorted(statuses) == ["False"] * 5 + ["True"]


async def test_a_watcher_sees_each_step_of_each_definition(api: Client) -> None:
    made = [definition(f"step{n}s", f"Step{n}", group="steps.example.com") for n in range(6)]
    start = (await api.get(DEFINITIONS)).ok()["metadata"]["resourceVersion"]
    async with api.watch(f"{DEFINITIONS}?watch=1&resourceVersion={start}") as watch:
        await asyncio.gather(*[api.post(DEFINITIONS, one) for one in made])
        steps: dict[str, list[Any]] = {one["metadata"]["name"]: [] for one in made}
        revisions: list[int] = []
        for event in await watch.events(3 * len(made)):
            obj = event["object"]
            conditions = {c["type"]: c["status"] for c in obj["status"].get("conditions") or []}
            steps[obj["metadata"]["name"]].append((event["type"], conditions))
            revisions.append(int(obj["metadata"]["resourceVersion"]))
    assert revisions == sorted(set(revisions))
    for seen in steps.values():
        assert seen == [
            ("ADDED", {}),
            ("MODIFIED", {"NamesAccepted": "True", "Established": "False"}),
            ("MODIFIED", {"NamesAccepted": "True", "Established": "True"}),
        ]


async def test_a_released_name_is_accepted_for_the_next_definition(api: Client) -> None:
    made = [definition(f"heir{n}s", "Heir", group="heirs.example.com") for n in range(3)]
    await asyncio.gather(*[api.post(DEFINITIONS, one) for one in made])
    for left in range(len(made), 0, -1):

        async def holder() -> str:
            found = [o["metadata"]["name"] for o in (await api.get(DEFINITIONS)).ok()["items"] if is_established(o)]
            return next((name for name in found if name.endswith("heirs.example.com")), "")

        (await api.delete(f"{DEFINITIONS}/{await eventually(holder)}")).ok()

        async def gone(count: int = left - 1) -> bool:
            items = (await api.get(DEFINITIONS)).ok()["items"]
            return len([o for o in items if o["spec"]["group"] == "heirs.example.com"]) == count

        await eventually(gone)


async def test_a_definition_is_due_again_only_when_a_name_is_released(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    due: list[str] = []
    enqueue = WriteEvents.enqueue

    def note(events: WriteEvents, tenant: Tenant, resource: ResourceName, key: ObjectKey) -> None:
        due.append(key)
        enqueue(events, tenant, resource, key)

    await define(api, definition("holders", "Wanted", group="wanted.example.com"))
    waiting = "waiters.wanted.example.com"
    await api.post(DEFINITIONS, definition("waiters", "Wanted", group="wanted.example.com"))
    await eventually(lambda: accepted(api, waiting))
    monkeypatch.setattr(WriteEvents, "enqueue", note)
    for n in range(3):  # when one is established, the controller has finished with the one before
        await define(api, definition(f"new{n}s", f"New{n}", group="wanted.example.com"))
    assert "new0s.wanted.example.com" in due
    assert waiting not in due
    (await api.delete(f"{DEFINITIONS}/holders.wanted.example.com")).ok()
    await established(api, waiting)


def is_established(obj: dict[str, Any]) -> bool:
    conditions = obj["status"].get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


async def accepted(api: Client, name: str) -> str:
    """The status of NamesAccepted, empty before names are accepted or refused."""
    found: dict[str, Any] = (await api.get(f"{DEFINITIONS}/{name}")).ok()
    return next((c["status"] for c in found["status"].get("conditions") or [] if c["type"] == "NamesAccepted"), "")
