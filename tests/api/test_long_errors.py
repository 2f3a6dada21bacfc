"""The length of an error is bounded even if a long key is part of every path below it."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from tests.api.client import APPLY, Answer, Client
from tests.api.widgets import GROUP, define, definition
from tests.application import shares_application

pytestmark = shares_application

KEY = "k" * 200_000
BOUND = 1_000_000
PATH = f"/apis/{GROUP}/v1/namespaces/default/trees"


def tree(**members: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Trees",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"maps": {KEY: members}},
    }


@pytest_asyncio.fixture(loop_scope="module")
async def trees(api: Client) -> Client:
    """Maps of maps of numbers."""
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    maps = {"type": "object", "additionalProperties": numbers}
    made = definition("trees", "Trees")
    (version,) = made["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["maps"] = maps
    await define(api, made)
    return api


async def wrong_values(api: Client) -> Answer:
    return await api.post(PATH, tree(**{f"m{i}": "x" for i in range(2_000)}))


async def conflicts(api: Client) -> Answer:
    first = tree(**{f"m{i}": 1 for i in range(2_000)})
    assert (await api.patch(f"{PATH}/a?fieldManager=one", first, APPLY)).code == 201
    other = tree(**{f"m{i}": 2 for i in range(2_000)})
    return await api.patch(f"{PATH}/a?fieldManager=two", other, APPLY)


async def repeated_keys(api: Client) -> Answer:
    members = ",".join(f'"m{i}":1,"m{i}":2' for i in range(2_000))
    body = f'{{"apiVersion":"{GROUP}/v1","kind":"Trees","metadata":{{"name":"a"}},"spec":{{"maps":{{"{KEY}":{{{members}}}}}}}}}'
    return await api.post(f"{PATH}?fieldValidation=Strict", body)


async def unknown_fields(api: Client) -> Answer:
    body = tree()
    body["spec"] = {f"{KEY[:9_900]}{i}": 1 for i in range(200)}
    return await api.post(f"{PATH}?fieldValidation=Strict", body)


@pytest.mark.parametrize("ask", [wrong_values, conflicts, repeated_keys, unknown_fields])
async def test_error_texts_do_not_grow_with_long_keys(trees: Client, ask: Any) -> None:
    answer = await ask(trees)
    assert 400 <= answer.code < 500
    assert len(answer.body) < BOUND, f"{answer.code}: {len(answer.body)} bytes"
