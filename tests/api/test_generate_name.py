"""generateName: a random suffix that avoids existing names."""

from __future__ import annotations

import asyncio
import re

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, make, widget
from tests.application import shares_application, shares_tenant

pytestmark = [shares_application, shares_tenant]


async def test_five_letters_are_added(api: Client) -> None:
    made = (await api.post(WIDGETS, widget(metadata={"generateName": "job-"}))).ok(201)["metadata"]
    assert re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", made["name"])
    assert made["generateName"] == "job-"


async def test_a_name_takes_precedence(api: Client) -> None:
    made = (await api.post(WIDGETS, widget("a", metadata={"generateName": "job-"}))).ok(201)["metadata"]
    assert (made["name"], made["generateName"]) == ("a", "job-")


async def test_concurrent_creates_get_different_names(api: Client) -> None:
    answers = await asyncio.gather(*(api.post(WIDGETS, widget(metadata={"generateName": "j-"})) for _ in range(30)))
    assert len({a.ok(201)["metadata"]["name"] for a in answers}) == 30


async def test_another_name_is_tried_if_one_is_in_use(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    names = iter(["job-a", "job-a", "job-b"])
    monkeypatch.setattr("registry.api.metadata.generate_name", lambda prefix: next(names))
    await make(api, "job-a")
    made = (await api.post(WIDGETS, widget(metadata={"generateName": "job-"}))).ok(201)
    assert made["metadata"]["name"] == "job-b"


async def test_tries_are_bounded(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.api.metadata.generate_name", lambda prefix: "job-a")
    await make(api, "job-a")
    failure(await api.post(WIDGETS, widget(metadata={"generateName": "job-"})), 409, "AlreadyExists")


async def test_a_long_prefix_is_cut(api: Client) -> None:
    made = (await api.post(WIDGETS, widget(metadata={"generateName": "x" * 100}))).ok(201)["metadata"]
    assert len(made["name"]) == 63


async def test_a_bad_prefix_is_refused(api: Client) -> None:
    status = failure(await api.post(WIDGETS, widget(metadata={"generateName": "Bad_"})), 422, "Invalid")
    assert {c["field"] for c in status["details"]["causes"]} == {"metadata.generateName", "metadata.name"}


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
async def test_a_name_that_is_taken_beside_a_prefix(api: Client, query: str) -> None:
    await make(api, "a")
    answer = await api.post(f"{WIDGETS}{query}", widget("a", metadata={"generateName": "job-"}))
    status = failure(answer, 409, "AlreadyExists")
    assert status["message"].endswith(
        '"a" already exists, the server was not able to generate a unique name for the object'
    )
    assert status["details"]["retryAfterSeconds"] == 1
    assert answer.header("retry-after") == "1"


async def test_the_label_of_a_generated_namespace_is_not_validated(api: Client) -> None:
    namespaces = "/api/v1/namespaces"
    made = (await api.post(namespaces, {"metadata": {"generateName": "team-"}})).ok(201)["metadata"]
    assert made["labels"] == {"kubernetes.io/metadata.name": made["name"]}
    status = failure(await api.post(namespaces, {"metadata": {"generateName": "-x_"}}), 422, "Invalid")
    assert [c["field"] for c in status["details"]["causes"]] == ["metadata.generateName", "metadata.name"]
