"""Alive and ready: the one is the process, the other its database, too."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette

from registry.store.errors import Unavailable
from tests.api.client import Client


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/", "/healthz?verbose"])
async def test_all_is_well(api: Client, path: str) -> None:
    answer = await api.get(path)
    assert (answer.code, answer.body) == (200, b"ok")
    assert answer.header("content-type") == "text/plain; charset=utf-8"


async def test_without_its_database_it_lives_but_is_not_ready(
    api: Client, app: Starlette, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Unavailable("away")

    store = app.state.backend.store
    for name in ("ping", "tenant", "state", "load"):
        monkeypatch.setattr(store, name, away)
    assert (await api.get("/livez")).code == 200
    for path in ("/readyz", "/healthz"):
        answer = await api.get(path)
        assert answer.code == 500
        assert b"[-]database failed" in answer.body
    assert (await api.get("/metrics")).code == 200


async def test_the_version_is_that_of_the_api(api: Client) -> None:
    version = (await api.get("/version")).ok()
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "36", "v1.36.2")
