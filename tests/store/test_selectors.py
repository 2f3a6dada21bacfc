"""Selector requirements evaluated by PostgreSQL, for the current state and for past revisions."""

from __future__ import annotations

import pytest

from registry.store.errors import Unstorable
from registry.store.reads.selectors import MAX_TERMS
from registry.store.store import Store
from registry.store.types import Requirement, SelectorOperator, Tenant
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
