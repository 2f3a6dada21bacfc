"""Selector requirements evaluated by PostgreSQL, for the current state and for past revisions."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.api.selectors.requirements import row_test
from registry.flowcontrol.fair_permits import set_owner
from registry.store.connection import Pool
from registry.store.errors import Unstorable
from registry.store.labels import StoredLabels
from registry.store.reads.selectors import MAX_TERMS, predicate
from registry.store.statements import statement
from registry.store.store import Store
from registry.store.types import Requirement, SelectorOperator, Tenant, TenantId
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, update

OBJECTS = {
    "ns/a": ["app=web", "tier=front", "n=5", "f:spec.color=red"],
    "ns/b": ["app=db", "n=07", "f:spec.color="],
    "ns/c": ["app=", "n=-3"],
    "other/a": ["application=web", "n=x", "f:spec.color=blue", "f:spec.text=" + "x" * 5_000],
    "other/d": [],
    "solo": ["example.com/app=web", "q=\"'\\{}", "n=9223372036854775807"],
}

TABLE: list[tuple[str, list[tuple[str, SelectorOperator, str | None]], str]] = [
    ("equality", [("app", SelectorOperator.IN, "web")], "ns/a"),
    ("in", [("app", SelectorOperator.IN, "web db none")], "ns/a ns/b"),
    ("in-the-empty-value", [("app", SelectorOperator.IN, "")], "ns/c"),
    (
        "not-in-holds-where-the-key-is-absent",
        [("app", SelectorOperator.NOT_IN, "web")],
        "ns/b ns/c other/a other/d solo",
    ),
    ("not-in-of-the-empty-value", [("app", SelectorOperator.NOT_IN, "")], "ns/a ns/b other/a other/d solo"),
    ("exists", [("app", SelectorOperator.EXISTS, None)], "ns/a ns/b ns/c"),
    ("does-not-exist", [("app", SelectorOperator.DOES_NOT_EXIST, None)], "other/a other/d solo"),
    ("a-key-with-a-slash", [("example.com/app", SelectorOperator.IN, "web")], "solo"),
    ("odd-characters", [("q", SelectorOperator.IN, "\"'\\{}")], "solo"),
    ("greater-than", [("n", SelectorOperator.GREATER_THAN, "4")], "ns/a ns/b solo"),
    ("less-than", [("n", SelectorOperator.LESS_THAN, "5")], "ns/c"),
    ("compared-with-no-number", [("n", SelectorOperator.LESS_THAN, "five")], ""),
    (
        "all-terms-must-hold",
        [("app", SelectorOperator.EXISTS, None), ("tier", SelectorOperator.DOES_NOT_EXIST, None)],
        "ns/b ns/c",
    ),
    ("contradiction", [("app", SelectorOperator.IN, "web"), ("app", SelectorOperator.IN, "db")], ""),
    ("field", [("f:spec.color", SelectorOperator.IN, "red")], "ns/a"),
    ("field-not", [("f:spec.color", SelectorOperator.NOT_IN, "red")], "ns/b ns/c other/a other/d solo"),
    ("an-absent-field-is-empty", [("f:spec.color", SelectorOperator.IN, "")], "ns/b ns/c other/d solo"),
    ("an-absent-field-is-not-not-empty", [("f:spec.color", SelectorOperator.NOT_IN, "")], "ns/a other/a"),
    ("a-long-value", [("f:spec.text", SelectorOperator.IN, "x" * 5_000)], "other/a"),
    ("another-long-value", [("f:spec.text", SelectorOperator.IN, "x" * 5_001)], ""),
    ("name", [("f:metadata.name", SelectorOperator.IN, "a")], "ns/a other/a"),
    ("name-of-a-cluster-scoped-object", [("f:metadata.name", SelectorOperator.IN, "solo")], "solo"),
    ("not-the-name", [("f:metadata.name", SelectorOperator.NOT_IN, "a")], "ns/b ns/c other/d solo"),
    ("namespace", [("f:metadata.namespace", SelectorOperator.IN, "ns")], "ns/a ns/b ns/c"),
    ("not-the-namespace", [("f:metadata.namespace", SelectorOperator.NOT_IN, "ns")], "other/a other/d solo"),
    ("no-namespace", [("f:metadata.namespace", SelectorOperator.IN, "")], "solo"),
    (
        "a-value-postgresql-cannot-hold",
        [("app", SelectorOperator.IN, "\x00"), ("app", SelectorOperator.IN, "\ud800")],
        "",
    ),
]


@pytest.fixture(scope="module")
def requirements() -> dict[str, list[Requirement]]:
    return {name: [_requirement(*term) for term in terms] for name, terms, _ in TABLE}


async def test_each_requirement_now_and_in_the_past(
    store: Store, tenant: Tenant, requirements: dict[str, list[Requirement]]
) -> None:
    """One test for the table: the objects are the same for all rows of it."""
    await commit_all(store, tenant, [create(key, labels=labels) for key, labels in OBJECTS.items()])
    await store.commit(tenant, create("ns/a", resource=GADGETS, labels=["app=web", "f:spec.color=red"]))
    now = {name: await _select(store, tenant, terms) for name, terms in requirements.items()}
    revision = (await store.state(tenant)).revision
    await commit_all(store, tenant, [update(key, labels=["app=none"]) for key in OBJECTS if key != "other/d"])
    await store.commit(tenant, delete("other/d"))
    then = {name: await _select(store, tenant, terms, at=revision) for name, terms in requirements.items()}
    expected = {name: keys.split() for name, _, keys in TABLE}
    assert now == expected
    assert then == expected


async def test_requirements_and_pages_go_together(store: Store, tenant: Tenant) -> None:
    await commit_all(store, tenant, [create(f"ns/{i:02}", labels=[f"odd={i % 2}"]) for i in range(20)])
    odd = [Requirement("odd", SelectorOperator.IN, ("1",))]
    page = await store.page(tenant, WIDGETS, requirements=odd, limit=4)
    seen = [row.key for row in page.rows]
    assert page.remaining is None
    while page.more:
        page = await store.page(tenant, WIDGETS, requirements=odd, limit=4, at=page.revision, after=page.rows[-1].key)
        seen += [row.key for row in page.rows]
    assert seen == [f"ns/{i:02}" for i in range(1, 20, 2)]


async def test_many_terms_at_once(store: Store, tenant: Tenant, requirements: dict[str, list[Requirement]]) -> None:
    """A long selector is other SQL, which selects the same: each row of the table beside many terms that all hold."""
    await commit_all(store, tenant, [create(key, labels=labels) for key, labels in OBJECTS.items()])
    for many in LONG:
        now = {name: await _select(store, tenant, [*many, *terms]) for name, terms in requirements.items()}
        assert now == {name: keys.split() for name, _, keys in TABLE}


LONG = [
    [Requirement(f"absent{i}", SelectorOperator.DOES_NOT_EXIST) for i in range(400)],
    [Requirement("absent", SelectorOperator.NOT_IN, tuple([str(i) for i in range(5_000)]))],
    [Requirement("f:spec.absent", SelectorOperator.IN, ("", *[str(i) for i in range(5_000)]))],
    [Requirement("f:spec.absent", SelectorOperator.IN, ("", str(i))) for i in range(400)],
    [Requirement(f"f:spec.absent{i}", SelectorOperator.IN, ("", "a")) for i in range(40)],
]


async def test_long_selectors_of_many_labels_take_no_product(store: Store, tenant: Tenant) -> None:
    """An object of as many labels as fit: one term for each requirement would take a minute."""
    many = [f"label{i}=v{i}" for i in range(30_000)]
    await store.commit(tenant, create("ns/many", labels=[*many, "n=7", "f:spec.color=red"]))
    keys = [f"label{i}" for i in range(0, 30_000, 100)]
    selectors = {
        "equal": [Requirement(key, SelectorOperator.IN, (f"v{key[5:]}",)) for key in keys],
        "among-many": [Requirement("label7", SelectorOperator.IN, tuple([f"v{i}" for i in range(20_000)]))],
        "not-among-many": [Requirement("label7", SelectorOperator.NOT_IN, tuple([f"w{i}" for i in range(20_000)]))],
        "there": [Requirement(key, SelectorOperator.EXISTS) for key in keys],
        "absent": [Requirement(f"x{key}", SelectorOperator.DOES_NOT_EXIST) for key in keys],
        "above": [Requirement("n", SelectorOperator.GREATER_THAN, (str(i - 400),)) for i in range(400)],
        "fields": [Requirement("f:spec.color", SelectorOperator.NOT_IN, (f"c{i}",)) for i in range(400)],
    }
    for name, terms in selectors.items():
        began = time.perf_counter()
        assert await _select(store, tenant, terms) == ["ns/many"], name
        assert time.perf_counter() - began < 3, name
    wrong = Requirement("label7", SelectorOperator.IN, ("v8",))
    assert await _select(store, tenant, [*selectors["equal"], wrong]) == []


_KEYS = [*"abcdefghijkl", "f:spec.a", "f:spec.b", "f:metadata.name"]
_TEXTS = ["", "1", "2", "30", "x", "9223372036854775807", "9223372036854775808"]


@st.composite
def _requirements(draw: st.DrawFn) -> list[Requirement]:
    terms = []
    for key in draw(st.lists(st.sampled_from(_KEYS), max_size=14)):
        match = draw(st.sampled_from(SelectorOperator))
        if key.startswith("f:"):  # clients cannot ask for more of a field
            match = draw(st.sampled_from([SelectorOperator.IN, SelectorOperator.NOT_IN]))
        if match in (SelectorOperator.GREATER_THAN, SelectorOperator.LESS_THAN):
            terms.append(Requirement(key, match, (draw(st.sampled_from(["-1", "1", "5", "9223372036854775806"])),)))
        elif match in (SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST):
            terms.append(Requirement(key, match))
        else:
            terms.append(Requirement(key, match, tuple(draw(st.sets(st.sampled_from(_TEXTS), min_size=1, max_size=5)))))
    return terms


async def test_any_selector_selects_in_sql_what_it_selects_of_rows(store: Store, tenant: Tenant) -> None:
    """Watches evaluate selectors in the process (registry/api/selectors), lists in PostgreSQL."""
    randomly = random.Random(4)
    rows = {
        f"ns/{i:03}": {key: randomly.choice(_TEXTS) for key in _KEYS[:-1] if randomly.random() < 0.5} for i in range(60)
    }
    for row in rows.values():  # an empty field is not stored
        for key in [key for key, value in row.items() if key.startswith("f:") and not value]:
            del row[key]
    await commit_all(
        store, tenant, [create(key, labels=[f"{k}={v}" for k, v in row.items()]) for key, row in rows.items()]
    )
    terms: list[list[Requirement]] = []

    @settings(max_examples=300, database=None, derandomize=True)
    @given(_requirements())
    def draw(one: list[Requirement]) -> None:
        terms.append(one)

    draw()
    found = 0
    for one in terms:
        selects = row_test(one)
        expected = [
            key
            for key, row in rows.items()
            if selects(StoredLabels.of([f"{k}={v}" for k, v in {**row, "f:metadata.name": key[3:]}.items()]))
        ]
        assert await _select(store, tenant, one) == expected, one
        found += bool(expected)
    assert found > 50


_BESIDE = statement(
    "beside",
    "How many statements like this one run at the same moment.",
    "SELECT pg_sleep(0.3), (SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
    " AND query LIKE '%%AS probe%%') AS probe",
)


async def test_long_selectors_of_a_tenant_are_read_one_at_a_time(database_url: str) -> None:
    """On all connections that a tenant may hold they would keep all processors busy."""
    pool = Pool(database_url, "tests", 8)

    async def read(owner: str) -> int:
        set_owner(owner)
        [[_, beside]] = await pool.fetch_long(_BESIDE, {})
        return int(beside)

    try:
        assert max(await asyncio.gather(*[read("a") for _ in range(3)])) == 1
        assert max(await asyncio.gather(*[read("a") for _ in range(3)], *[read("b") for _ in range(3)])) == 2
    finally:
        await pool.close()


@pytest.mark.parametrize(
    "requirements, is_long",
    [
        ([], False),
        ([Requirement("a", SelectorOperator.IN, ("b", "c")), Requirement("d", SelectorOperator.EXISTS)], False),
        ([Requirement("a", SelectorOperator.IN, (str(i),)) for i in range(400)], False),  # nothing has all of them
        ([Requirement(f"a{i}", SelectorOperator.EXISTS) for i in range(5)], True),
        ([Requirement("a", SelectorOperator.IN, tuple([str(i) for i in range(40)]))], True),
    ],
    ids=["none", "short", "contradiction", "many-keys", "many-values"],
)
def test_what_is_long(requirements: list[Requirement], is_long: bool) -> None:
    assert predicate(TenantId(1), WIDGETS, requirements).is_long is is_long


def test_all_kinds_of_terms_at_once() -> None:
    """Of keys with terms of their own, of those that share one, and of the fields of an object's key."""
    requirements = []
    for key in [
        *[f"f:a{i}" for i in range(6)],
        *[f"b{i}" for i in range(6)],
        "f:metadata.name",
        "f:metadata.namespace",
    ]:
        requirements += [
            Requirement(key, SelectorOperator.IN, ("", "3")),
            Requirement(key, SelectorOperator.NOT_IN, ("4",)),
            Requirement(key, SelectorOperator.EXISTS),
            Requirement(key, SelectorOperator.DOES_NOT_EXIST),
            Requirement(key, SelectorOperator.GREATER_THAN, ("1",)),
            Requirement(key, SelectorOperator.LESS_THAN, ("9",)),
        ]
    assert len(predicate(TenantId(1), WIDGETS, requirements).values) == 49


async def test_too_many_terms_are_refused(store: Store, tenant: Tenant) -> None:
    with pytest.raises(Unstorable):
        await store.page(tenant, WIDGETS, requirements=[Requirement("a", SelectorOperator.EXISTS)] * (MAX_TERMS + 1))


def _requirement(key: str, match: SelectorOperator, values: str | None) -> Requirement:
    if values is None:
        return Requirement(key, match)
    return Requirement(key, match, tuple(values.split(" ")))


async def _select(store: Store, tenant: Tenant, terms: list[Requirement], at: int | None = None) -> list[str]:
    page = await store.page(tenant, WIDGETS, requirements=terms, at=at)
    return [row.key for row in page.rows]
