"""What a write has decoded is freed before it waits for its commit: the garbage collector would search it meanwhile."""

from __future__ import annotations

import gc
from typing import Any

import orjson
import pytest
from starlette.applications import Starlette

from registry.store.types import Committed, Tenant, Write
from tests.api.client import JSON, MERGE, Client
from tests.api.widgets import WIDGETS, make, widget
from tests.application import TOKEN

MARK = "a-mark-of-this-test"
# The collector does not know maps of scalars.
MARKED = {"free": {MARK: {"list": [1]}}}


def marked_objects() -> int:
    return sum(type(one) is dict and MARK in one for one in gc.get_objects())


@pytest.mark.parametrize(
    "method, path, change, content_type, code",
    [
        pytest.param("POST", WIDGETS, widget("new") | {"spec": MARKED}, JSON, 201, id="create"),
        pytest.param("PATCH", f"{WIDGETS}/a", {"spec": MARKED}, MERGE, 200, id="merge patch that adds it"),
        pytest.param("PATCH", f"{WIDGETS}/marked", {"spec": {"size": 7}}, MERGE, 200, id="merge patch beside it"),
    ],
)
async def test_an_object_is_freed_before_its_commit(
    app: Starlette,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    change: dict[str, Any],
    content_type: str,
    code: int,
) -> None:
    api = Client(app, TOKEN)
    await make(api, "a")
    (await api.post(WIDGETS, orjson.dumps(widget("marked") | {"spec": MARKED}))).ok(201)
    store, found = app.state.backend.store, []
    commit = store.commit

    async def observed(tenant: Tenant, write: Write) -> Committed:
        if write.resource.startswith("widgets."):
            found.append(marked_objects())
        written: Committed = await commit(tenant, write)
        return written

    monkeypatch.setattr(store, "commit", observed)
    before = marked_objects()  # those of the test itself
    (await api.request(method, path, orjson.dumps(change), content_type=content_type)).ok(code)
    # A patch still holds itself, as it may be applied again.
    assert found == [before + (method == "PATCH" and MARK in str(change))]
