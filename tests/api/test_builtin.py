"""Built-in kinds over HTTP: differences from custom resources, quotas, and reviews."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import APPLY, TABLE, Client, eventually
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, widget
from tests.application import shares_application

pytestmark = shares_application


CORE = "/api/v1/namespaces/default"
MAPS = f"{CORE}/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS, NEW_EVENTS = f"{CORE}/events", "/apis/events.k8s.io/v1/namespaces/default/events"
REVIEWS = "/apis/authorization.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_items_of_lists_have_no_kind(api: Client) -> None:
    (await api.post(MAPS, config_map("a", k="v"))).ok(201)
    listed = (await api.get(f"{MAPS}?fieldSelector=metadata.name=a")).ok(200)
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert "continue" not in listed["metadata"]
    [item] = listed["items"]
    assert item.keys() == {"metadata", "data"}
    [row] = (await api.get(f"{MAPS}?fieldSelector=metadata.name=a&includeObject=Object", accept=TABLE)).ok()["rows"]
    assert row["object"]["kind"] == "ConfigMap"


async def test_an_update_needs_no_resource_version(api: Client) -> None:
    (await api.post(MAPS, config_map("a", k="1"))).ok(201)
    assert (await api.put(f"{MAPS}/a", config_map("a", k="2"))).ok(200)["data"] == {"k": "2"}


async def test_an_update_creates_a_missing_lease(api: Client) -> None:
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    (await api.put(f"{LEASES}/l", lease)).ok(201)
    status = failure(await api.put(f"{LEASES}/l", lease), 422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.resourceVersion"


@pytest.mark.parametrize(
    "plural, spec",
    [
        pytest.param("limitranges", {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}, id="limit ranges"),
        pytest.param("services", {"ports": [{"port": 80}]}, id="services"),
    ],
)
async def test_an_update_creates_a_missing_object(api: Client, plural: str, spec: dict[str, Any]) -> None:
    """As of leases, roles, bindings and events; of all other kinds it is a 404."""
    body = {"metadata": {"name": "made"}, "spec": spec}
    path = f"{CORE}/{plural}/made"
    failure(await api.put(path, {**body, "metadata": {"name": "made", "uid": "u"}}), 409, "Conflict")
    assert (await api.put(path, body)).ok(201)["metadata"]["name"] == "made"
    (await api.put(path, body)).ok(200)
    failure(await api.put(f"{MAPS}/made", config_map("made")), 404, "NotFound")


async def test_a_limit_range_without_a_name_gets_one(api: Client) -> None:
    made = (await api.post(f"{CORE}/limitranges", {"spec": {"limits": [{"type": "Pod"}]}})).ok(201)["metadata"]
    assert len(made["name"]) == len(made["uid"])
    named = (await api.post(f"{CORE}/limitranges", {"metadata": {"generateName": "g-"}})).ok(201)["metadata"]
    assert named["name"].startswith("g-")


async def test_amounts_of_resources_have_no_more_than_thousandths(api: Client) -> None:
    amounts = {"requests.cpu": "1500u", "limits.cpu": "1n", "requests.memory": "1.5", "limits.memory": "1E3"}
    made = (await api.post(f"{CORE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": amounts}})).ok(201)
    rounded = {"requests.cpu": "2m", "limits.cpu": "1m", "requests.memory": "1500m", "limits.memory": "1E3"}
    assert made["spec"]["hard"] == rounded
    limits = [{"type": "Pod", "max": {"cpu": "-1001u"}}]
    made = (await api.post(f"{CORE}/limitranges", {"metadata": {"name": "l"}, "spec": {"limits": limits}})).ok(201)
    assert made["spec"]["limits"][0]["max"] == {"cpu": "-2m"}


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_events_are_deleted_immediately(api: Client, policy: str) -> None:
    """Events own nothing: their strategy takes no part in garbage collection."""
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}
    (await api.post(EVENTS, event)).ok(201)
    assert (await api.delete(f"{EVENTS}/e?propagationPolicy={policy}")).ok()["status"] == "Success"
    failure(await api.get(f"{EVENTS}/e"), 404, "NotFound")


async def test_the_error_for_another_kind_uses_the_words_of_its_scheme(api: Client) -> None:
    status = failure(await api.post(MAPS, {"kind": "Secret", "apiVersion": "v1"}), 400, "BadRequest")
    assert status["message"] == (
        'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to '
        "(core.ConfigMap): unknown conversion"
    )
    odd = '{"kind": "ConfigMap", "KIND": "Odd", "apiVersion": "v1"}'  # encoding/json takes the last, in any case
    status = failure(await api.post(MAPS, odd), 400, "BadRequest")
    assert status["message"].startswith(
        'Odd in version "v1" cannot be handled as a ConfigMap: no kind "Odd" is registered for version "v1" in scheme'
    )


@pytest.mark.parametrize(
    "body, why",
    [
        (
            {"kind": "Secret", "data": {"a": 5}},
            "json: cannot unmarshal number into Go struct field Secret.data of type []uint8",
        ),
        (
            {"kind": "ServiceAccount", "metadata": {"labels": {"a": 1}}, "more": 1},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        ({"kind": "Secret", "more": 1}, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
    ],
)
async def test_a_body_of_another_kind_is_decoded_by_its_own_struct(api: Client, body: dict[str, Any], why: str) -> None:
    status = failure(await api.post(MAPS, {"apiVersion": "v1", **body}), 400, "BadRequest")
    assert status["message"] == f'{body["kind"]} in version "v1" cannot be handled as a ConfigMap: {why}'


@pytest.mark.parametrize(
    "path, converted",
    [
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.CustomResourceDefinition"),
        ("/apis/apiregistration.k8s.io/v1/apiservices", "apiregistration.APIService"),
    ],
)
async def test_options_in_place_of_an_object_of_another_scheme(api: Client, path: str, converted: str) -> None:
    for version in ("v1", "/".join(path.split("/")[2:4])):
        body = {"apiVersion": version, "kind": "DeleteOptions"}
        message = failure(await api.post(path, body), 400, "BadRequest")["message"]
        assert message.endswith(f": converting (v1.DeleteOptions) to ({converted}): unknown conversion")
    message = failure(await api.post(path, {"apiVersion": "v2", "kind": "DeleteOptions"}), 400, "BadRequest")["message"]
    assert ': no kind "DeleteOptions" is registered for version "v2" in scheme ' in message


@pytest.mark.parametrize("path, version", [(EVENTS, "events.k8s.io/v1"), (NEW_EVENTS, "v1")])
async def test_unknown_fields_of_an_event_of_the_other_group(api: Client, path: str, version: str) -> None:
    body = {"apiVersion": version, "kind": "Event", "metadata": {"name": "e"}, "more": 1, "type": "Normal"}
    answer = await api.post(path, body)
    own = "v1" if path == EVENTS else "events.k8s.io/v1"
    assert failure(answer, 400, "BadRequest")["message"] == (
        f"the API version in the data ({version}) does not match the expected API version ({own})"
    )
    assert answer.warnings == ['unknown field "more"']
    strict = failure(await api.post(f"{path}?fieldValidation=Strict", body), 400, "BadRequest")
    assert strict["message"] == (
        'Event in version "v1" cannot be handled as a Event: strict decoding error: unknown field "more"'
    )


async def test_unsupported_field_selectors(api: Client) -> None:
    for name, quoted in (("data.a", '"data.a"'), ("data%5C.a", r'"data\\.a"')):
        status = failure(await api.get(f"{MAPS}?fieldSelector={name}=b"), 400, "BadRequest")
        assert (
            status["message"] == f'{quoted} is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
    status = failure(await api.get(f"{CORE}/secrets?fieldSelector=data=b"), 400, "BadRequest")
    assert status["message"] == "field label not supported: data"


async def test_secrets_are_selected_by_type(api: Client) -> None:
    for name, kind in (("a", "example.com/t"), ("b", "")):
        (await api.post(f"{CORE}/secrets", {"metadata": {"name": name}, "type": kind})).ok(201)
    listed = (await api.get(f"{CORE}/secrets?fieldSelector=type=Opaque")).ok()
    assert [s["metadata"]["name"] for s in listed["items"]] == ["b"]


async def test_string_data_of_an_apply_is_merged_but_owned_as_it_was_written(api: Client) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "v"}}
    made = (await api.patch(f"{CORE}/secrets/a?fieldManager=m", secret, APPLY)).ok(201)
    assert made["data"] == {"k": "dg=="}
    assert "stringData" not in made
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:stringData": {"f:k": {}}}


@pytest.mark.parametrize(
    "path, empty, owned",
    [
        pytest.param("/limitranges", {"spec": {"limits": []}}, {"f:spec": {"f:limits": {}}}, id="limits"),
        pytest.param("/roles", {"rules": []}, {"f:rules": {}}, id="rules"),
    ],
)
async def test_an_empty_list_that_is_stored_as_null_is_owned(
    api: Client, path: str, empty: dict[str, Any], owned: dict[str, Any]
) -> None:
    path = (ROLES if "rules" in empty else CORE) + path
    made = (await api.post(f"{path}?fieldManager=m", {"metadata": {"name": "a"}, **empty})).ok(201)
    assert [entry["fieldsV1"] for entry in made["metadata"]["managedFields"]] == [owned]
    assert (made.get("rules"), made.get("spec", {}).get("limits")) == (None, None)
    assert (await api.put(f"{path}/a?fieldManager=m", {"metadata": {"name": "a"}, **empty})).ok() == made
    made = (await api.post(f"{path}?fieldManager=m", {"metadata": {"name": "b"}})).ok(201)
    assert "managedFields" not in made["metadata"]


async def test_namespaces_have_a_phase_and_a_name_label(api: Client) -> None:
    made = (await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})).ok(201)
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    listed = (await api.get("/api/v1/namespaces?fieldSelector=status.phase=Active,metadata.name=n")).ok()
    assert [n["metadata"]["name"] for n in listed["items"]] == ["n"]
    status = failure(await api.delete("/api/v1/namespaces/n", {"preconditions": {"uid": "other"}}), 409, "Conflict")
    assert "Precondition failed: UID in precondition: other" in status["message"]
    failure(await api.delete("/api/v1/namespaces/default"), 403, "Forbidden")


# --- events


SOME_UID = "11111111-1111-4111-8111-111111111111"


async def test_deprecated_fields_of_a_service_account_get_a_warning(api: Client) -> None:
    note = {"kubernetes.io/enforce-mountable-secrets": "false"}
    account = {"metadata": {"name": "warned", "annotations": note}}
    made = await api.post(f"{CORE}/serviceaccounts", account)
    assert (made.code, len(made.warnings)) == (201, 1)
    assert (await api.put(f"{CORE}/serviceaccounts/warned", account)).warnings == []


# --- quotas


async def enforced(api: Client, **amounts: str) -> dict[str, str]:
    """A quota whose use has been counted: which it gives."""
    quota = {"metadata": {"name": "q"}, "spec": {"hard": amounts}}
    (await api.post(f"{CORE}/resourcequotas", quota)).ok(201)

    async def current_use() -> dict[str, str]:
        found: dict[str, str] = (await api.get(f"{CORE}/resourcequotas/q")).ok()["status"].get("used", {})
        return found

    result: dict[str, str] = await eventually(current_use)
    return result


async def used(api: Client) -> dict[str, str]:
    found: dict[str, str] = (await api.get(f"{CORE}/resourcequotas/q")).ok()["status"]["used"]
    return found


async def test_creates_are_refused_once_the_quota_is_used_up(api: Client) -> None:
    (await api.post(MAPS, config_map("before"))).ok(201)  # the namespace is known to have no quota
    count = f"count/{WIDGETS.rpartition('/')[2]}.{WIDGETS.split('/')[2]}"
    before = await enforced(api, **{count: "1", "configmaps": "9"})
    (await api.post(WIDGETS, widget("one"))).ok(201)
    assert await used(api) == before | {count: "1"}
    status = failure(await api.post(WIDGETS, widget("two")), 403, "Forbidden")
    assert status["message"].endswith(
        f'"two" is forbidden: exceeded quota: q, requested: {count}=1, used: {count}=1, limited: {count}=1'
    )
    failure(await api.post(f"{WIDGETS}?dryRun=All", widget("two")), 403, "Forbidden")
    (await api.post(f"{MAPS}?dryRun=All", config_map("a"))).ok(201)
    assert (await used(api))["configmaps"] == before["configmaps"]


async def test_a_failed_create_releases_its_quota(api: Client) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    before = await enforced(api, configmaps="9")
    failure(await api.post(MAPS, config_map("a")), 409, "AlreadyExists")
    assert await used(api) == before
    (await api.post(MAPS, config_map("b"))).ok(201)
    assert await used(api) == {"configmaps": str(int(before["configmaps"]) + 1)}


# --- reviews and impersonation


async def test_a_review_returns_its_spec_and_status(api: Client) -> None:
    spec = {"user": "ann", "groups": ["system:masters"], "resourceAttributes": {"verb": "get", "resource": "pods"}}
    answer = (await api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})).ok(201)
    assert answer["spec"] == spec
    assert answer["status"] == {"allowed": True}
    assert answer["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:user"] == {}
    spec["groups"] = []
    assert (await api.post(f"{REVIEWS}/subjectaccessreviews", {"spec": spec})).ok(201)["status"] == {"allowed": False}


async def test_an_invalid_review(api: Client) -> None:
    status = failure(await api.post(f"{REVIEWS}/selfsubjectaccessreviews", {"metadata": {"name": "x"}}), 422, "Invalid")
    assert status["message"].startswith(
        '.authorization.k8s.io "" is invalid: [spec.resourceAttributes: Invalid value: '
        "null: exactly one of nonResourceAttributes or resourceAttributes must be"
    )
    assert [c["field"] for c in status["details"]["causes"]] == ["spec.resourceAttributes", "metadata"]
    failure(await api.get(f"{REVIEWS}/selfsubjectaccessreviews"), 405, "MethodNotAllowed")


async def test_a_local_review_does_not_require_its_namespace_to_exist(api: Client) -> None:
    path = f"{REVIEWS}/namespaces/nowhere/localsubjectaccessreviews"
    spec = {"user": "u", "resourceAttributes": {"verb": "get", "namespace": "nowhere"}}
    assert (await api.post(path, {"spec": spec})).ok(201)["metadata"]["namespace"] == "nowhere"
    spec["resourceAttributes"] = {"verb": "get", "namespace": "elsewhere"}
    status = failure(await api.post(path, {"spec": spec}), 422, "Invalid")
    assert status["details"]["causes"][0]["message"] == 'Invalid value: "elsewhere": must match metadata.namespace'


async def test_self_subject_review(api: Client) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    me = (await api.post(path, {})).ok(201)["status"]["userInfo"]
    assert (me["username"], me["groups"]) == ("admin", ["system:masters", "system:authenticated"])
    ann = {"Impersonate-User": "ann", "Impersonate-Extra-Team": "a"}
    assert (await api.post(path, {}, headers=ann)).ok(201)["status"]["userInfo"] == {
        "username": "ann",
        "groups": ["system:authenticated"],
        "extra": {"team": ["a"]},
    }
    failure(await api.with_token("").post(path, {}), 403, "Forbidden")


async def test_an_impersonated_user_has_only_their_own_rights(api: Client) -> None:
    status = failure(await api.get(MAPS, headers={"Impersonate-User": 'a<b>"c"'}), 403, "Forbidden")
    assert status["message"] == (
        'configmaps is forbidden: User "a&lt;b&gt;\\"c\\"" cannot list resource "configmaps" '
        'in API group "" in the namespace "default"'
    )
    (await api.get(MAPS, headers={"Impersonate-User": "ann", "Impersonate-Group": "system:masters"})).ok(200)
    failure(await api.get(MAPS, headers={"Impersonate-Group": "g"}), 400, "BadRequest")
    anonymous = failure(await api.with_token("").get(MAPS, headers={"Impersonate-User": "ann"}), 403, "Forbidden")
    assert "cannot impersonate-on:user-info:list resource" in anonymous["message"]


@pytest.mark.parametrize("path", ["/version", "/livez", "/api"])
async def test_impersonation_needs_the_right_for_documents_of_the_server_too(api: Client, path: str) -> None:
    token = (await api.post(f"{CORE}/serviceaccounts/default/token", {})).ok(201)["status"]["token"]
    bot, ann = api.with_token(token), {"Impersonate-User": "ann"}
    assert (
        "cannot impersonate-on:user-info:get path"
        in failure(await bot.get(path, headers=ann), 403, "Forbidden")["message"]
    )
    rule = {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["ann"]}
    (await api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "as-ann"}, "rules": [rule]})).ok(201)
    binding = {
        "metadata": {"name": "as-ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "as-ann"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    (await api.post(f"{RBAC}/clusterrolebindings", binding)).ok(201)
    assert (await bot.get(path, headers=ann)).code == 200
    failure(await bot.get(path, headers={"Impersonate-User": "bob"}), 403, "Forbidden")


# --- protobuf


def delimited(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


async def test_kubectl_sends_protobuf(api: Client) -> None:
    entry = delimited(1, b"k") + delimited(2, b"v")
    message = delimited(1, delimited(1, b"p")) + delimited(2, entry)
    body = b"k8s\0" + delimited(1, delimited(1, b"v1") + delimited(2, b"ConfigMap")) + delimited(2, message)
    made = (await api.post(MAPS, body, content_type=PROTOBUF)).ok(201)
    assert (made["metadata"]["name"], made["data"]) == ("p", {"k": "v"})


async def test_the_core_group_may_be_named_by_a_slash(api: Client) -> None:
    """client-go's GroupVersion prints no slash, but tools that join group and version themselves send "/v1"."""
    made = (await api.post(MAPS, {"apiVersion": "/v1", "kind": "ConfigMap", **config_map("slash", a="1")})).ok(201)
    assert made["apiVersion"] == "v1"
    put = await api.put(f"{MAPS}/slash", {**made, "apiVersion": "/v1", "data": {"a": "2"}})
    assert (put.ok()["apiVersion"], put.json["data"]) == ("v1", {"a": "2"})


@pytest.mark.parametrize("value, code", [("true", 400), ("1", 400), ("", 400), ("false", 200), ("0", 200)])
async def test_the_parameter_export_is_refused(api: Client, value: str, code: int) -> None:
    await api.post(WIDGETS, widget("a", replicas=1))
    for path in ("/api/v1/namespaces/default", f"{WIDGETS}/a", f"{WIDGETS}/a/status", f"{WIDGETS}/a/scale"):
        answer = await api.get(f"{path}?export={value}")
        assert answer.code == code, path
        if code == 400:
            status = failure(answer, 400, "BadRequest")
            assert status["message"] == "the export parameter, deprecated since v1.14, is no longer supported"


async def test_stored_objects_are_named_as_in_the_storage_of_their_server(api: Client) -> None:
    """As recorded from kube-apiserver 1.36.2: only definitions and APIServices have their group in the key."""
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {"group": "g.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
    spec["service"] = {"name": "s", "namespace": "default"}
    made = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.g.example.com"}}
    made = (await api.post(path, {**made, "spec": {**spec, "insecureSkipTLSVerify": True}})).ok(201)
    made["metadata"]["uid"] = SOME_UID
    made["metadata"].pop("resourceVersion")
    status = failure(await api.put(f"{path}/v1.g.example.com", made), 409, "Conflict")
    assert "Key: /registry/apiregistration.k8s.io/apiservices/v1.g.example.com, " in status["message"]
