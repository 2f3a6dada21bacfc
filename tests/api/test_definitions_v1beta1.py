"""apiextensions.k8s.io/v1beta1 next to v1: one definition in two versions, writable in either."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import APPLY, TABLE, Client, eventually
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, GROUP
from tests.application import shares_application

pytestmark = shares_application


BETA = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions"
NAME = f"gears.{GROUP}"
GEARS = f"/apis/{GROUP}/v1/namespaces/default/gears"
WARNING = (
    "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in v1.22+; use "
    "apiextensions.k8s.io/v1 CustomResourceDefinition"
)
LOOSE: dict[str, Any] = {"properties": {"spec": {"properties": {"teeth": {"type": "integer", "minimum": 3}}}}}


def gears(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {"group": GROUP, "version": "v1", "names": {"plural": "gears", "kind": "Gear"}} | spec,
    }


def gear(name: str, **members: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Gear", "metadata": {"name": name}, **members}


async def defined(api: Client, **spec: Any) -> None:
    """Until it is served, and the last of its conditions has been written."""
    (await api.post(BETA, gears(**spec))).ok(201)
    last = (
        {"Established", "NonStructuralSchema"}
        if spec.get("validation") == {"openAPIV3Schema": LOOSE}
        else {"Established"}
    )

    async def is_established() -> bool:
        conditions = (await api.get(f"{BETA}/{NAME}")).ok()["status"]["conditions"] or ()
        return last <= {c["type"] for c in conditions if c["status"] == "True"} and (await api.get(GEARS)).code == 200

    await eventually(is_established)


async def test_every_verb_warns_of_the_deprecated_version(api: Client) -> None:
    await defined(api)
    for answer in (
        await api.get(f"{BETA}/{NAME}"),
        await api.get(BETA),
        await api.get(f"{BETA}/none"),
        await api.post(BETA, gears()),
        await api.patch(f"{BETA}/{NAME}", {}),
        await api.delete(f"{BETA}/{NAME}"),
    ):
        assert answer.warnings == [WARNING]
    assert (await api.get(DEFINITIONS)).warnings == []


async def test_definitions_are_converted_between_versions(api: Client) -> None:
    column = {"name": "Teeth", "type": "integer"}
    await defined(
        api,
        validation={"openAPIV3Schema": LOOSE},
        subresources={"status": {}},
        additionalPrinterColumns=[{**column, "JSONPath": ".spec.teeth"}],
    )
    new, old = (await api.get(f"{DEFINITIONS}/{NAME}")).ok(), (await api.get(f"{BETA}/{NAME}")).ok()
    assert new["apiVersion"] == "apiextensions.k8s.io/v1"
    assert new["spec"]["preserveUnknownFields"] is True
    assert new["spec"]["versions"] == [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": LOOSE},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{**column, "jsonPath": ".spec.teeth"}],
        }
    ]
    assert old["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    assert (old["spec"]["version"], old["spec"]["scope"]) == ("v1", "Namespaced")
    assert old["spec"]["validation"] == {"openAPIV3Schema": LOOSE}
    assert old["spec"]["versions"] == [{"name": "v1", "served": True, "storage": True}]
    assert old["spec"]["additionalPrinterColumns"] == [{**column, "JSONPath": ".spec.teeth"}]
    assert old["status"] == new["status"]
    assert {k: v for k, v in old["metadata"].items() if k != "managedFields"} == {
        k: v for k, v in new["metadata"].items() if k != "managedFields"
    }
    columns = [c["name"] for c in (await api.get(GEARS, accept=TABLE)).ok()["columnDefinitions"]]
    assert columns == ["Name", "Teeth"]


async def test_nothing_is_pruned_and_the_schema_validates(api: Client) -> None:
    await defined(api, validation={"openAPIV3Schema": LOOSE})
    made = (await api.post(GEARS, gear("a", spec={"teeth": 3, "x": {"y": [1]}}, other={"z": None}))).ok(201)
    assert (made["spec"], made["other"]) == ({"teeth": 3, "x": {"y": [1]}}, {"z": None})
    assert (await api.get(f"{GEARS}/a")).ok()["spec"] == {"teeth": 3, "x": {"y": [1]}}
    refused = failure(await api.post(GEARS, gear("b", spec={"teeth": 2})), 422, "Invalid")
    assert [c["field"] for c in refused["details"]["causes"]] == ["spec.teeth"]
    applied = await api.patch(f"{GEARS}/a?fieldManager=m", gear("a", spec={"x": {"w": 1}}), APPLY)
    assert applied.ok()["spec"] == {"teeth": 3, "x": {"y": [1], "w": 1}}


async def test_unknown_types_accept_no_value(api: Client) -> None:
    await defined(api, validation={"openAPIV3Schema": {"properties": {"spec": {"type": "wheel"}}}})
    (await api.post(GEARS, gear("a", other=1))).ok(201)
    refused = failure(await api.post(GEARS, gear("b", spec={"teeth": 2})), 422, "Invalid")
    assert [(c["field"], c["message"]) for c in refused["details"]["causes"]] == [
        ("spec", 'Invalid value: "object": spec in body must be of type wheel: "object"')
    ]


async def test_the_condition_non_structural_schema_is_set(api: Client) -> None:
    await defined(api, validation={"openAPIV3Schema": LOOSE})

    async def condition() -> Any:
        conditions = (await api.get(f"{BETA}/{NAME}")).ok()["status"]["conditions"]
        return next((c for c in conditions if c["type"] == "NonStructuralSchema"), None)

    found = await eventually(condition)
    assert (found["status"], found["reason"]) == ("True", "Violations")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    patch = {
        "spec": {
            "preserveUnknownFields": False,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        }
    }
    (await api.patch(f"{DEFINITIONS}/{NAME}", patch)).ok()

    async def gone() -> bool:
        return await condition() is None

    await eventually(gone)


async def test_putting_back_a_definition_changes_nothing(api: Client) -> None:
    await defined(api, validation={"openAPIV3Schema": LOOSE}, subresources={"status": {}})
    before = (await api.get(f"{BETA}/{NAME}")).ok()
    after = (await api.put(f"{BETA}/{NAME}", before)).ok()
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    # And so does v1 with what v1beta1 has made.
    new = (await api.get(f"{DEFINITIONS}/{NAME}")).ok()
    assert (await api.put(f"{DEFINITIONS}/{NAME}", new)).ok()["metadata"]["generation"] == 1


async def test_patches_and_generations(api: Client) -> None:
    await defined(api)
    patched = (await api.patch(f"{BETA}/{NAME}", {"spec": {"validation": {"openAPIV3Schema": LOOSE}}})).ok()
    assert patched["metadata"]["generation"] == 2
    assert (await api.get(f"{DEFINITIONS}/{NAME}")).ok()["spec"]["versions"][0]["schema"] == {"openAPIV3Schema": LOOSE}
    labelled = (await api.patch(f"{BETA}/{NAME}", {"metadata": {"labels": {"a": "b"}}})).ok()
    assert labelled["metadata"]["generation"] == 2
    status = (
        await api.patch(
            f"{BETA}/{NAME}/status", {"spec": {"version": "v2"}, "status": {"storedVersions": ["v1", "v0"]}}
        )
    ).ok()
    assert (status["spec"]["version"], status["status"]["storedVersions"]) == ("v1", ["v1", "v0"])


async def test_apply_and_its_owners(api: Client) -> None:
    applied = (
        await api.patch(
            f"{BETA}/{NAME}?fieldManager=a",
            gears(additionalPrinterColumns=[{"name": "T", "type": "integer", "JSONPath": ".spec.t"}]),
            APPLY,
        )
    ).ok(201)
    [entry] = [e for e in applied["metadata"]["managedFields"] if e["operation"] == "Apply"]
    assert entry["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    assert "f:additionalPrinterColumns" in entry["fieldsV1"]["f:spec"]
    conflict = failure(await api.patch(f"{BETA}/{NAME}?fieldManager=b", gears(version="v2"), APPLY), 409, "Conflict")
    assert [c["field"] for c in conflict["details"]["causes"]] == [".spec.version"]
    # What v1 takes away is nobody's any more.
    (
        await api.patch(
            f"{DEFINITIONS}/{NAME}",
            {
                "spec": {
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": {"type": "object"}},
                        }
                    ]
                }
            },
        )
    ).ok()
    entries = (await api.get(f"{BETA}/{NAME}")).ok()["metadata"]["managedFields"]
    [entry] = [e for e in entries if e["operation"] == "Apply"]
    assert "f:additionalPrinterColumns" not in entry["fieldsV1"]["f:spec"]
    assert "f:version" in entry["fieldsV1"]["f:spec"]


async def test_lists_tables_and_watches(api: Client) -> None:
    revision = (await api.get(BETA)).ok()["metadata"]["resourceVersion"]
    async with api.watch(f"{BETA}?watch=1&resourceVersion={revision}") as watch:
        await defined(api)
        event = await watch.event()
        assert (event["type"], event["object"]["apiVersion"], event["object"]["spec"]["version"]) == (
            "ADDED",
            "apiextensions.k8s.io/v1beta1",
            "v1",
        )
    listed = (await api.get(BETA)).ok()
    assert listed["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    names = {item["metadata"]["name"]: item["spec"]["preserveUnknownFields"] for item in listed["items"]}
    assert names == {NAME: True, f"widgets.{GROUP}": False}
    table = (await api.get(f"{BETA}/{NAME}", accept=TABLE)).ok()
    assert [row["cells"][0] for row in table["rows"]] == [NAME]


async def test_dry_runs_and_deletion(api: Client) -> None:
    pretended = (await api.post(f"{BETA}?dryRun=All", gears())).ok(201)
    assert pretended["apiVersion"] == "apiextensions.k8s.io/v1beta1"
    failure(await api.get(f"{BETA}/{NAME}"), 404, "NotFound")
    await defined(api)
    deleted = (await api.delete(f"{BETA}/{NAME}")).ok(200)
    assert deleted["kind"] in ("Status", "CustomResourceDefinition")


@pytest.mark.parametrize("path, version", [(DEFINITIONS, "v1beta1"), (BETA, "v1")])
async def test_a_body_of_the_other_version(api: Client, path: str, version: str) -> None:
    other = "v1" if version == "v1beta1" else "v1beta1"
    body = gears() | {"apiVersion": f"apiextensions.k8s.io/{version}"}
    refused = failure(await api.post(path, body), 400, "BadRequest")
    assert refused["message"] == (
        f"the API version in the data (apiextensions.k8s.io/{version}) does not match the "
        f"expected API version (apiextensions.k8s.io/{other})"
    )


async def test_the_version_is_in_discovery(api: Client) -> None:
    group = (await api.get("/apis/apiextensions.k8s.io")).ok()
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"
    resources = (await api.get("/apis/apiextensions.k8s.io/v1beta1")).ok()["resources"]
    assert [r["name"] for r in resources] == ["customresourcedefinitions", "customresourcedefinitions/status"]
    document = (await api.get("/openapi/v3/apis/apiextensions.k8s.io/v1beta1")).ok()
    assert any(name.endswith("v1beta1.CustomResourceDefinition") for name in document["components"]["schemas"])
