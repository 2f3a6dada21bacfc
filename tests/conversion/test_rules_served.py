"""Two versions that are converted by rules, through HTTP: every verb, apply, watch, status, and definitions refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.conversion.declarative.complement import ANNOTATION
from tests.api.client import APPLY, Client
from tests.api.widgets import DEFINITIONS, define
from tests.conversion.gateways import BETA, RULES, V1, definition, gateway

pytestmark = pytest.mark.slow  # a server and a database for each


@pytest.fixture
async def defined(api: Client) -> Client:
    await define(api, definition())
    return api


async def test_every_verb_at_both_versions(defined: Client) -> None:
    written: dict[str, Any] = {"size": 3, "mode": "fast", "address": "h:8443", "note": "kept", "ports": [{"num": 80}]}
    made = (await defined.post(BETA, gateway("a", **written))).ok(201)
    assert made["spec"] == written
    assert ANNOTATION not in made["metadata"].get("annotations", {})
    new = (await defined.get(f"{V1}/a")).ok()
    assert new["spec"] == {
        "scaling": {"replicas": 3},
        "mode": "Fast",
        "tier": "basic",
        "host": "h",
        "ports": [{"number": 80}],
    }
    assert (await defined.patch(f"{V1}/a", {"spec": {"scaling": {"replicas": 4}}})).ok()["metadata"]["generation"] == 2
    assert (await defined.get(f"{BETA}/a")).ok()["spec"] == {**written, "size": 4}
    replaced = (await defined.put(f"{BETA}/a", {**(await defined.get(f"{BETA}/a")).ok(), "spec": written})).ok()
    assert replaced["spec"] == written
    assert (await defined.put(f"{BETA}/a/status", {**replaced, "status": {"ready": True}})).ok()["spec"] == written
    assert (await defined.get(f"{V1}/a")).ok()["status"] == {"ready": True}
    assert [i["spec"] for i in (await defined.get(BETA)).ok()["items"]] == [written]
    (await defined.delete(f"{BETA}/a")).ok()


async def test_fields_of_the_storage_version_survive_a_patch_at_another_version(defined: Client) -> None:
    (await defined.post(V1, gateway("a", "v1", tier="gold", mode="Slow"))).ok(201)
    assert (await defined.patch(f"{BETA}/a", {"spec": {"size": 1}})).ok()["spec"] == {"mode": "slow", "size": 1}
    assert (await defined.get(f"{V1}/a")).ok()["spec"] == {"tier": "gold", "mode": "Slow", "scaling": {"replicas": 1}}


async def test_field_owners_are_compared_at_their_own_version(defined: Client) -> None:
    body = json.dumps(gateway("a", "v1", scaling={"replicas": 1}))
    (await defined.patch(f"{V1}/a?fieldManager=one", body, APPLY)).ok(201)
    refused = await defined.patch(f"{BETA}/a?fieldManager=two", json.dumps(gateway("a", size=2)), APPLY)
    assert refused.code == 409
    assert [c["field"] for c in refused.json["details"]["causes"]] == [".spec.scaling.replicas"]


async def test_a_watch_returns_the_requested_version(defined: Client) -> None:
    async with defined.watch(f"{BETA}?watch=1") as watch:
        (await defined.post(V1, gateway("a", "v1", mode="Fast"))).ok(201)
        (await defined.patch(f"{V1}/a", {"spec": {"mode": "Slow"}})).ok()
        events = await watch.events(2)
    assert [e["object"]["spec"] for e in events] == [{"mode": "fast"}, {"mode": "slow"}]


async def test_an_object_that_an_expression_cannot_convert_is_refused(defined: Client) -> None:
    broken = definition()
    text = broken["metadata"]["annotations"][RULES]
    broken["metadata"]["annotations"][RULES] = text.replace(".split(':')[0]", ".split(':')[1]")
    (await defined.patch(f"{DEFINITIONS}/{broken['metadata']['name']}", {"metadata": broken["metadata"]})).ok()
    refused = await defined.post(BETA, gateway("a", address="h"))
    assert refused.code == 500
    assert refused.json["message"] == (
        "conversion of Gateway 'a' from v1beta1 to v1 failed: spec.host: index out of bounds: 1"
    )


@pytest.mark.parametrize(
    ("old", "new", "field", "says"),
    [
        pytest.param(
            "loss: Keep", "loss: Refuse", "conversions[0].loss", "spec.note of v1beta1 is not in v1", id="lossy"
        ),
        pytest.param("to: v1\n", "to: v2\n", "conversions[0].to", "no such version", id="version"),
        pytest.param("spec.size,", "spec.sise,", "conversions[0].rules[0].move", "no field spec.sise", id="field"),
    ],
)
async def test_definitions_with_invalid_rules_are_refused(
    api: Client, old: str, new: str, field: str, says: str
) -> None:
    broken = definition()
    broken["metadata"]["annotations"][RULES] = broken["metadata"]["annotations"][RULES].replace(old, new, 1)
    refused = await api.post(DEFINITIONS, broken)
    assert refused.code == 422
    [cause] = refused.json["details"]["causes"]
    assert cause["field"] == f"metadata.annotations[{RULES}].{field}"
    assert says in cause["message"]
