"""dryRun=All: validated and answered like a write, but never stored and never sent to a watch."""

from __future__ import annotations

import json

import pytest

from tests.api.client import APPLY, JSON_PATCH, Client
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, NAMESPACES, WIDGETS, definition, make, names_of, widget
from tests.application import has_own_application, shares_application

pytestmark = shares_application

A = f"{WIDGETS}/a"
DRY = "?dryRun=All"


@has_own_application
async def test_no_verb_writes(api: Client) -> None:
    [made] = await make(api, "a", size=1)
    revision = (await api.get(WIDGETS)).ok()["metadata"]["resourceVersion"]
    created = (await api.post(WIDGETS + DRY, widget("b"))).ok(201)
    assert created["metadata"]["uid"]
    assert "resourceVersion" not in created["metadata"]
    assert (await api.put(A + DRY, {**made, "spec": {"size": 2}})).ok()["spec"]["size"] == 2
    assert (await api.patch(A + DRY, {"spec": {"size": 3}})).ok()["spec"]["size"] == 3
    test = [{"op": "replace", "path": "/spec/size", "value": 4}]
    assert (await api.patch(A + DRY, test, JSON_PATCH)).ok()["spec"]["size"] == 4
    applied = await api.patch(f"{WIDGETS}/c{DRY}&fieldManager=me", widget("c", size=5), APPLY)
    assert applied.ok(201)["spec"]["size"] == 5
    assert (await api.patch(f"{A}/status{DRY}", {"status": {"phase": "x"}})).ok()["status"] == {"phase": "x"}
    assert (await api.patch(f"{A}/scale{DRY}", {"spec": {"replicas": 3}})).code in (200, 500)
    (await api.delete(A + DRY)).ok(200)
    (await api.delete(WIDGETS + DRY)).ok(200)
    after = (await api.get(WIDGETS)).ok()
    assert after["items"] == [{**made}]
    assert after["metadata"]["resourceVersion"] == revision


@pytest.mark.parametrize("revision", ["abc", "0", "7"])
async def test_a_create_repeats_the_resource_version_that_a_client_sent(api: Client, revision: str) -> None:
    body = {**widget("b"), "metadata": {"name": "b", "resourceVersion": revision}}
    assert (await api.post(WIDGETS + DRY, body)).ok(201)["metadata"]["resourceVersion"] == revision


async def test_a_dry_run_is_validated_like_a_write(api: Client) -> None:
    await make(api, "a")
    failure(await api.post(WIDGETS + DRY, widget("b", size=-1)), 422, "Invalid")
    failure(await api.post(WIDGETS + DRY, widget("a")), 409, "AlreadyExists")
    failure(await api.put(A + DRY, widget("a", metadata={"resourceVersion": "1"})), 409, "Conflict")
    failure(await api.delete(f"{WIDGETS}/none{DRY}"), 404, "NotFound")


async def test_dry_runs_of_definitions_and_namespaces(api: Client) -> None:
    (await api.post(DEFINITIONS + DRY, definition("gears", "Gear"))).ok(201)
    (await api.post(NAMESPACES + DRY, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})).ok(201)
    assert names_of((await api.get(DEFINITIONS)).ok()) == ["widgets.test.example.com"]
    assert "n" not in names_of((await api.get(NAMESPACES)).ok())


@pytest.mark.parametrize("value", ["", "all", "Some"])
async def test_another_value_is_refused(api: Client, value: str) -> None:
    failure(await api.post(f"{WIDGETS}?dryRun={value}", widget("a")), 422, "Invalid")


@pytest.mark.parametrize("verb", ["post", "patch"])
async def test_managed_fields_are_in_the_order_of_what_is_stored(api: Client, verb: str) -> None:
    sent = widget("a", size=1, free={"b": 1, "a": 2}, color="red")
    if verb == "post":
        dry, stored = [await api.post(WIDGETS + query, sent) for query in (DRY, "")]
    else:
        await make(api, "a", size=2)
        dry, stored = [await api.patch(A + query, {"spec": sent["spec"]}) for query in (DRY, "")]
    fields = [answer.ok()["metadata"]["managedFields"][0]["fieldsV1"] for answer in (dry, stored)]
    assert json.dumps(fields[0]) == json.dumps(fields[1])
    assert list(fields[0]["f:spec"]["f:free"]) == [".", "f:a", "f:b"]
