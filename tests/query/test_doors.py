"""Queries from plain kubectl: reserved label keys, and field selectors on any field."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from registry.query.reserved import Reserved, ReservedError, split_reserved
from tests.api.client import TABLE, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, WIDGETS, names_of
from tests.query.lists import INDEX, NAME, answers_by, declare, fill, query

SPLITS: dict[str, tuple[str, Reserved]] = {
    "none": ("a=b,c in (d,e)", Reserved("a=b,c in (d,e)")),
    "order": ("query.registry/order-by=spec.size_desc", Reserved("", order_by="spec.size desc")),
    "several": (
        "a in (b,c), query.registry/order-by in (spec.size_desc, metadata.name),!d",
        Reserved("a in (b,c),!d", order_by="spec.size desc,metadata.name"),
    ),
    "page": ("query.registry/offset=5,query.registry/count==exact", Reserved("", offset="5", count="exact")),
    "name": ('query.registry/name-contains=a"b', Reserved("", filter='(object.metadata.name.contains("a\\"b"))')),
    "times": (
        "query.registry/since=2026-11-01,query.registry/before=2026-11-22T10:00:00+01:00",
        Reserved(
            "",
            filter='(object.metadata.creationTimestamp >= timestamp("2026-11-01T00:00:00+00:00")) && '
            '(object.metadata.creationTimestamp < timestamp("2026-11-22T10:00:00+01:00"))',
        ),
    ),
}


@pytest.mark.parametrize("case", SPLITS)
def test_reserved_keys_are_removed_from_the_selector(case: str) -> None:
    selector, wanted = SPLITS[case]
    assert split_reserved(selector) == wanted


WRONG = {
    "unknown": "query.registry/limit=3",
    "no value": "query.registry/order-by",
    "not": "query.registry/order-by!=spec.size",
    "twice": "query.registry/offset=1,query.registry/offset=2",
    "no time": "query.registry/since=yesterday",
    "two": "query.registry/offset in (1,2)",
    "spaces": "query.registry/offset=" + " " * 100_000 + "(",
}


@pytest.mark.parametrize("case", WRONG)
def test_invalid_reserved_keys(case: str) -> None:
    with pytest.raises(ReservedError):
        split_reserved(WRONG[case])


async def test_a_label_selector_orders_pages_and_counts(api: Client) -> None:
    await fill(api)
    selector = "query.registry/order-by=spec.size_desc,team in (a),query.registry/count=exact"
    answer = await api.get(f"{WIDGETS}?labelSelector={quote(selector)}&limit=2", accept=TABLE)
    table = answer.ok()
    assert [row["cells"][0] for row in table["rows"]] == ["a", "e"]
    assert (answer.header("x-total-count"), table["metadata"]["remainingItemCount"]) == ("3", 1)
    token = table["metadata"]["continue"]
    rest = (await api.get(f"{WIDGETS}?labelSelector={quote(selector)}&limit=2&continue={token}")).ok()
    assert names_of(rest) == ["c"]
    assert names_of(await query(api, labelSelector="query.registry/name-contains=d")) == ["d"]
    assert names_of(await query(api, labelSelector="query.registry/before=2020-01-01")) == []
    status = failure(
        await api.get(f"{WIDGETS}?labelSelector={quote('query.registry/order-by=spec.sise')}"), 400, "BadRequest"
    )
    assert "no such field" in status["message"]
    async with api.watch(f"{WIDGETS}?watch=1&labelSelector={quote(selector)}") as watch:
        assert sorted([e["object"]["metadata"]["name"] for e in await watch.events(3)]) == ["a", "c", "e"]


FIELDS: list[tuple[str, str]] = [
    ("spec.size=3", "a e"),
    ("spec.size=3,spec.color!=red", "e"),
    ("spec.size!=3", "b c d f"),
    ("spec.size=", "c"),
    ("spec.color=blue", "b f"),
    ("metadata.name!=a,spec.size=3", "e"),
    ("metadata.name=a,spec.size=3", "a"),
    ("spec.size=three", ""),
]


async def test_field_selectors_by_any_field(api: Client) -> None:
    await fill(api)
    failure(await api.get(f"{WIDGETS}?fieldSelector=spec.size%3D3"), 400, "BadRequest")
    annotations = {"query.registry/fields": "*"}
    (await api.patch(f"{DEFINITIONS}/{NAME}", {"metadata": {"annotations": annotations}})).ok()
    for indexed in (False, True):
        if indexed:
            await declare(api, INDEX)
        for selector, names in FIELDS:
            found: Any = await query(api, fieldSelector=selector)
            assert (sorted(names_of(found)), selector) == (names.split(), selector)
    before = answers_by("index")
    await query(api, fieldSelector="spec.size=3")
    assert answers_by("index") > before
    for wrong in ("spec.sise=3", "spec.parts=x", "spec=3"):
        status = failure(await api.get(f"{WIDGETS}?fieldSelector={quote(wrong)}"), 400, "BadRequest")
        assert "field label not supported" in status["message"]
    async with api.watch(f"{WIDGETS}?watch=1&fieldSelector=spec.size%3D3") as watch:
        assert sorted([e["object"]["metadata"]["name"] for e in await watch.events(2)]) == ["a", "e"]
        (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 4}})).ok()
        assert (await watch.event())["type"] == "DELETED"
