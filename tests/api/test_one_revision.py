"""Whatever has happened to a definition: get, list and watch say the same of one revision of an object, in every form.

Texts of events are shared by watchers, conversions and catalogs by requests, and each process has its own. A look asks in
every way in two processes, and leaves whatever is kept under too short a key for the next one. Watches that are open when
the definition changes end at once; until then they say the same, too.

`REGISTRY_TEST_REVISIONS=1000 HYPOTHESIS_PROFILE=explore` tries a thousand other sequences.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.api.changing import FIELDS, ChangingDefinition, RenamingWebhook
from tests.api.client import Client, Watch, eventually
from tests.api.observing import LAST, Json, Observer, Place, Seen, WildcardObserver
from tests.api.widgets import DEFINITIONS
from tests.application import serving
from tests.https import serving_https
from tests.remote import Remote
from tests.running import running_server
from tests.tenancy.sharing import BINDINGS, EXPORTS, binding, export, reason
from tests.tenancy.tenants import make, token_of

EXAMPLES = int(os.environ.get("REGISTRY_TEST_REVISIONS", "3"))
VALUES = ("", "x", "y")
WRITES = ("write", "write", "delete")
OPERATIONS = (*WRITES, *ChangingDefinition.CHANGES, "None", "rules", "Webhook")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(OPERATIONS),
        st.integers(0, 3),
        st.sampled_from(FIELDS),
        st.sampled_from(VALUES),
        st.booleans(),
        st.booleans(),
    ),
    min_size=6,
    max_size=16,
)
_numbers = itertools.count()


class Life:
    """A definition in the tenant `provider`, which `consumer` has bound, and watches that are open while it changes."""

    def __init__(self, here: Client, there: Client, token: str, webhook: RenamingWebhook) -> None:
        self.definition = ChangingDefinition(f"g{next(_numbers)}.example.com", webhook)
        self.places = [
            Place(server, tenant, client.of_tenant(tenant))
            for server, client in (("here", here), ("there", there))
            for tenant in ("provider", "consumer")
        ]
        self.bound = here.with_token(token).of_tenant("*")
        self.everywhere = here.of_tenant("*.shop")
        self.seen = Seen()
        self.bases: list[str] = []
        self.watches = contextlib.AsyncExitStack()
        self.open: list[tuple[Observer, Watch]] = []

    def place(self, number: int, remotely: bool = False) -> Place:
        return self.places[number % 2 + 2 * remotely]

    async def begin(self) -> None:
        provider, consumer = self.place(0).client, self.place(1).client
        await self.definition.create(provider)
        name = self.definition.group
        metadata = {"name": name}
        exported = {"definitions": [self.definition.name], "tenants": {"all": True}}
        (await provider.post(EXPORTS, {**export(), "metadata": metadata, "spec": exported})).ok(201)
        bound = {"reference": {"tenant": "provider", "export": name}}
        (await consumer.post(BINDINGS, {**binding(), "metadata": metadata, "spec": bound})).ok(201)
        await reason(consumer, "Bound", name)
        self.bases = [await self._put(self.place(number), 0, "a", {"a": "x", "one": "1"}) for number in range(2)]

    async def end(self) -> None:
        consumer, binding = self.place(1).client, f"{BINDINGS}/{self.definition.group}"
        (await consumer.delete(binding)).ok()

        async def is_gone() -> bool:
            return (await consumer.get(binding)).code == 404

        await eventually(is_gone)
        (await self.place(0).client.delete(f"{DEFINITIONS}/{self.definition.name}")).ok()
        await self._ended()

    async def write(self, number: int, at: int, field: str, value: str, remotely: bool) -> None:
        place, name = self.place(number, remotely), "ab"[at % 2]
        await self._put(place, at, name, {field: value or None, "one": value or None, "two": f"2{value}"})

    async def _put(self, place: Place, at: int, name: str, spec: Json) -> str:
        version = self.definition.served[at % len(self.definition.served)]
        path = Observer(place, self.definition, version, self.seen).path
        metadata = {"name": name, "labels": {"write": str(next(_numbers))}}
        answer = await place.client.patch(f"{path}/{name}", {"metadata": metadata, "spec": spec})
        if answer.code == 404:
            kind = {"apiVersion": f"{self.definition.group}/{version}", "kind": self.definition.spec["names"]["kind"]}
            spec = {key: value for key, value in spec.items() if value is not None}
            answer = await place.client.post(path, {**kind, "metadata": metadata, "spec": spec})
        return str(answer.ok()["metadata"]["resourceVersion"])

    async def delete(self, number: int, at: int, remotely: bool) -> None:
        place = self.place(number, remotely)
        path = Observer(place, self.definition, self.definition.served[0], self.seen).path
        assert (await place.client.delete(f"{path}/{'ab'[at % 2]}")).code in (200, 404)

    async def look(self, number: int, value: str) -> None:
        """Compares at every place and version; then watches go on from here."""
        value = value or "z"
        lasts = [await self._put(self.place(n), number, LAST, dict.fromkeys(FIELDS, value)) for n in range(2)]
        base = self.bases[number % len(self.bases)]
        self.bases = [*self.bases[-2:], lasts[0]]
        for version in self.definition.served:
            for at, place in enumerate(self.places):
                observer = Observer(place, self.definition, version, self.seen)
                await observer.look(base, lasts[at % 2], value)
            for client, tenants in ((self.bound, {"consumer"}), (self.everywhere, {"consumer", "provider"})):
                wildcard = WildcardObserver(client, self.definition, version, self.seen)
                await wildcard.look(base, lasts[1], tenants, value)
            self.seen.check_cells(version, self.definition.column(version))
        await self.read_open(lasts)
        await self._open(number, lasts)

    async def _open(self, number: int, lasts: list[str]) -> None:
        version = self.definition.served[number % len(self.definition.served)]
        for at, place in [*enumerate(self.places), (0, self.places[0])]:
            observer = Observer(place, self.definition, version, self.seen)
            watch = await self.watches.enter_async_context(observer.watch(f"&resourceVersion={lasts[at % 2]}"))
            self.open.append((observer, watch))

    async def read_open(self, lasts: list[str]) -> None:
        """Reads what the open watches have sent."""
        for observer, watch in self.open:
            last = lasts[("provider", "consumer").index(observer.place.tenant)]
            observer.note_events("open watch", await observer.events_until(watch, last))

    async def change(self, what: str, number: int, field: str, value: str, remotely: bool) -> None:
        before = self.definition.body()
        if what == "drop" and self.definition.dropped(number):
            await self._migrate()
        self.definition.change(what, number, field, value)
        if self.definition.body() == before:
            return
        await self.definition.write(self.place(0, remotely).client)
        await self._ended()
        self.seen = Seen()

    async def _ended(self) -> None:
        for observer, watch in self.open:
            observer.note_events("watch that ended", await watch.until_end())
        self.open.clear()

    async def _migrate(self) -> None:
        """Rewrites all objects at the storage version, so that another can be removed."""
        for number, name in itertools.product(range(2), ("a", "b", LAST)):
            await self._put(self.place(number), 0, name, {})
        path = f"{DEFINITIONS}/{self.definition.name}/status"
        status = {"status": {"storedVersions": [self.definition.storage]}}
        (await self.place(0).client.patch(path, status)).ok()


async def live(life: Life, steps: list[tuple[str, int, str, str, bool, bool]]) -> None:
    await life.begin()
    await life.look(0, "x")
    for what, number, field, value, remotely, looks in steps:
        if what == "write":
            await life.write(number, number // 2, field, value, remotely)
        elif what == "delete":
            await life.delete(number, number // 2, remotely)
        else:
            await life.change(what, number, field, value, remotely)
        if looks:
            await life.look(number, value)
    await life.look(1, "y")
    await life.end()


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[RenamingWebhook]:
    with serving_https(RenamingWebhook, tmp_path / "webhook") as served:
        yield served


@pytest.fixture
async def makes_lives(api_database: str, tmp_path: Path, webhook: RenamingWebhook) -> AsyncIterator[Callable[[], Life]]:
    """Makes lives in two processes with one database."""
    arguments = ("--database-url", api_database, "--plain-http", "--no-sql-views", "--allow-egress-to", "127.0.0.0/8")
    async with serving(api_database, tmp_path / "here", allow_egress_to=("127.0.0.0/8",)) as here:
        with running_server(tmp_path / "there", *arguments) as server:
            async with Remote(server) as remote:
                for name in ("provider", "consumer"):
                    await make(here.of_tenant("system"), name, domain="shop")
                token = await token_of(here, "provider", "system:masters")
                there = Client(remote, server.token)
                yield lambda: Life(here, there, token, webhook)


@pytest.mark.slow
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(steps=STEPS)
async def test_all_answers_report_the_same_revision(
    makes_lives: Callable[[], Life], steps: list[tuple[str, int, str, str, bool, bool]]
) -> None:
    life = makes_lives()
    async with life.watches:
        await live(life, steps)
