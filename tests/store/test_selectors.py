"""Selector requirements evaluated by PostgreSQL, for the current state and for past revisions."""

from __future__ import annotations

import pytest

from registry.store.errors import Unstorable
from registry.store.reads.selectors import MAX_TERMS
from registry.store.store import Store
from registry.store.types import Match, Requirement, Tenant
from tests.store.writes import GADGETS, WIDGETS, commit_all, create, delete, update

OBJECTS = {
    "ns/a": ["app=web", "tier=front", "n=5", "f:spec.color=red"],
    "ns/b": ["app=db", "n=07", "f:spec.color="],
    "ns/c": ["app=", "n=-3"],
    "other/a": ["application=web", "n=x", "f:spec.color=blue", "f:spec.text=" + "x" * 5_000],
    "other/d": [],
    "solo": ["example.com/app=web", "q=\"'\\{}", "n=9223372036854775807"],
}

TABLE: list[tuple[str, list[tuple[str, Match, str | None]], str]] = [
    ("equality", [("app", Match.IN, "web")], "ns/a"),
    ("in", [("app", Match.IN, "web db none")], "ns/a ns/b"),
    ("in-the-empty-value", [("app", Match.IN, "")], "ns/c"),
    ("not-in-holds-where-the-key-is-absent", [("app", Match.NOT_IN, "web")], "ns/b ns/c other/a other/d solo"),
    ("not-in-of-the-empty-value", [("app", Match.NOT_IN, "")], "ns/a ns/b other/a other/d solo"),
    ("exists", [("app", Match.EXISTS, None)], "ns/a ns/b ns/c"),
    ("does-not-exist", [("app", Match.DOES_NOT_EXIST, None)], "other/a other/d solo"),
    ("a-key-with-a-slash", [("example.com/app", Match.IN, "web")], "solo"),
    ("odd-characters", [("q", Match.IN, "\"'\\{}")], "solo"),
    ("greater-than", [("n", Match.GREATER_THAN, "4")], "ns/a ns/b solo"),
    ("less-than", [("n", Match.LESS_THAN, "5")], "ns/c"),
    ("compared-with-no-number", [("n", Match.LESS_THAN, "five")], ""),
    ("all-terms-must-hold", [("app", Match.EXISTS, None), ("tier", Match.DOES_NOT_EXIST, None)], "ns/b ns/c"),
    ("contradiction", [("app", Match.IN, "web"), ("app", Match.IN, "db")], ""),
    ("field", [("f:spec.color", Match.IN, "red")], "ns/a"),
    ("field-not", [("f:spec.color", Match.NOT_IN, "red")], "ns/b ns/c other/a other/d solo"),
    ("an-absent-field-is-empty", [("f:spec.color", Match.IN, "")], "ns/b ns/c other/d solo"),
    ("an-absent-field-is-not-not-empty", [("f:spec.color", Match.NOT_IN, "")], "ns/a other/a"),
    ("a-long-value", [("f:spec.text", Match.IN, "x" * 5_000)], "other/a"),
    ("another-long-value", [("f:spec.text", Match.IN, "x" * 5_001)], ""),
    ("name", [("f:metadata.name", Match.IN, "a")], "ns/a other/a"),
    ("name-of-a-cluster-scoped-object", [("f:metadata.name", Match.IN, "solo")], "solo"),
    ("not-the-name", [("f:metadata.name", Match.NOT_IN, "a")], "ns/b ns/c other/d solo"),
    ("namespace", [("f:metadata.namespace", Match.IN, "ns")], "ns/a ns/b ns/c"),
    ("not-the-namespace", [("f:metadata.namespace", Match.NOT_IN, "ns")], "other/a other/d solo"),
    ("no-namespace", [("f:metadata.namespace", Match.IN, "")], "solo"),
    ("a-value-postgresql-cannot-hold", [("app", Match.IN, "\x00"), ("app", Match.IN, "\ud800")], ""),
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
    odd = [Requirement("odd", Match.IN, ("1",))]
    page = await store.page(tenant, WIDGETS, requirements=odd, limit=4)
    seen = [row.key for row in page.rows]
    assert page.remaining is None
    while page.more:
        page = await store.page(tenant, WIDGETS, requirements=odd, limit=4, at=page.revision, after=page.rows[-1].key)
        seen += [row.key for row in page.rows]
    assert seen == [f"ns/{i:02}" for i in range(1, 20, 2)]


async def test_too_many_terms_are_refused(store: Store, tenant: Tenant) -> None:
    with pytest.raises(Unstorable):
        await store.page(tenant, WIDGETS, requirements=[Requirement("a", Match.EXISTS)] * (MAX_TERMS + 1))


def _requirement(key: str, match: Match, values: str | None) -> Requirement:
    if values is None:
        return Requirement(key, match)
    return Requirement(key, match, tuple(values.split(" ")))


async def _select(store: Store, tenant: Tenant, terms: list[Requirement], at: int | None = None) -> list[str]:
    page = await store.page(tenant, WIDGETS, requirements=terms, at=at)
    return [row.key for row in page.rows]
