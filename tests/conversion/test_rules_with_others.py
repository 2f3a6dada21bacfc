"""Rules beside what else looks at objects: policies, the past, encryption, SQL views."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from registry.conversion.declarative.complement import ANNOTATION
from registry.store.encryption import master_keys
from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, define
from tests.application import serving
from tests.conversion.gateways import BETA, GROUP, NAME, OLD_FORM, V1, definition, gateway, version_of

pytestmark = pytest.mark.slow  # a server and a database for each

ADMISSION = "/apis/admissionregistration.k8s.io/v1"


def named(kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "p"}, "spec": spec}


def matching(version: str, policy: str = "Equivalent") -> dict[str, Any]:
    return {
        "matchPolicy": policy,
        "resourceRules": [
            {
                "apiGroups": [GROUP],
                "apiVersions": [version],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["gateways"],
            }
        ],
    }


async def store_at(api: Client, stored: str) -> None:
    """From now on objects are stored at this version."""
    crd = definition()
    for version in crd["spec"]["versions"]:
        version["storage"] = version["name"] == stored
    (await api.patch(f"{DEFINITIONS}/{NAME}", {"spec": {"versions": crd["spec"]["versions"]}})).ok()


async def test_policies_see_the_version_that_they_match(api: Client) -> None:
    await define(api, definition())
    (await api.post(BETA, gateway("before", size=2, note="kept"))).ok(201)
    expression = (
        "object.spec.scaling.replicas < 5 && request.resource.version == 'v1' && "
        "request.requestResource.version != '' && "
        "(oldObject == null || oldObject.spec.scaling.replicas == 2)"
    )
    policy = named(
        "ValidatingAdmissionPolicy",
        matchConstraints=matching("v1"),
        validations=[
            {
                "expression": expression,
                "messageExpression": "request.requestKind.version + ' is ' + request.kind.version",
            }
        ],
    )
    (await api.post(f"{ADMISSION}/validatingadmissionpolicies", policy)).ok(201)
    (
        await api.post(
            f"{ADMISSION}/validatingadmissionpolicybindings",
            named("ValidatingAdmissionPolicyBinding", policyName="p", validationActions=["Deny"]),
        )
    ).ok(201)
    refused = await api.post(BETA, gateway("a", size=9))
    assert refused.code == 422
    assert refused.json["message"].endswith("denied request: v1beta1 is v1")
    assert (await api.post(V1, gateway("a", "v1", scaling={"replicas": 9}))).json["message"].endswith("v1 is v1")
    (await api.post(BETA, gateway("a", size=1))).ok(201)
    changed = (await api.patch(f"{BETA}/before", {"spec": {"size": 4}})).ok()
    assert changed["spec"] == {"size": 4, "note": "kept"}
    exact = {"spec": {"matchConstraints": matching("v1", "Exact")}}
    (await api.patch(f"{ADMISSION}/validatingadmissionpolicies/p", exact)).ok()
    (await api.post(BETA, gateway("b", size=9))).ok(201)
    assert (await api.post(V1, gateway("c", "v1", scaling={"replicas": 9}))).code == 422


async def test_mutations_at_another_version_apply_to_the_written_version(api: Client) -> None:
    await define(api, definition())
    tier = "Object{spec: Object.spec{tier: 'gold', scaling: Object.spec.scaling{replicas: 7}}}"
    policy = named(
        "MutatingAdmissionPolicy",
        matchConstraints=matching("v1"),
        reinvocationPolicy="Never",
        mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": tier}}],
    )
    (await api.post(f"{ADMISSION}/mutatingadmissionpolicies", policy)).ok(201)
    (
        await api.post(
            f"{ADMISSION}/mutatingadmissionpolicybindings", named("MutatingAdmissionPolicyBinding", policyName="p")
        )
    ).ok(201)
    made = (await api.post(BETA, gateway("a", size=3, note="kept", mode="fast"))).ok(201)
    assert made["spec"] == {"size": 7, "note": "kept", "mode": "fast"}
    assert (await api.get(f"{V1}/a")).ok()["spec"] == {"scaling": {"replicas": 7}, "mode": "Fast", "tier": "gold"}
    assert (await api.get(f"{BETA}/a")).ok()["spec"] == made["spec"]


async def test_history_of_objects_stored_at_another_version(api: Client) -> None:
    await define(api, definition())
    first = (await api.post(BETA, gateway("a", size=1, note="one", mode="fast"))).ok(201)
    await store_at(api, "v1beta1")
    (await api.patch(f"{V1}/a", {"spec": {"scaling": {"replicas": 2}}})).ok()
    seen = {v: (await api.get(f"{v}/a/history?object=true")).ok()["items"] for v in (V1, BETA)}
    assert [i["object"]["spec"] for i in seen[BETA]] == [{"size": 2, "note": "one", "mode": "fast"}, first["spec"]]
    assert [i["object"]["spec"] for i in seen[V1]] == [
        {"scaling": {"replicas": n}, "mode": "Fast", "tier": "basic"} for n in (2, 1)
    ]
    assert [seen[v][0]["diff"]["spec"] for v in (V1, BETA)] == [{"scaling": {"replicas": 2}}, {"size": 2}]
    wanted = {"resourceVersion": first["metadata"]["resourceVersion"]}
    back = (await api.post(f"{V1}/a/restore", wanted)).ok(200)
    assert back["spec"] == {"scaling": {"replicas": 1}, "mode": "Fast", "tier": "basic"}
    assert (await api.get(f"{BETA}/a")).ok()["spec"] == first["spec"]
    (await api.delete(f"{BETA}/a")).ok()
    for collection, spec in ((V1, back["spec"]), (BETA, first["spec"])):
        gone = (await api.get(f"{collection}?deleted=true")).ok()["items"]
        assert [i["object"]["spec"] for i in gone] == [spec]
    (await api.post(f"{V1}/a/undelete", wanted)).ok(201)
    assert (await api.get(f"{BETA}/a")).ok()["spec"] == first["spec"]
    assert ANNOTATION not in (await api.get(f"{BETA}/a")).ok()["metadata"].get("annotations", {})


async def test_encrypted_objects_are_converted(api_database: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(master_keys.generate("one"))
    sealed = {"encryption_key_file": keys, "encrypt_resources": ("secrets", NAME)}
    async with serving(api_database, tmp_path, **sealed) as api:
        await define(api, definition())
        async with api.watch(f"{BETA}?watch=1") as watch:
            first = (await api.post(V1, gateway("a", "v1", tier="hidden", scaling={"replicas": 1}))).ok(201)
            (await api.patch(f"{BETA}/a", {"spec": {"size": 2, "note": "hidden"}})).ok()
            events = await watch.events(2)
        assert [e["object"]["spec"] for e in events] == [{"size": 1}, {"size": 2, "note": "hidden"}]
        await store_at(api, "v1beta1")
        (await api.patch(f"{V1}/a", {"spec": {"mode": "Slow"}})).ok()
        past = (await api.get(f"{BETA}/a/history?object=true")).ok()["items"]
        assert [i["object"]["spec"] for i in past] == [
            {"size": 2, "mode": "slow", "note": "hidden"},
            {"size": 2, "note": "hidden"},
            {"size": 1},
        ]
        wanted = {"resourceVersion": first["metadata"]["resourceVersion"]}
        assert (await api.post(f"{BETA}/a/restore", wanted)).ok()["spec"] == {"size": 1}
        assert [i["spec"] for i in (await api.get(V1)).ok()["items"]] == [first["spec"]]
    with psycopg.connect(api_database) as connection:
        for table in ("objects", "changes"):
            found = connection.execute(f"SELECT t::text FROM {table} t WHERE resource = %s", (NAME,)).fetchall()
            assert found
            assert not any("hidden" in text for [text] in found)


async def select_rows(database: str, query: str) -> list[tuple[Any, ...]]:
    options = "-c registry.tenant=default -c search_path=reports"
    async with await psycopg.AsyncConnection.connect(database, options=options) as connection:
        try:
            return await (await connection.execute(query.encode())).fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            return []


@pytest.fixture
def roles(postgres_server: str, database_url: str) -> Iterator[None]:
    """Takes away the roles of the views, which belong to the whole server."""
    yield
    name = conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for [role] in connection.execute(
            "SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s)", (f"{name}_re",)
        ).fetchall():
            with psycopg.connect(database_url, autocommit=True) as inside:
                inside.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.mark.usefixtures("roles")
async def test_views_follow_the_storage_version_of_a_definition_of_the_older_form(
    database_url: str, tmp_path: Path
) -> None:
    """Rows that are still stored at the version before are shown too: what they have of the columns."""
    crd = definition()
    crd["apiVersion"] = "apiextensions.k8s.io/v1beta1"
    crd["spec"]["preserveUnknownFields"] = False
    del version_of(crd, "v1beta1")["subresources"]  # those of all versions would stand above them
    for version in crd["spec"]["versions"]:
        for column in version.get("additionalPrinterColumns") or ():
            column["JSONPath"] = column.pop("jsonPath")
    async with serving(database_url, tmp_path, with_views=True) as api:
        (await api.post(OLD_FORM, crd)).ok(201)

        async def is_written() -> bool:
            return (await api.post(BETA, gateway("old", size=2, mode="fast", note="n"))).code in (201, 409)

        await eventually(is_written)

        async def assert_rows(columns: str, *wanted: tuple[Any, ...]) -> None:
            query = f"SELECT name, stored_version, spec_mode, {columns} FROM gateways_rules_example_com ORDER BY name"

            async def is_so() -> bool:
                return await select_rows(database_url, query) == list(wanted)

            await eventually(is_so)

        await assert_rows("spec_scaling_replicas", ("old", "v1", "Fast", 2))
        await store_at(api, "v1beta1")
        await assert_rows("spec_size", ("old", "v1", "Fast", None))
        (await api.post(V1, gateway("new", "v1", scaling={"replicas": 3}, mode="Slow"))).ok(201)
        await assert_rows("spec_size", ("new", "v1beta1", "slow", 3), ("old", "v1", "Fast", None))
        (await api.patch(f"{V1}/old", {"metadata": {"labels": {"a": "b"}}})).ok()
        await assert_rows("spec_size", ("new", "v1beta1", "slow", 3), ("old", "v1beta1", "fast", 2))
