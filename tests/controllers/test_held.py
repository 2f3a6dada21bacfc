"""Namespaces and definitions whose objects are held by finalizers: each attempt to delete these reads all that is left."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from typing import Any

import pytest

from registry.api.options import DeleteOptions
from registry.api.served import Served
from registry.controllers import held
from registry.controllers.controller_client import ControllerClient
from registry.controllers.held import HeldContents
from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, WIDGETS, widgets_definition
from tests.application import shares_application
from tests.controllers.family import born, gone, marked, released

pytestmark = shares_application

SPACE = f"{NAMESPACES}/held"
DEFINITION = f"{DEFINITIONS}/widgets.{GROUP}"
KEPT = "kept"


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The resources whose objects the controllers delete, and KEPT when what is left is kept. They never try again while
    nothing has changed."""
    monkeypatch.setattr("registry.controllers.namespaces.GRACE_SECONDS", 0.0)
    monkeypatch.setattr(held, "_PAUSE_FACTOR", 1e6)
    attempts: list[str] = []
    delete_all = ControllerClient.delete_all

    async def noted(
        self: ControllerClient, served: Served, options: DeleteOptions, namespace: str | None = None
    ) -> int:
        attempts.append(served.resource.name)
        return await delete_all(self, served, options, namespace)

    keep = HeldContents.keep

    def noted_keep(
        self: HeldContents, waiting: Hashable, remaining: Mapping[str, int], *given: Any, **more: Any
    ) -> None:
        keep(self, waiting, remaining, *given, **more)
        attempts.append(KEPT)

    monkeypatch.setattr(ControllerClient, "delete_all", noted)
    monkeypatch.setattr(HeldContents, "keep", noted_keep)
    return attempts


@pytest.mark.parametrize("waiting", [SPACE, DEFINITION], ids=["namespace", "definition"])
async def test_objects_held_are_deleted_again_when_some_have_gone(
    api: Client, attempts: list[str], waiting: str
) -> None:
    path = f"/apis/{GROUP}/v1/namespaces/held/widgets" if waiting == SPACE else WIDGETS
    if waiting == SPACE:
        (await api.post(NAMESPACES, {"metadata": {"name": "held"}})).ok(201)
    for name in ("one", "another"):
        await born(api, name, held=True, path=path)
    (await api.delete(waiting)).ok(200)
    for name in ("one", "another"):
        await marked(api, name, path=path)

    async def has_ended() -> bool:
        return KEPT in attempts

    await eventually(has_ended)
    attempts.clear()
    for number in range(3):
        changed = {"metadata": {"annotations": {"looked-at": f"{number}"}}}
        (await api.patch(waiting, changed)).ok(200)
        await asyncio.sleep(0.1)  # for the controller, which the change has notified
    assert "widgets" not in attempts

    async def tries_again() -> bool:
        return "widgets" in attempts

    await released(api, "another", path=path)
    await eventually(tries_again)
    await released(api, "one", path=path)
    await gone(api, waiting.rpartition("/")[2], path=waiting.rpartition("/")[0])
    if waiting == DEFINITION:
        (await api.post(DEFINITIONS, widgets_definition())).ok(201)
