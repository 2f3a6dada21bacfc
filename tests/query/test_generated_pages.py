"""Generated filters and orders over generated schemas and objects, read page by page while objects change: together the
pages are what evaluating and sorting each object of the plain list at their revision gives."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pytest

from registry.query.language import compile_filter
from registry.query.ordering import parse_order
from tests.api.client import Client
from tests.api.widgets import DEFINITIONS, WIDGETS, names_of
from tests.application import shares_application
from tests.query.generated import VALUES, objects, term
from tests.query.lists import NAME, declare, query, text_of
from tests.query.orders import order_of, reference_order
from tests.query.shapes import Shape, shape_of

pytestmark = shares_application

OBJECTS, WALKS, MAX_PAGES = 40, 30, 10


@pytest.mark.parametrize("seed", range(8))
async def test_pages_equal_those_of_full_evaluation(tenant_api: Client, seed: int) -> None:
    api, chance = tenant_api, random.Random(seed)
    shape = shape_of(chance)
    await _define(api, {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    for name, obj in enumerate(_objects(shape, chance)):
        obj["metadata"]["name"] = f"w{name:02}"
        (await api.post(WIDGETS, obj)).ok(201)
    # From here on many of them are not as their schema says, and stay so until they are written.
    await _define(api, shape.definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    await declare(api, shape.definition["metadata"]["annotations"]["query.registry/index"])
    walked = 0
    for _ in range(WALKS):
        text = shape.text(" && ".join(term(chance) for _ in range(chance.randrange(0, 4)))) or "true"
        ordering = shape.text(order_of(chance))
        given = {"filter": text, "orderBy": ordering, "limit": chance.choice((OBJECTS // MAX_PAGES, 5, 9))}
        revision, names, pages = await _walk(api, shape, given, chance)
        plain = await query(api, resourceVersion=revision, resourceVersionMatch="Exact")
        wanted = compile_filter(text, shape.structural)
        now = datetime.datetime.now(datetime.UTC)
        matching = [obj for obj in plain["items"] if wanted.matches(obj, now)]
        order = parse_order(ordering, shape.structural)
        assert names == reference_order(order, matching), given
        walked += pages
    assert walked > WALKS


async def _define(api: Client, schema: dict[str, Any]) -> None:
    path = f"{DEFINITIONS}/{NAME}"
    found = (await api.get(path)).ok()
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    found["spec"]["versions"] = [version]
    (await api.put(path, found)).ok()


def _objects(shape: Shape, chance: random.Random) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < OBJECTS:
        found += [shape.object(obj) for obj in objects(chance)]
    return [{**obj, "apiVersion": "test.example.com/v1"} for obj in found[:OBJECTS]]


async def _walk(api: Client, shape: Shape, given: dict[str, Any], chance: random.Random) -> tuple[str, list[str], int]:
    """The revision of the first page, the names on all pages, and how many pages there were. Between them objects are
    written and deleted."""
    names: list[str] = []
    revision, token, pages = "", "", 0
    while True:
        more = {"continue": token} if token else {}
        page = (await api.get(f"{WIDGETS}?{text_of({**given, **more})}")).ok()
        revision = revision or page["metadata"]["resourceVersion"]
        assert page["metadata"]["resourceVersion"] == revision
        names += names_of(page)
        pages += 1
        token = page["metadata"].get("continue")
        if not token:
            return revision, names, pages
        path = f"{WIDGETS}/w{chance.randrange(OBJECTS):02}"
        if chance.random() < 0.1:
            assert (await api.delete(path)).code in (200, 404)
        else:
            field = chance.choice(list(VALUES))
            change = shape.object({"spec": {field: chance.choice(VALUES[field])}})
            # 404: it has been deleted; 422: a parent of the field is not an object.
            assert (await api.patch(path, change)).code in (200, 404, 422)
