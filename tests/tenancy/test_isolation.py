"""Two tenants with the same names: neither sees, counts, watches or selects anything of the other.

Each writes a word of its own into all that it stores. A model of each tenant alone foretells every answer, and no
answer to one may hold the word, or a uid, of the other: not in errors, tables, counts, histories or watches either.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.api.client import Client
from tests.api.widgets import WIDGETS, define
from tests.tenancy.sides import CHANGES, LOOKS, NAMES, Side, _numbers, colored
from tests.tenancy.tenants import make

WORDS = ("vermilion", "turquoise")
STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(CHANGES + LOOKS), st.sampled_from(NAMES)), min_size=6, max_size=30
)


@pytest.fixture(params=["domains-of-their-own", "one-domain"])
async def sides(api: Client, request: pytest.FixtureRequest) -> list[Side]:
    spec = {"domain": "shared"} if request.param == "one-domain" else {}
    made = []
    for number in (0, 1):
        client = await make(api.of_tenant("system"), f"tenant-{number}", **spec)
        await define(client, colored())
        made.append(Side(client, WORDS[number], WORDS[1 - number]))
    made[0].others, made[1].others = [made[1]], [made[0]]
    return made


# Not made smaller: each try is seconds of a server's work, and a failure tells its steps.
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(steps=STEPS, seed=st.integers(0, 1000))
async def test_tenants_see_nothing_of_each_other(
    sides: list[Side], steps: list[tuple[int, str, str]], seed: int
) -> None:
    sizes = random.Random(seed)
    for side in sides:
        await side.begin()
    for which, verb, name in steps:
        if verb in CHANGES:
            await sides[which].change(verb, name, sizes.randrange(1, 1 << 40))
        else:
            await sides[which].look(verb, name)
    for side in sides:
        for what in ("list", "selected", "everywhere", "table", "pages"):
            await side.look(what, "a")
        await side.watched()


async def test_every_verb_is_covered(sides: list[Side]) -> None:
    """What random steps may have left out."""
    for side in sides:
        await side.begin()
    for verb in (*CHANGES, *CHANGES[:6], *LOOKS):
        for side in sides:
            if verb in CHANGES:
                await side.change(verb, "a", next(_numbers) + 1)
            else:
                await side.look(verb, "a")
    for side in sides:
        await side.watched()


async def test_deleting_a_tenant_does_not_affect_another(api: Client, sides: list[Side]) -> None:
    for side in sides:
        await side.begin()
        for name in NAMES:
            await side.change("create", name, 7)
    (await api.of_tenant("system").delete("/apis/tenancy.registry/v1/tenants/tenant-0")).ok()
    assert (await sides[0].client.get(WIDGETS)).code == 404
    await sides[1].look("list", "a")
    await sides[1].change("delete", "a", 0)
    await sides[1].watched()
