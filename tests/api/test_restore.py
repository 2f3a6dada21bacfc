"""Restoring an object to an earlier state, and undeleting one: what is checked, and what comes back."""

from __future__ import annotations

from typing import Any

from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.histories import past_of, revision_of
from tests.api.widgets import DEFINITIONS, GROUP, NAMESPACES, SCHEMA, WIDGETS, define, definition, make, widget
from tests.application import shares_application

pytestmark = shares_application


async def test_restore_is_an_ordinary_update(api: Client) -> None:
    first = (await api.post(WIDGETS, widget("a", labels={"of": "old"}, size=1, free={"x": [1]}))).ok(201)
    status = {"status": {"phase": "Ready"}}
    (await api.patch(f"{WIDGETS}/a/status", status)).ok()
    changed = (
        await api.patch(
            f"{WIDGETS}/a",
            {
                "metadata": {"labels": {"of": "new"}, "finalizers": ["test.example.com/held"]},
                "spec": {"size": 9, "free": None, "color": "red"},
            },
        )
    ).ok()
    wanted = {"resourceVersion": first["metadata"]["resourceVersion"]}
    tried = (await api.post(f"{WIDGETS}/a/restore?dryRun=All", wanted)).ok(200)
    assert tried["spec"] == first["spec"]
    assert await revision_of(api, "a") == changed["metadata"]["resourceVersion"]
    back = (await api.post(f"{WIDGETS}/a/restore?fieldManager=undo", wanted)).ok(200)
    assert back["spec"] == first["spec"]
    assert back["metadata"]["labels"] == {"of": "old"}
    # What is about the object's life now stays, and so does its status, which has a subresource of its own.
    assert back["metadata"]["finalizers"] == ["test.example.com/held"]
    assert back["metadata"]["uid"] == first["metadata"]["uid"]
    assert back["metadata"]["generation"] == changed["metadata"]["generation"] + 1
    assert back["status"] == {"phase": "Ready"}
    assert {m["manager"] for m in back["metadata"]["managedFields"]} >= {"undo"}
    assert (await past_of(api, "a"))[0]["verb"] == "restore"
    # Once more changes nothing.
    again = (await api.post(f"{WIDGETS}/a/restore?fieldManager=undo", wanted)).ok(200)
    assert again["metadata"]["resourceVersion"] == back["metadata"]["resourceVersion"]


async def test_restore_keeps_preconditions(api: Client) -> None:
    [first] = await make(api, "a", size=1)
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    old = first["metadata"]["resourceVersion"]
    late = {"resourceVersion": old, "preconditions": {"resourceVersion": old}}
    failure(await api.post(f"{WIDGETS}/a/restore", late), 409, "Conflict")
    other = {"resourceVersion": old, "preconditions": {"uid": "another"}}
    failure(await api.post(f"{WIDGETS}/a/restore", other), 409, "Conflict")
    now = {
        "resourceVersion": old,
        "preconditions": {"resourceVersion": await revision_of(api, "a"), "uid": first["metadata"]["uid"]},
    }
    assert (await api.post(f"{WIDGETS}/a/restore", now)).ok(200)["spec"]["size"] == 1


async def test_restored_objects_are_validated_by_the_current_schema(api: Client) -> None:
    [first] = await make(api, "a", size=1, replicas=3)
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 20, "replicas": None}})).ok()
    properties = {k: v for k, v in SCHEMA["properties"]["spec"]["properties"].items() if k != "replicas"}
    properties["size"] = {"type": "integer", "minimum": 10}
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "spec": {"type": "object", "properties": properties}}}
    path = "/spec/versions/0/schema/openAPIV3Schema"
    name = f"{DEFINITIONS}/widgets.{GROUP}"
    (
        await api.patch(
            name,
            [
                {"op": "replace", "path": path, "value": schema},
                {"op": "remove", "path": "/spec/versions/0/subresources/scale"},
            ],
            "application/json-patch+json",
        )
    ).ok()
    wanted = {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert "spec.size" in failure(await api.post(f"{WIDGETS}/a/restore", wanted), 422, "Invalid")["message"]
    properties["size"] = {"type": "integer"}
    (await api.patch(name, [{"op": "replace", "path": path, "value": schema}], "application/json-patch+json")).ok()
    assert (await api.post(f"{WIDGETS}/a/restore", wanted)).ok(200)["spec"] == {"size": 1, "color": "grey"}


async def test_undelete_creates_the_object_again(api: Client) -> None:
    owner = (
        await api.post(
            "/api/v1/namespaces/default/configmaps",
            {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "owner"}},
        )
    ).ok(201)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    first = (
        await api.post(WIDGETS, widget("a", labels={"x": "y"}, size=1, metadata={"ownerReferences": [reference]}))
    ).ok(201)
    last = (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}})).ok()
    failure(await api.post(f"{WIDGETS}/a/undelete", b""), 409, "AlreadyExists")
    (await api.delete(f"{WIDGETS}/a")).ok()
    failure(await api.post(f"{WIDGETS}/a/undelete", {"preconditions": {"uid": "another"}}), 409, "Conflict")
    answer = await api.post(f"{WIDGETS}/a/undelete", b"", content_type="")
    back = answer.ok(201)
    assert answer.warnings == ["metadata.ownerReferences are not brought back: ConfigMap owner"]
    assert back["spec"] == last["spec"]
    assert back["metadata"]["labels"] == {"x": "y"}
    assert back["metadata"]["uid"] != first["metadata"]["uid"]
    assert back["metadata"]["generation"] == 1
    (await api.delete(f"{WIDGETS}/a")).ok()
    earlier = {"resourceVersion": first["metadata"]["resourceVersion"]}
    assert (await api.post(f"{WIDGETS}/a/undelete", earlier)).ok(201)["spec"] == first["spec"]
    assert [i["verb"] for i in await past_of(api, "a")] == [
        "undelete",
        "delete",
        "undelete",
        "delete",
        "patch",
        "create",
    ]
    failure(await api.post(f"{WIDGETS}/never/undelete", b""), 404, "NotFound")


async def test_undelete_of_an_object_that_had_finalizers(api: Client) -> None:
    (await api.post(WIDGETS, widget("a", size=1, metadata={"finalizers": ["test.example.com/held"]}))).ok(201)
    (await api.delete(f"{WIDGETS}/a")).ok()
    (await api.patch(f"{WIDGETS}/a", {"metadata": {"finalizers": None}})).ok()
    back = (await api.post(f"{WIDGETS}/a/undelete", b"")).ok(201)
    assert not back["metadata"].keys() & {"finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"}


async def test_admission_and_quotas_apply_to_undelete(api: Client) -> None:
    base = "/apis/admissionregistration.k8s.io/v1"
    first = (await make(api, "a", size=9))[0]
    (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 1}})).ok()
    await make(api, "gone", size=9)
    (await api.delete(f"{WIDGETS}/gone")).ok()

    def named(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "p"}, "spec": spec}

    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["widgets"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "object.spec.size < 5"}]}
    (await api.post(f"{base}/validatingadmissionpolicies", named("ValidatingAdmissionPolicy", spec))).ok(201)
    (
        await api.post(
            f"{base}/validatingadmissionpolicybindings",
            named("ValidatingAdmissionPolicyBinding", {"policyName": "p", "validationActions": ["Deny"]}),
        )
    ).ok(201)
    wanted = {"resourceVersion": first["metadata"]["resourceVersion"]}
    failure(await api.post(f"{WIDGETS}/a/restore", wanted), 422, "Invalid")
    failure(await api.post(f"{WIDGETS}/gone/undelete", {}), 422, "Invalid")
    (await api.delete(f"{base}/validatingadmissionpolicybindings/p")).ok()
    assert (await api.post(f"{WIDGETS}/a/restore", wanted)).ok(200)["spec"]["size"] == 9
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {f"count/widgets.{GROUP}": "1"}},
    }
    (await api.post("/api/v1/namespaces/default/resourcequotas", quota)).ok(201)

    async def is_counted() -> Any:
        found = (await api.get("/api/v1/namespaces/default/resourcequotas/q")).ok()
        return found["status"].get("used")

    await eventually(is_counted)
    assert "exceeded quota" in failure(await api.post(f"{WIDGETS}/gone/undelete", {}), 403, "Forbidden")["message"]


async def test_restoring_a_role_is_checked_for_escalation(api: Client) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    wide = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "wide"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }
    first = (await api.post(f"{rbac}/clusterroles", wide)).ok(201)
    (await api.patch(f"{rbac}/clusterroles/wide", {"rules": []})).ok()
    role = {
        **wide,
        "metadata": {"name": "restorer"},
        "rules": [
            {
                "apiGroups": ["rbac.authorization.k8s.io"],
                "resources": ["clusterroles/restore", "clusterroles/undelete"],
                "verbs": ["create"],
            }
        ],
    }
    (await api.post(f"{rbac}/clusterroles", role)).ok(201)
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "restorer"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    (await api.post(f"{rbac}/clusterrolebindings", bound)).ok(201)
    wanted = {"resourceVersion": first["metadata"]["resourceVersion"]}
    eve = {"impersonate-user": "eve"}
    failure(await api.post(f"{rbac}/clusterroles/wide/restore", wanted, headers=eve), 403, "Forbidden")
    (await api.delete(f"{rbac}/clusterroles/wide")).ok()
    failure(await api.post(f"{rbac}/clusterroles/wide/undelete", wanted, headers=eve), 403, "Forbidden")


async def test_a_namespace_can_be_undeleted(api: Client) -> None:
    made = (await api.post(NAMESPACES, {"metadata": {"name": "team", "labels": {"tier": "gold"}}})).ok(201)
    assert [item["operation"] for item in (await api.get(f"{NAMESPACES}/team/history")).ok()["items"]] == ["Create"]
    (await api.delete(f"{NAMESPACES}/team")).ok()

    async def gone() -> bool:
        return (await api.get(f"{NAMESPACES}/team")).code == 404

    await eventually(gone)
    back = (await api.post(f"{NAMESPACES}/team/undelete", {})).ok(201)
    assert back["metadata"]["labels"]["tier"] == "gold"
    assert back["metadata"]["uid"] != made["metadata"]["uid"]
    assert back["status"] == {"phase": "Active"}


async def test_sensitive_fields_are_hidden_but_restored(api: Client) -> None:
    """As in SQL reports: by their format or a mark; a list of objects with one goes whole."""
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "token": {"type": "string", "format": "password"},
                    "free": text,
                    "users": {"type": "array", "items": {"type": "object", "properties": {"password": text}}},
                },
            }
        },
    }
    crd = definition("vaults", "Vault", schema=schema)
    crd["metadata"]["annotations"] = {"reporting.registry/sensitive": ".spec.users[].password, .spec.free"}
    await define(api, crd)
    spec: dict[str, Any] = {"size": 1, "token": "geheim", "free": "geheim", "users": [{"password": "geheim"}]}
    vaults = f"/apis/{GROUP}/v1/namespaces/default/vaults"
    vault = {"apiVersion": f"{GROUP}/v1", "kind": "Vault", "metadata": {"name": "a"}, "spec": spec}
    made = (await api.post(vaults, vault)).ok(201)
    assert made["spec"] == spec
    (await api.patch(f"{vaults}/a", {"spec": {"size": 2, "token": "geheimer"}})).ok()
    revision = made["metadata"]["resourceVersion"]
    for query in ("?object=true", "?diff=json&object=true"):
        answer = await api.get(f"{vaults}/a/history{query}")
        assert answer.ok()["items"][1]["object"]["spec"] == {"size": 1}
        assert "geheim" not in answer.text
    then = await api.get(f"{vaults}/a?atResourceVersion={revision}")
    assert then.ok()["spec"] == {"size": 1}
    (await api.delete(f"{vaults}/a")).ok()
    gone = await api.get(f"{vaults}?deleted=true")
    assert gone.ok()["items"][0]["object"]["spec"] == {"size": 2}
    assert "geheim" not in then.text + gone.text
    back = (await api.post(f"{vaults}/a/undelete", {"resourceVersion": revision})).ok(201)
    assert back["spec"] == spec
