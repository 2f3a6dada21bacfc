"""Requests that fail leave nothing to the garbage collector: a traceback holds the body and what was made of it."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from registry.api.request import CatalogStale
from registry.codec.model import MAX_CONTAINERS
from registry.store.types import Guards
from tests.api.client import APPLY, JSON_PATCH, MERGE, Client
from tests.api.widgets import DEFINITIONS, WIDGETS, define, definition, make, widget
from tests.application import shares_application
from tests.garbage import no_frames_are_left

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LONG = b'{"kind": "' + b"x" * 100_000
MANY = orjson.dumps({**widget("b"), "spec": {"free": {"lists": [[]] * MAX_CONTAINERS}}})


@shares_application
@pytest.mark.parametrize(
    "method, path, body, content_type, code",
    [
        pytest.param("GET", f"{WIDGETS}/nothing", None, "", 404, id="not found"),
        pytest.param("GET", f"{WIDGETS}?fieldSelector=x", None, "", 400, id="selector"),
        pytest.param("GET", "/apis/nothing/v1/things", None, "", 404, id="unknown kind"),
        pytest.param("POST", WIDGETS, widget("a"), "", 409, id="exists"),
        pytest.param("POST", WIDGETS, widget("A_"), "", 422, id="name"),
        pytest.param("POST", WIDGETS, b"{", "", 400, id="syntax"),
        pytest.param("POST", WIDGETS, LONG, "", 400, id="syntax of a long body"),
        pytest.param("POST", WIDGETS, MANY, "", 413, id="too many values"),
        pytest.param("POST", DEFINITIONS, {"metadata": {"name": "a.b.c"}, "spec": {}}, "", 422, id="definition"),
        pytest.param("PUT", f"{WIDGETS}/a", {**widget("b")}, "", 400, id="another name"),
        pytest.param("PATCH", f"{WIDGETS}/a", {"metadata": {"resourceVersion": "1"}}, MERGE, 409, id="merge patch"),
        pytest.param("PATCH", f"{WIDGETS}/a", [{"op": "remove", "path": "/x"}], JSON_PATCH, 422, id="JSON patch"),
        pytest.param(
            "PATCH", f"{WIDGETS}/a?fieldManager=m", {**widget("a"), "metadata": {"name": "b"}}, APPLY, 400, id="apply"
        ),
        pytest.param("PATCH", f"{WIDGETS}/a", {"metadata": {"labels": 5}}, MERGE, 422, id="a type in a patch"),
        pytest.param("POST", CONFIG_MAPS, {"metadata": {"labels": {"a": 5}}}, "", 400, id="a type in a body"),
        pytest.param("DELETE", f"{WIDGETS}/nothing", None, "", 404, id="deletion"),
    ],
)
async def test_a_failure_is_freed(
    shared_api: Client, method: str, path: str, body: Any, content_type: str, code: int
) -> None:
    await make(shared_api, "a")
    data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
    found = await shared_api.request(method, path, data, content_type=content_type or "application/json")
    with no_frames_are_left():
        for _ in range(3):
            found = await shared_api.request(method, path, data, content_type=content_type or "application/json")
    assert found.code == code, found.text


@shares_application
async def test_writes_that_begin_again_since_definitions_have_changed_are_freed(
    shared_api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = 0
    made_stale = CatalogStale.__init__

    def count(error: CatalogStale, guards: Guards) -> None:
        nonlocal stale
        stale += 1
        made_stale(error, guards)

    await define(shared_api, definition("firsts", "First", group="first.example.com"))
    monkeypatch.setattr(CatalogStale, "__init__", count)
    with no_frames_are_left():
        for number in range(5):
            defined = shared_api.post(DEFINITIONS, definition("others", "Other", group=f"g{number}.example.com"))
            made = (make(shared_api, f"n{number}-{i}") for i in range(10))
            await asyncio.gather(defined, *made)
    assert stale > 0
