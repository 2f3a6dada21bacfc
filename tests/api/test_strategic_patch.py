"""Strategic merge patches of built-in kinds: numbers, the keys of list items, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import MERGE, Body, Client
from tests.api.errors import failure
from tests.api.widgets import NAMESPACES
from tests.application import shares_application

pytestmark = shares_application

STRATEGIC = "application/strategic-merge-patch+json"


async def test_a_strategic_patch_of_a_built_in_kind(api: Client) -> None:
    patched = (await api.patch(f"{NAMESPACES}/default", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC)).ok()
    assert patched["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default", "a": "b"}


@pytest.mark.parametrize("sent, stored", [("1.0", 1), ("1e2", 100), ("1.5", None)])
async def test_whole_floats_in_a_strategic_patch(api: Client, sent: str, stored: int | None) -> None:
    """As recorded from kube-apiserver 1.36.2, which refuses them in a merge patch."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    (await api.post(lease, made)).ok(201)
    patch = f'{{"spec":{{"leaseDurationSeconds":{sent}}}}}'.encode()
    answer = await api.request("PATCH", f"{lease}/a", patch, content_type=STRATEGIC)
    if stored is None:
        failure(answer, 422, "Invalid")
    else:
        assert answer.ok()["spec"] == {"leaseDurationSeconds": stored}
    failure(await api.request("PATCH", f"{lease}/a", patch, content_type=MERGE), 422, "Invalid")


@pytest.mark.parametrize(
    "sent, answered",
    [
        ('{"port":80.0,"$patch":"delete"}', [80, 81]),
        ('{"port":8e1,"name":"c"}', 'spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP"'),
        ('{"port":80,"$patch":"delete"}', [81]),
    ],
)
async def test_the_key_of_a_list_item_in_a_strategic_patch(api: Client, sent: str, answered: Any) -> None:
    """As of kube-apiserver 1.36.2: the float 80.0 is another key than 80."""
    services = "/api/v1/namespaces/default/services"
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    (await api.post(services, {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": ports}})).ok(201)
    patch = f'{{"spec":{{"ports":[{sent}]}}}}'.encode()
    answer = await api.request("PATCH", f"{services}/s", patch, content_type=STRATEGIC)
    if isinstance(answered, str):
        assert answered in failure(answer, 422, "Invalid")["message"]
    else:
        assert [port["port"] for port in answer.ok()["spec"]["ports"]] == answered


@pytest.mark.parametrize(
    "patch, code, message",
    [
        pytest.param(
            {"metadata": {"labels": {"x": 1}}},
            422,
            ' "" is invalid: patch: Invalid value: "map[metadata:map[labels:map[x:1]]]": cannot convert int64 to string',
            id="a value of another type",
        ),
        pytest.param("x", 400, "invalid JSON patch", id="no JSON"),
        pytest.param("", 400, "invalid JSON patch", id="nothing"),
    ],
)
async def test_a_strategic_patch_that_is_refused(api: Client, patch: Body, code: int, message: str) -> None:
    answer = await api.patch(f"{NAMESPACES}/default", patch, STRATEGIC)
    assert failure(answer, code, answer.json["reason"])["message"] == message


@pytest.mark.usefixtures("as_1_36")
@pytest.mark.parametrize(
    "patch, message",
    [("x", "invalid character 'x' looking for beginning of value"), ("", "unexpected end of JSON input")],
)
async def test_a_malformed_strategic_patch_in_1_36(api: Client, patch: Body, message: str) -> None:
    answer = await api.patch(f"{NAMESPACES}/default", patch, STRATEGIC)
    assert failure(answer, 400, "BadRequest")["message"] == message
