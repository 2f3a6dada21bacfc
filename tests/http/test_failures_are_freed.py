"""Requests that fail leave nothing to the garbage collector: a traceback holds the body and what was made of it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from registry.codec.model import MAX_CONTAINERS
from tests.api.client import APPLY, JSON_PATCH, MERGE, Client
from tests.api.widgets import DEFINITIONS, WIDGETS, make, widget
from tests.application import shares_application
from tests.garbage import no_frames_are_left

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
