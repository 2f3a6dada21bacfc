"""Filtered and ordered lists over HTTP: with and without an index, in pages at one revision."""

from __future__ import annotations

import random
from typing import Any

import pytest

from registry.api.query import listing, reading
from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import ALL_WIDGETS, GROUP, NAMESPACES, WIDGETS, make, names_of, widget
from tests.application import shares_application
from tests.query.lists import INDEX, declare, fill, query, text_of

pytestmark = shares_application


async def pages(api: Client, path: str = WIDGETS, **parameters: Any) -> list[str]:
    found: list[str] = []
    token = ""
    while True:
        page = await query(api, path, **parameters, **({"continue": token} if token else {}))
        found += names_of(page)
        token = page["metadata"]["continue"]
        if not token:
            return found
        assert len(page["items"]) == parameters["limit"]


CASES = [
    ("object.spec.size > 2", "", "a e f"),
    ("object.spec.size > 2", "spec.size", "a e f"),
    ("object.spec.size > 2", "spec.size desc", "f a e"),
    ("", "spec.size", "b d a e f c"),
    ("", "spec.size desc", "f a e d b c"),
    ("", "spec.size desc,metadata.name desc", "f e a d b c"),
    ('object.spec.color == "red"', "spec.size", "d a c"),
    ('object.spec.color == "red"', "spec.size desc", "a d c"),
    ('object.spec.color in ["red", "blue"]', "spec.size", "b d a f c"),
    ('object.spec.color in ["red", "blue"]', "", "a b c d f"),
    ('object.spec.color == "red" || object.spec.color == "grün"', "", "a c d e"),
    ('object.spec.color.startsWith("gr")', "", "e"),
    ('"x" in object.spec.parts', "", "a f"),
    ('object.spec.parts.exists(p, p == "y")', "", "a b"),
    ("!has(object.spec.size)", "", "c"),
    ("object.spec.size >= 2 && object.spec.size <= 3", "spec.size", "d a e"),
    ("object.spec.size > 1.5", "spec.size", "d a e f"),
    ("!(object.spec.size > 2)", "", "b d"),
    ('object.metadata.labels.team == "a"', "", "a c e"),
    ('object.metadata.labels["team"] in ["b"]', "metadata.name desc", "f d b"),
    ('object.metadata.name == "d"', "", "d"),
    ('object.spec.size == 3 && object.spec.color == "red"', "", "a"),
    ("object.metadata.creationTimestamp > now - duration('1h')", "metadata.name", "a b c d e f"),
    ("object.spec.size == 3 || object.spec.parts.all(p, p == 'x')", "", "a d e f"),
]


@pytest.mark.parametrize("indexed", [False, True], ids=["scan", "index"])
async def test_the_same_with_an_index_and_without(api: Client, indexed: bool) -> None:
    await fill(api)
    if indexed:
        await declare(api, INDEX)
    for wanted, order, names in CASES:
        given = {k: v for k, v in {"filter": wanted, "orderBy": order}.items() if v}
        found = await query(api, **given)
        where = (wanted, order)
        assert (sorted(names_of(found)) if not order else names_of(found), where) == (names.split(), where)
        for limit in (1, 2, 5):
            paged = await pages(api, **given, limit=limit)
            assert (sorted(paged) if not order else paged, where) == (names.split(), where)
        everywhere = await pages(api, ALL_WIDGETS, **given, limit=2)
        assert (sorted(everywhere) if not order else everywhere, where) == (names.split(), where)


@pytest.mark.parametrize("indexed", [False, True], ids=["scan", "index"])
@pytest.mark.parametrize("order", ["spec.size", "spec.size desc", "spec.color,spec.size", ""])
async def test_pages_are_of_one_revision_while_others_write(api: Client, indexed: bool, order: str) -> None:
    chance = random.Random(order)
    names = [f"w{n:02}" for n in range(30)]
    for name in names:
        (await api.post(WIDGETS, widget(name, size=chance.randrange(6), color=chance.choice("abc")))).ok(201)
    if indexed:
        await declare(api, INDEX)
    given = {"filter": "object.spec.size >= 1", **({"orderBy": order} if order else {})}
    whole = await query(api, **given)
    found: list[Any] = []
    token = ""
    while True:
        page = await query(api, **given, limit=3, **({"continue": token} if token else {}))
        found += page["items"]
        token = page["metadata"]["continue"]
        if not token:
            break
        assert page["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
        for _ in range(3):
            name = chance.choice(names)
            match chance.randrange(3):
                case 0:
                    await api.delete(f"{WIDGETS}/{name}")
                case 1:
                    await api.post(WIDGETS, widget(name, size=chance.randrange(6)))
                case _:
                    await api.patch(f"{WIDGETS}/{name}", {"spec": {"size": chance.randrange(6)}})
    if order:
        assert found == whole["items"]
    else:
        by_name = {item["metadata"]["name"]: item for item in found}
        assert (len(found), by_name) == (len(whole["items"]), {i["metadata"]["name"]: i for i in whole["items"]})


async def test_counts_and_offsets(api: Client) -> None:
    await fill(api)
    for index in (False, True):
        if index:
            await declare(api, INDEX)
        for parameters in (
            {"filter": "object.spec.size > 1"},
            {"filter": "object.spec.size > 1", "orderBy": "spec.size"},
        ):
            answer = await api.get(f"{WIDGETS}?{text_of({**parameters, 'limit': 2, 'count': 'exact'})}")
            page = answer.ok()
            assert answer.header("x-total-count") == "4"
            assert page["metadata"]["remainingItemCount"] == 2
            rest = await query(api, **parameters, limit=2, count="exact", **{"continue": page["metadata"]["continue"]})
            assert "remainingItemCount" not in rest["metadata"]
            assert names_of(rest) == names_of(await query(api, **parameters, limit=2, offset=2))
    assert names_of(await query(api, offset=4)) == ["e", "f"]
    assert names_of(await query(api, offset=40)) == []


WRONG = [
    ({"filter": "object.spec.sise > 3"}, "filter: ERROR: <input>:1:12: undefined field 'sise'"),
    ({"filter": 'object.spec.size > "3"'}, "found no matching overload"),
    ({"filter": "object.spec.size"}, "must evaluate to bool"),
    ({"filter": "object.spec.size >"}, "Syntax error"),
    ({"filter": "x == 1"}, "undeclared reference to 'x'"),
    ({"orderBy": "spec.sise"}, 'orderBy: "spec.sise": the schema has no such field'),
    ({"orderBy": "spec.parts"}, "is not a scalar field"),
    ({"orderBy": "spec.size up"}, "is not a field"),
    ({"orderBy": "spec.size; DROP TABLE objects"}, "orderBy"),
    ({"orderBy": "spec.size,spec.size"}, "named twice"),
    ({"orderBy": ",".join(["spec.none"] * 9)}, "more than 8 fields"),
    ({"count": "all"}, "count must be exact or estimated"),
    ({"offset": "1000000"}, "offset must not be more than"),
    ({"filter": "true", "continue": "abc"}, "invalid continue token"),
]


async def test_invalid_parameters(api: Client) -> None:
    await fill(api)
    for parameters, text in WRONG:
        status = failure(await api.get(f"{WIDGETS}?{text_of(parameters)}"), 400, "BadRequest")
        assert text in status["message"], status["message"]
    page = await query(api, orderBy="spec.size", limit=2)
    token = page["metadata"]["continue"]
    for other in ({"orderBy": "spec.size desc"}, {"filter": "true", "orderBy": "spec.size"}):
        status = failure(await api.get(f"{WIDGETS}?{text_of({**other, 'continue': token})}"), 400, "BadRequest")
        assert "another query" in status["message"]


async def test_namespaces(api: Client) -> None:
    await fill(api)
    (await api.post(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})).ok(201)
    await make(api, "z", path=f"/apis/{GROUP}/v1/namespaces/other/widgets")
    for index in (False, True):
        if index:
            await declare(api, INDEX)
        assert names_of(await query(api, orderBy="spec.size desc", limit=2)) == ["f", "a"]
        assert "z" in names_of(await query(api, ALL_WIDGETS, orderBy="spec.size"))
        assert "z" not in names_of(await query(api, WIDGETS, orderBy="spec.size"))


async def test_a_page_of_large_objects_ends_early(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(api)
    whole = names_of(await query(api, orderBy="spec.size"))
    for index in (False, True):
        if index:
            await declare(api, INDEX)
        with monkeypatch.context() as small:
            small.setattr(listing, "READ_BYTES", 100)
            small.setattr(reading, "_ROWS", 2)
            found: list[str] = []
            token, number = "", 0
            while True:
                page = await query(api, orderBy="spec.size", limit=5, **({"continue": token} if token else {}))
                found += names_of(page)
                number += 1
                token = page["metadata"]["continue"]
                if not token:
                    break
            # A scan holds what it has found in any case.
            assert (found, number > 2) == (whole, index)


async def test_label_selectors_hold_too(api: Client) -> None:
    await fill(api)
    for index in (False, True):
        if index:
            await declare(api, INDEX)
        assert names_of(await query(api, orderBy="spec.size", labelSelector="team in (a)")) == ["a", "e", "c"]
        paged = await pages(api, orderBy="spec.size", labelSelector="team!=a", limit=1)
        assert paged == ["b", "d", "f"]
        counted = await api.get(f"{WIDGETS}?{text_of({'labelSelector': 'team=a', 'count': 'exact', 'limit': 1})}")
        assert counted.header("x-total-count") == "3"
