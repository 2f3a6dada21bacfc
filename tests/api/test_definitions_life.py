"""The life cycle of a definition: established, changed while objects exist, deleted with its objects."""

from __future__ import annotations

from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, define, definition, make, widget
from tests.application import shares_application

pytestmark = shares_application

NAME = f"widgets.{GROUP}"
SIZE = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size"


async def gone(api: Client, path: str) -> None:
    async def missing() -> bool:
        return (await api.get(path)).code == 404

    await eventually(missing)


async def test_a_definition_is_served_once_it_is_established(api: Client) -> None:
    made = await define(api, definition("gears", "Gear"))
    assert {c["type"]: c["status"] for c in made["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert made["status"]["storedVersions"] == ["v1"]
    assert (await api.get(f"/apis/{GROUP}/v1/namespaces/default/gears")).ok()["kind"] == "GearList"


async def test_a_name_in_use_is_not_accepted(api: Client) -> None:
    taken = definition("gears", "Gear")
    taken["spec"]["names"]["shortNames"] = ["wd"]
    (await api.post(DEFINITIONS, taken)).ok(201)

    async def conditions() -> dict[str, str]:
        found = (await api.get(f"{DEFINITIONS}/gears.{GROUP}")).ok()["status"].get("conditions") or []
        return {c["type"]: c["status"] for c in found}

    assert (await eventually(conditions))["NamesAccepted"] == "False"
    (await api.delete(f"{DEFINITIONS}/{NAME}")).ok()

    async def accepted() -> bool:
        return (await conditions()).get("NamesAccepted") == "True"

    await eventually(accepted)


async def test_a_change_is_enforced_once_it_is_answered(api: Client) -> None:
    await make(api, "a", size=50)
    bound = [{"op": "add", "path": f"{SIZE}/maximum", "value": 10}]
    (await api.patch(f"{DEFINITIONS}/{NAME}", bound, "application/json-patch+json")).ok()
    failure(await api.post(WIDGETS, widget("b", size=11)), 422, "Invalid")
    # What is stored stays, and may stay as it is in a write of something else.
    (await api.patch(f"{WIDGETS}/a", {"metadata": {"labels": {"x": "y"}}})).ok()
    failure(await api.patch(f"{WIDGETS}/a", {"spec": {"size": 51}}), 422, "Invalid")


async def test_a_definition_is_deleted_with_its_objects(api: Client) -> None:
    await make(api, "a", "b")
    marked = (await api.delete(f"{DEFINITIONS}/{NAME}")).ok()
    assert marked["status"] == "Success" or marked["metadata"]["deletionTimestamp"]
    await gone(api, f"{DEFINITIONS}/{NAME}")
    assert (await api.get(WIDGETS)).code == 404
    await define(api, definition())
    assert (await api.get(WIDGETS)).ok()["items"] == []


async def test_the_deletion_waits_for_objects_with_finalizers(api: Client) -> None:
    (await api.post(WIDGETS, widget("a", metadata={"finalizers": ["example.com/hold"]}))).ok(201)
    (await api.delete(f"{DEFINITIONS}/{NAME}")).ok()

    async def marked() -> bool:
        return "deletionTimestamp" in (await api.get(f"{WIDGETS}/a")).ok()["metadata"]

    await eventually(marked)
    status = failure(await api.post(WIDGETS, widget("b")), 403, "Forbidden")
    assert status["message"].endswith("create not allowed while custom resource definition is terminating")
    (await api.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})).ok()
    await gone(api, f"{DEFINITIONS}/{NAME}")


async def test_a_definition_with_an_invalid_ca_bundle_has_no_path_in_another_scope(api: Client) -> None:
    unfit = definition("gears", "Gear")
    client = {"url": "https://127.0.0.1/", "caBundle": "QUJD"}
    unfit["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
    }
    (await api.post(DEFINITIONS, unfit)).ok(201)

    async def unresolvable() -> bool:
        return (await api.get(f"/apis/{GROUP}/v1/gears")).code == 500

    await eventually(unresolvable)
    failure(await api.post(f"/apis/{GROUP}/v1/namespaces/default/gears", {}), 500, "InternalError")
    assert (await api.post(f"/apis/{GROUP}/v1/gears", {})).code == 404
    (await api.delete(f"{DEFINITIONS}/gears.{GROUP}")).ok()
