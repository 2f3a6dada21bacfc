"""What else looks at objects that rules convert: scale, tables, storage migration, reports, definitions of old form."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import psycopg
import pytest

from tests.api.client import APPLY, Client, eventually
from tests.api.widgets import DEFINITIONS, define
from tests.conversion.gateways import (
    BETA,
    DEFINITION,
    GROUP,
    NAME,
    OLD_FORM,
    RULES,
    V1,
    definition,
    gateway,
    version_of,
)
from tests.folders import data_folder
from tests.running import running_server

pytestmark = pytest.mark.slow  # a server and a database for each

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_scale_and_tables_are_those_of_the_version(api: Client) -> None:
    crd = definition()
    for name, path in (("v1", ".spec.scaling.replicas"), ("v1beta1", ".spec.size")):
        version = version_of(crd, name)
        version["subresources"] = {
            "status": {},
            "scale": {"specReplicasPath": path, "statusReplicasPath": ".status.replicas"},
        }
    version_of(crd, "v1")["additionalPrinterColumns"] = [
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.scaling.replicas"},
        {"name": "Tier", "type": "string", "jsonPath": ".spec.tier"},
    ]
    await define(api, crd)
    (await api.post(BETA, gateway("a", size=3))).ok(201)
    for collection, others, wanted in ((V1, BETA, 4), (BETA, V1, 5)):
        scale = (await api.get(f"{collection}/a/scale")).ok()
        assert scale["spec"]["replicas"] == wanted - 1
        (await api.put(f"{collection}/a/scale", {**scale, "spec": {"replicas": wanted}})).ok()
        assert (await api.get(f"{others}/a/scale")).ok()["spec"] == {"replicas": wanted}
    assert (await api.get(f"{V1}/a")).ok()["spec"] == {"scaling": {"replicas": 5}, "tier": "basic"}
    for collection, columns, cells in (
        (V1, ["Name", "Replicas", "Tier"], ["a", 5, "basic"]),
        (BETA, ["Name", "Size"], ["a", 5]),
    ):
        table = (await api.get(collection, accept=TABLE)).ok()
        assert [c["name"] for c in table["columnDefinitions"]] == columns
        assert [row["cells"] for row in table["rows"]] == [cells]


async def test_storage_migration_and_reports_follow_the_storage_version(api: Client, api_database: str) -> None:
    await define(api, definition())
    specs: dict[str, dict[str, Any]] = {
        "a": {"size": 1, "mode": "fast", "note": "kept", "address": "h:8443"},
        "b": {"mode": "slow"},
    }
    for name, spec in specs.items():
        (await api.post(BETA, gateway(name, **spec))).ok(201)

    async def rows() -> dict[str, tuple[str, Any]]:
        async with await psycopg.AsyncConnection.connect(api_database) as connection:
            found = await connection.execute("SELECT key, version, doc FROM objects WHERE resource = %s", (NAME,))
            return {key.rpartition("/")[2]: (version, doc) for key, version, doc in await found.fetchall()}

    before = await rows()
    assert before["a"][0] == "v1"
    assert before["a"][1]["spec"] == {"scaling": {"replicas": 1}, "mode": "Fast", "tier": "basic", "host": "h"}
    seen = {v: {i["metadata"]["name"]: i["spec"] for i in (await api.get(v)).ok()["items"]} for v in (V1, BETA)}
    assert seen[BETA] == specs

    crd = definition()
    for version in crd["spec"]["versions"]:
        version["storage"] = version["name"] == "v1beta1"
    changed = (await api.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": crd["spec"]["versions"]}})).ok()
    assert changed["status"]["storedVersions"] == ["v1", "v1beta1"]
    migrations = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
    (
        await api.post(
            migrations,
            {
                "apiVersion": "storagemigration.k8s.io/v1beta1",
                "kind": "StorageVersionMigration",
                "metadata": {"name": "m"},
                "spec": {"resource": {"group": GROUP, "resource": "gateways"}},
            },
        )
    ).ok(201)

    async def migrated() -> bool:
        status = (await api.get(f"{migrations}/m")).ok().get("status") or {}
        conditions = {c["type"]: c["status"] for c in status.get("conditions") or ()}
        assert conditions.get("Failed") != "True"
        return conditions.get("Succeeded") == "True"

    await eventually(migrated)
    assert (await api.get(f"{DEFINITIONS}/{NAME}")).ok()["status"]["storedVersions"] == ["v1beta1"]
    after = await rows()
    assert {name: (version, doc["spec"]) for name, (version, doc) in after.items()} == {
        name: ("v1beta1", spec) for name, spec in specs.items()
    }
    assert {v: {i["metadata"]["name"]: i["spec"] for i in (await api.get(v)).ok()["items"]} for v in (V1, BETA)} == seen


async def test_rules_work_in_v1beta1_definitions(api: Client) -> None:
    crd = definition()
    crd["apiVersion"] = "apiextensions.k8s.io/v1beta1"
    crd["spec"]["preserveUnknownFields"] = False
    del version_of(crd, "v1beta1")["subresources"]  # those of all versions would stand above them
    for version in crd["spec"]["versions"]:
        for column in version.get("additionalPrinterColumns") or ():
            column["JSONPath"] = column.pop("jsonPath")
    refused = json.loads(json.dumps(crd))
    refused["metadata"]["annotations"][RULES] = refused["metadata"]["annotations"][RULES].replace("Keep", "Refuse", 1)
    answer = await api.post(OLD_FORM, refused)
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == f"metadata.annotations[{RULES}].conversions[0].loss"
    made = (await api.post(OLD_FORM, crd)).ok(201)
    assert made["metadata"]["annotations"][RULES] == crd["metadata"]["annotations"][RULES]

    async def is_written() -> bool:
        return (await api.post(BETA, gateway("a", size=2))).code in (201, 409)

    await eventually(is_written)
    assert (await api.get(f"{V1}/a")).ok()["spec"] == {"scaling": {"replicas": 2}, "tier": "basic"}


async def test_applied_definitions_keep_their_rules(api: Client) -> None:
    """What server-side apply of another manager does not name stays, the annotation too."""
    text = json.dumps(definition())
    (await api.patch(f"{DEFINITIONS}/{NAME}?fieldManager=one", text, APPLY)).ok(201)
    labelled = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "labels": {"a": "b"}},
    }
    made = (await api.patch(f"{DEFINITIONS}/{NAME}?fieldManager=two", json.dumps(labelled), APPLY)).ok()
    assert made["metadata"]["annotations"][RULES] == definition()["metadata"]["annotations"][RULES]


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
def test_kubectl_applies_a_definition_with_rules() -> None:
    with data_folder() as folder, running_server(folder / "data") as server:

        def kubectl(*arguments: str, given: str = "") -> str:
            done = subprocess.run(
                ["kubectl", "--kubeconfig", str(server.kubeconfig), *arguments],
                input=given,
                text=True,
                capture_output=True,
                timeout=300,
                check=False,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(server.data_dir)},
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        wanted = definition()["metadata"]["annotations"][RULES]
        annotation = "jsonpath={.metadata.annotations.conversion\\.registry/rules}"
        for arguments in (["apply"], ["apply"], ["apply", "--server-side", "--force-conflicts"]):
            kubectl(*arguments, "-f", str(DEFINITION))
            assert kubectl("get", "crd", NAME, "-o", annotation).strip() == wanted.strip()
        kubectl("wait", "--for=condition=Established", f"crd/{NAME}", "--timeout=180s")
        kubectl("apply", "-f", "-", given=json.dumps(gateway("a", size=3, mode="fast")))
        found = json.loads(kubectl("get", f"gateways.v1.{GROUP}", "a", "-o", "json"))
        assert found["spec"] == {"scaling": {"replicas": 3}, "mode": "Fast", "tier": "basic"}
