"""Extreme numbers, selectors and names: answered as kube-apiserver answers them, or with a clear 4xx."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.api.client import APPLY, Client
from tests.api.errors import failure
from tests.api.widgets import ALL_WIDGETS, WIDGETS, make, widget
from tests.application import shares_application

RBAC = "/apis/rbac.authorization.k8s.io/v1"
LONG = "9" * 4301

OUT_OF_RANGE = [
    pytest.param(LONG, id="4,301 digits"),
    pytest.param("-" + LONG, id="4,301 digits, negative"),
    pytest.param("9" * 19, id="19 nines"),
    pytest.param("-" + "9" * 20, id="20 nines, negative"),
    pytest.param("9223372036854775808", id="one more than int64 holds"),
]


@shares_application
@pytest.mark.parametrize("number", OUT_OF_RANGE)
@pytest.mark.parametrize(
    "method, path, parameter",
    [
        ("GET", WIDGETS, "limit"),
        ("GET", WIDGETS, "timeoutSeconds"),
        ("GET", f"{WIDGETS}?watch=1", "timeoutSeconds"),
        ("DELETE", WIDGETS, "limit"),
        ("DELETE", f"{WIDGETS}/a", "gracePeriodSeconds"),
        ("DELETE", WIDGETS, "gracePeriodSeconds"),
    ],
)
async def test_integers_out_of_range(shared_api: Client, method: str, path: str, parameter: str, number: str) -> None:
    await make(shared_api, "a")
    answer = await shared_api.request(method, f"{path}{'&' if '?' in path else '?'}{parameter}={number}")
    status = failure(answer, 400, "BadRequest")
    assert status["message"] == f'strconv.ParseInt: parsing "{number}": value out of range'
    (await shared_api.get(f"{WIDGETS}/a")).ok(200)


@shares_application
@pytest.mark.parametrize(
    "query",
    [
        "limit=9223372036854775807",
        "limit=-9223372036854775808",
        "limit=" + "0" * 5000 + "2",
        "limit=%2B2",
        "timeoutSeconds=9223372036854775807",
        "timeoutSeconds=-1",
        "resourceVersion=" + "0" * 5000,
    ],
)
async def test_integers_in_range(shared_api: Client, query: str) -> None:
    await make(shared_api, "a", "b")
    assert len((await shared_api.get(f"{WIDGETS}?{query}")).ok(200)["items"]) == 2


@shares_application
@pytest.mark.parametrize("revision", [LONG, "9" * 20, "1_0", "\u0663", "\u00b2", "-1", 'a"\\'])
async def test_invalid_resource_versions(shared_api: Client, revision: str) -> None:
    shown = revision.replace("\\", "\\\\").replace('"', '\\"')
    await make(shared_api, "a")
    status = failure(await shared_api.get(f"{WIDGETS}?resourceVersion={quote(revision)}"), 400, "BadRequest")
    assert "strconv.ParseUint: parsing" in status["message"]
    body = widget("a", metadata={"resourceVersion": revision})
    answer = await shared_api.put(f"{WIDGETS}/a", body)
    assert answer.json["message"].startswith(f'strconv.ParseUint: parsing "{shown}": ')
    # As recorded from kube-apiserver 1.36.2: also of an apply that would create the object.
    answer = await shared_api.patch(
        f"{WIDGETS}/b?fieldManager=m", widget("b", metadata={"resourceVersion": revision}), APPLY
    )
    assert answer.code == 500
    assert answer.json["message"].startswith(f'strconv.ParseUint: parsing "{shown}": ')
    assert (await shared_api.get(f"{WIDGETS}/b")).code == 404
    # Events are not in the watch cache, which answers so.
    for path, code, reason in ((f"{WIDGETS}/a", 500, ""), ("/api/v1/namespaces/default/events/a", 400, "BadRequest")):
        status = failure(await shared_api.get(f"{path}?resourceVersion={quote(revision)}"), code, reason)
        assert f'resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing "{shown}": ' in status["message"]
    # A create ignores what is none.
    (await shared_api.post(WIDGETS, widget("b", metadata={"resourceVersion": revision}))).ok(201)


LABELS = [
    pytest.param("labelSelector", lambda n: ",".join(f"a{i}=b" for i in range(n)), id="labels"),
    pytest.param("labelSelector", lambda n: ",".join("a" for _ in range(n)), id="one label"),
    pytest.param("labelSelector", lambda n: ",".join(f"a{i} notin (b,c)" for i in range(n)), id="notin"),
    pytest.param("labelSelector", lambda n: ",".join(f"!a{i}" for i in range(n)), id="absent"),
    pytest.param("labelSelector", lambda n: ",".join(f"a{i}>1" for i in range(n)), id="greater"),
    pytest.param("fieldSelector", lambda n: ",".join(f"spec.color!=c{i}" for i in range(n)), id="fields"),
    pytest.param("fieldSelector", lambda n: ",".join(f"metadata.name!=c{i}" for i in range(n)), id="names"),
    pytest.param("fieldSelector", lambda n: ",".join(f"metadata.namespace!=c{i}" for i in range(n)), id="namespaces"),
]


@shares_application
@pytest.mark.parametrize("parameter, text", LABELS)
@pytest.mark.parametrize("count", [501, 1500, 10_000])
async def test_selectors_of_too_many_requirements(shared_api: Client, parameter: str, text: Any, count: int) -> None:
    query = f"{parameter}={quote(text(count))}"
    for method, path in (
        ("GET", f"{WIDGETS}?{query}"),
        ("GET", f"{ALL_WIDGETS}?watch=1&timeoutSeconds=1&{query}"),
        ("DELETE", f"{WIDGETS}?{query}"),
    ):
        status = failure(await shared_api.request(method, path), 400, "BadRequest")
        assert status["message"] == "the selector has more than 500 requirements"


@shares_application
async def test_selectors_of_many_requirements(shared_api: Client) -> None:
    await make(shared_api, "a")
    labels = ",".join(f"!a{i}" for i in range(500))
    fields = ",".join(f"spec.color!=c{i}" for i in range(500))
    query = f"labelSelector={quote(labels)}&fieldSelector={quote(fields)}"
    assert len((await shared_api.get(f"{WIDGETS}?{query}")).ok(200)["items"]) == 1


@shares_application
async def test_selectors_of_many_values(shared_api: Client) -> None:
    values = ",".join(f"b{i}" for i in range(10_000))
    assert (await shared_api.get(f"{WIDGETS}?labelSelector={quote(f'a in ({values})')}")).ok(200)["items"] == []


@shares_application
@pytest.mark.parametrize("name", ["\0", "a\0b"])
@pytest.mark.parametrize(
    "kind, path, body",
    [
        ("ClusterRole", f"{RBAC}/clusterroles", {"rules": []}),
        ("Role", f"{RBAC}/namespaces/default/roles", {"rules": []}),
        (
            "ClusterRoleBinding",
            f"{RBAC}/clusterrolebindings",
            {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}},
        ),
        (
            "RoleBinding",
            f"{RBAC}/namespaces/default/rolebindings",
            {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}},
        ),
    ],
)
async def test_names_with_a_null_character(shared_api: Client, kind: str, path: str, body: Any, name: str) -> None:
    obj = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **body}
    for answer in (await shared_api.post(path, obj), await shared_api.put(f"{path}/{quote(name)}", obj)):
        [cause] = failure(answer, 422, "Invalid")["details"]["causes"]
        assert (cause["field"], cause["reason"]) == ("metadata.name", "FieldValueInvalid")
        assert "may not contain U+0000" in cause["message"]
    failure(await shared_api.get(f"{path}/{quote(name)}"), 404, "NotFound")
