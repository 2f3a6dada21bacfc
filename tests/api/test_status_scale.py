"""The subresources status and scale."""

from __future__ import annotations

import pytest

from tests.api.client import JSON_PATCH, Client
from tests.api.errors import failure
from tests.api.widgets import GROUP, WIDGETS, define, definition, make

A = f"{WIDGETS}/a"


async def test_status_takes_the_status_only(api: Client) -> None:
    [made] = await make(api, "a", size=1)
    body = {**made, "spec": {"size": 9}, "status": {"phase": "Done"}}
    body["metadata"] = {**made["metadata"], "labels": {"x": "y"}}
    stated = (await api.put(f"{A}/status", body)).ok(200)
    assert stated["status"] == {"phase": "Done"}
    assert stated["spec"] == made["spec"]
    assert "labels" not in stated["metadata"]
    assert (await api.get(f"{A}/status")).ok() == stated


async def test_status_is_validated(api: Client) -> None:
    await make(api, "a")
    failure(await api.patch(f"{A}/status", {"status": {"phase": 5}}), 422, "Invalid")


async def test_scale_is_read_and_written(api: Client) -> None:
    await make(api, "a", replicas=3)
    scale = (await api.get(f"{A}/scale")).ok()
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 3})
    scale["spec"]["replicas"] = 5
    assert (await api.put(f"{A}/scale", scale)).ok()["spec"] == {"replicas": 5}
    patch = [{"op": "replace", "path": "/spec/replicas", "value": 7}]
    assert (await api.patch(f"{A}/scale", patch, JSON_PATCH)).ok()["spec"] == {"replicas": 7}
    assert (await api.get(A)).ok()["spec"]["replicas"] == 7


async def test_an_old_scale_is_a_conflict(api: Client) -> None:
    await make(api, "a", replicas=3)
    scale = (await api.get(f"{A}/scale")).ok()
    (await api.patch(A, {"spec": {"replicas": 4}})).ok()
    failure(await api.put(f"{A}/scale", scale), 409, "Conflict")


@pytest.mark.parametrize("subresource", ["status", "scale"])
async def test_what_a_definition_does_not_have(api: Client, subresource: str) -> None:
    await define(api, definition("plain", "Plain"))
    path = f"/apis/{GROUP}/v1/namespaces/default/plain"
    (await api.post(path, {"apiVersion": f"{GROUP}/v1", "kind": "Plain", "metadata": {"name": "a"}})).ok(201)
    answer = await api.get(f"{path}/a/{subresource}")
    assert answer.code == 404


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("subresource", ["status", "scale"])
async def test_verbs_that_they_do_not_take(api: Client, subresource: str, method: str) -> None:
    await make(api, "a")
    failure(await api.request(method, f"{A}/{subresource}", {}), 405, "MethodNotAllowed")


@pytest.mark.parametrize("subresource", ["status", "scale"])
async def test_of_what_is_not_there(api: Client, subresource: str) -> None:
    failure(await api.get(f"{WIDGETS}/none/{subresource}"), 404, "NotFound")
