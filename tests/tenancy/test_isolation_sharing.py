"""Two tenants that have bound what a third exports: each sees its own, the third what is bound of it, and nothing else.

As in test_isolation.py each writes a word of its own into all that it stores, and a model foretells every answer. What
a tenant has beside the shared definition holds a second word, which is never to be seen from outside at all: its
secrets, the objects of its other definitions, its other namespaces.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.api.client import PARTIAL_LIST, TABLE, Answer, Client
from tests.api.errors import failure
from tests.api.widgets import ALL_WIDGETS, DEFINITIONS, GROUP, NAMESPACES, WIDGETS, define, definition
from tests.tenancy.sharing import BINDINGS, EXPORTS, bind, export
from tests.tenancy.sides import CHANGES, LOOKS, NAMES, Side, colored
from tests.tenancy.tenants import make, token_of

GADGETS = f"/apis/{GROUP}/v1/namespaces/default/gadgets"
SECRETS = "/api/v1/namespaces/default/secrets"
TENANTS = ("provider", "one", "two")
SEEN = ("vermilion", "turquoise", "ochre")
HIDDEN = ("cinnabar", "cerulean", "umber")
# What a tenant has of its own beside what is shared.
BESIDE = ("gadget", "secret", "place", "upgrade", "beside", "trespass", "bindings")
# How the provider looks at all who have bound.
ACROSS = ("list", "selected", "fields", "table", "names", "pages", "past", "stolen", "others", "writes", "found")
STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(CHANGES + LOOKS + BESIDE), st.sampled_from(NAMES))
    | st.tuples(st.just(3), st.sampled_from(ACROSS), st.sampled_from(NAMES)),
    min_size=8,
    max_size=36,
)
_numbers = itertools.count()


class Member(Side):
    """One of the three, in its own tenant, with the rights of its administrator and no others."""

    def __init__(self, client: Client, number: int) -> None:
        foreign = [word for words in (SEEN, HIDDEN) for at, word in enumerate(words) if at != number]
        super().__init__(client, SEEN[number], *foreign)
        self.tenant, self.hidden = TENANTS[number], HIDDEN[number]

    async def beside(self, what: str, name: str) -> None:
        metadata = {"name": f"{name}-{next(_numbers)}", "labels": {"both": "yes"}}
        match what:
            case "gadget":
                body = {
                    "apiVersion": f"{GROUP}/v1",
                    "kind": "Gadget",
                    "metadata": metadata,
                    "spec": {"color": self.hidden},
                }
                (await self.ask("POST", GADGETS, body)).ok(201)
            case "secret":
                body = {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "stringData": {"a": "b"},
                    "metadata": {**metadata, "annotations": {"word": self.hidden}},
                }
                (await self.ask("POST", SECRETS, body)).ok(201)
            case "place":
                body = {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {**metadata, "annotations": {"word": self.hidden}},
                }
                (await self.ask("POST", NAMESPACES, body)).ok(201)
            case "upgrade":
                # Only the provider has the definition: to the others it is not there.
                path = f"{DEFINITIONS}/widgets.{GROUP}"
                answer = await self.ask(
                    "PATCH",
                    path,
                    {"metadata": {"annotations": {"n": str(next(_numbers))}}},
                    content_type="application/merge-patch+json",
                )
                assert answer.code == (200 if self.tenant == "provider" else 404), answer.text
            case "beside":
                for path in (GADGETS, SECRETS, NAMESPACES, DEFINITIONS):
                    (await self.ask("GET", path)).ok()
            case "bindings":
                found = (await self.ask("GET", BINDINGS)).ok()["items"]
                assert len(found) == (0 if self.tenant == "provider" else 1)
                (await self.ask("GET", EXPORTS)).ok()
            case _:
                for other in TENANTS:
                    if other != self.tenant:
                        elsewhere = self.client.of_tenant(other)
                        for path in (WIDGETS, f"{WIDGETS}/{name}", SECRETS, f"/apis/{GROUP}"):
                            await self._refused(elsewhere, "GET", path)
                        await self._refused(elsewhere, "DELETE", f"{WIDGETS}/{name}")
                if self.tenant != "provider":
                    for which in ("*", "*.shop", "*.nowhere"):
                        await self._refused(self.client.of_tenant(which), "GET", ALL_WIDGETS)

    async def _refused(self, client: Client, method: str, path: str) -> None:
        answer = await client.request(method, path)
        self.check(answer.text)
        failure(answer, 403, "Forbidden")


class Overview:
    """The provider at `/clusters/*`: the objects of both that have bound, and nothing but these."""

    def __init__(self, client: Client, provider: Member, bound: list[Member]) -> None:
        self.client, self.provider, self.bound = client, provider, bound
        self.token = self.revision = ""
        self.start = "0"

    async def ask(self, method: str, path: str, **more: Any) -> Answer:
        answer = await self.client.request(method, path, **more)
        assert answer.code < 500, answer.text
        self.check(answer.text)
        return answer

    def check(self, text: str) -> None:
        assert not any(word in text for word in (self.provider.word, *HIDDEN)), text
        assert not any(uid in text for uid in self.provider.uids), text

    def wanted(self, name: str = "") -> list[tuple[str, str, int]]:
        return [
            (side.tenant, key, side.model[key])
            for side in self.bound
            for key in sorted(side.model)
            if name in ("", key)
        ]

    async def look(self, what: str, name: str) -> None:
        match what:
            case "list" | "selected" | "fields":
                query = {
                    "selected": "?labelSelector=both%3Dyes",
                    "fields": f"?fieldSelector=metadata.name%3D{name}",
                }.get(what, "")
                found = (await self.ask("GET", ALL_WIDGETS + query)).ok()
                assert objects_of(found) == self.wanted(name if what == "fields" else "")
                self.revision = found["metadata"]["resourceVersion"]
            case "table" | "names":
                found = (await self.ask("GET", ALL_WIDGETS, accept=TABLE if what == "table" else PARTIAL_LIST)).ok()
                assert len(found["rows" if what == "table" else "items"] or ()) == len(self.wanted())
            case "pages":
                items, token = list[Any](), ""
                while True:
                    found = (await self.ask("GET", f"{ALL_WIDGETS}?limit=2&continue={token}")).ok()
                    items += objects_of(found)
                    token = found["metadata"].get("continue", "")
                    self.token = token or self.token
                    if not token:
                        break
                assert items == self.wanted()
            case "past":
                if self.revision:
                    query = f"?resourceVersion={self.revision}&resourceVersionMatch=Exact"
                    assert (await self.ask("GET", ALL_WIDGETS + query)).code in (200, 410)
            case "stolen":
                await self._stolen()
            case "others":
                for path in (GADGETS, SECRETS, NAMESPACES, DEFINITIONS, BINDINGS, EXPORTS, f"{WIDGETS}?deleted=true"):
                    answer = await self.ask("GET", path)
                    assert answer.code in (403, 404, 405), answer.text
            case "writes":
                for method, path in (
                    ("DELETE", ALL_WIDGETS),
                    ("DELETE", f"{WIDGETS}/{name}"),
                    ("POST", WIDGETS),
                    ("GET", f"{WIDGETS}/{name}"),
                    ("GET", f"{WIDGETS}/{name}/history"),
                ):
                    body = self.provider.body(name, 1) if method == "POST" else None
                    failure(await self.ask(method, path, body=body), 405, "MethodNotAllowed")
            case _:
                await self.ask("GET", f"/apis/{GROUP}")
                await self.ask("GET", f"/apis/{GROUP}/v1")

    async def _stolen(self) -> None:
        """A continue token gives what its bearer may see, to any bearer."""
        for token in filter(None, (side.token for side in (self.provider, *self.bound))):
            answer = await self.client.request("GET", f"{ALL_WIDGETS}?limit=5&continue={token}")
            self.check(answer.text)
            assert answer.code in (200, 400, 410, 504), answer.text
        if self.token:
            for side in (self.provider, *self.bound):
                answer = await side.answer("GET", f"{WIDGETS}?limit=5&continue={self.token}")
                assert answer.code in (200, 400, 410, 504), answer.text

    async def watched(self) -> None:
        """Every event of both, none of the provider's own."""
        wanted = sorted((side.tenant, *event) for side in self.bound for event in side.events)
        async with self.client.watch(f"{ALL_WIDGETS}?watch=1&resourceVersion={self.start}") as watch:
            found = await watch.events(len(wanted))
        self.check(str(found))
        assert sorted((tenant_of(e["object"]), e["type"], e["object"]["metadata"]["name"]) for e in found) == wanted

    async def begin(self) -> None:
        self.start = (await self.ask("GET", ALL_WIDGETS)).ok()["metadata"]["resourceVersion"]


def tenant_of(obj: dict[str, Any]) -> str:
    return str(obj["metadata"]["annotations"]["tenancy.registry/tenant"])


def objects_of(found: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(tenant_of(item), item["metadata"]["name"], item["spec"]["size"]) for item in found["items"]]


def gadgets(word: str) -> dict[str, Any]:
    """A definition of the same name in all three, shared with nobody."""
    return definition(
        "gadgets",
        "Gadget",
        schema={
            "type": "object",
            "description": word,
            "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}}}},
        },
    )


@pytest.fixture
async def trio(api: Client) -> tuple[list[Member], Overview]:
    members = []
    for number, name in enumerate(TENANTS):
        theirs = await make(api.of_tenant("system"), name, domain="shop")
        client = theirs.with_token(await token_of(api, name, "system:masters"))
        await define(client, gadgets(HIDDEN[number]))
        if name == "provider":
            await define(client, colored())
            (await client.post(EXPORTS, export(all=True))).ok(201)
        else:
            await bind(client)
        members.append(Member(client, number))
    for member in members:
        member.others = [other for other in members if other is not member]
    return members, Overview(members[0].client.of_tenant("*"), members[0], members[1:])


async def check_steps(
    trio: tuple[list[Member], Overview], steps: list[tuple[int, str, str]], sizes: random.Random
) -> None:
    members, overview = trio
    for member in members:
        await member.begin()
    await overview.begin()
    for which, verb, name in steps:
        if which == len(members):
            await overview.look(verb, name)
        elif verb in CHANGES:
            await members[which].change(verb, name, sizes.randrange(1, 1 << 40))
        elif verb in BESIDE:
            await members[which].beside(verb, name)
        else:
            await members[which].look(verb, name)
    for member in members:
        for what in ("list", "everywhere", "table"):
            await member.look(what, "a")
        await member.watched()
    for what in ("list", "selected", "table", "names", "pages"):
        await overview.look(what, "a")
    await overview.watched()


# As in test_isolation.py: not made smaller, each try is a server's work.
@settings(
    max_examples=20,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(steps=STEPS, seed=st.integers(0, 1000))
async def test_only_the_provider_sees_objects_of_bound_definitions(
    trio: tuple[list[Member], Overview], steps: list[tuple[int, str, str]], seed: int
) -> None:
    await check_steps(trio, steps, random.Random(seed))


async def test_every_verb_is_covered(trio: tuple[list[Member], Overview]) -> None:
    """What random steps may have left out."""
    verbs = (*BESIDE[:3], *CHANGES, *CHANGES[:6], *LOOKS, *BESIDE)
    steps = [(which, verb, "a") for verb in verbs for which in range(3)] + [(3, verb, "a") for verb in ACROSS * 2]
    await check_steps(trio, steps, random.Random(1))


async def test_domains_of_other_tenants_cannot_be_discovered_by_name(
    api: Client, trio: tuple[list[Member], Overview]
) -> None:
    """Only those in which somebody has bound something of one's own are there: the others are as if they were not."""
    system = api.of_tenant("system")
    stranger = (await make(system, "stranger")).with_token(await token_of(api, "stranger", "system:masters"))
    answers = [await stranger.of_tenant(name).get(ALL_WIDGETS) for name in ("*.shop", "*.nowhere")]
    failure(answers[0], 403, "Forbidden")
    assert answers[0].text == answers[1].text
    await make(system, "far", domain="elsewhere")
    provider = trio[1].client
    failure(await provider.of_tenant("*.elsewhere").get(ALL_WIDGETS), 403, "Forbidden")
    await bind(api.of_tenant("far"))
    assert (await provider.of_tenant("*.elsewhere").get(ALL_WIDGETS)).ok()["items"] == []
