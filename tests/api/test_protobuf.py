"""Built-in kinds in protobuf, as client-go's typed clients send and ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from registry.builtin import definitions
from registry.codec.protobuf.envelope import decode_object, encode_object
from registry.codec.protobuf.messages import INLINE, kind_key, message_class, type_of
from registry.definitions.model import Definition
from tests.api.client import MERGE, TABLE, Answer, Client, Watch, eventually
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, widget
from tests.application import shares_application
from tests.definitions.crds import crd

PROTOBUF = "application/vnd.kubernetes.protobuf"
# What client-go's typed clients ask for.
PREFERRED = f"{PROTOBUF},application/json"
MAPS = "/api/v1/namespaces/default/configmaps"

DEFINITION = {
    **crd({"type": "object", "properties": {"n": {"type": "integer", "maximum": 5, "default": 3}}}),
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
RULE = {"apiGroups": ["g"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["CREATE"], "scope": "*"}
WEBHOOK = {
    "name": "w.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "namespaceSelector": SELECTOR,
}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SUBJECTS = [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]
ROLE_REF = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
IN_DEFAULT = "/api/v1/namespaces/default"

# An object of each kind, by its collection.
OBJECTS: dict[str, dict[str, Any]] = {
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": DEFINITION,
    "/api/v1/namespaces": {"kind": "Namespace", "metadata": {"name": "n"}},
    MAPS: {"kind": "ConfigMap", "data": {"a": "ä"}, "binaryData": {"b": "/wA="}, "immutable": False},
    f"{IN_DEFAULT}/secrets": {"kind": "Secret", "data": {"a": "YQ=="}, "stringData": {"b": "c"}, "type": "x/y"},
    f"{IN_DEFAULT}/serviceaccounts": {"kind": "ServiceAccount", "imagePullSecrets": [{"name": "s"}]},
    f"{IN_DEFAULT}/services": {
        "kind": "Service",
        "spec": {"ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}], "selector": {"a": "b"}},
    },
    f"{IN_DEFAULT}/resourcequotas": {"kind": "ResourceQuota", "spec": {"hard": {"count/configmaps": "10"}}},
    f"{IN_DEFAULT}/limitranges": {
        "kind": "LimitRange",
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1500m"}, "default": {"cpu": "0.5"}}]},
    },
    f"{IN_DEFAULT}/events": {
        "kind": "Event",
        "involvedObject": {"kind": "X", "namespace": "default", "name": "x"},
        "firstTimestamp": "2024-01-02T03:04:05Z",
        "count": 2,
        "reason": "R",
    },
    "/apis/events.k8s.io/v1/namespaces/default/events": {
        "kind": "Event",
        "eventTime": "2024-01-02T03:04:05.000006Z",
        "regarding": {"kind": "X", "namespace": "default", "name": "x"},
        "reason": "R",
        "action": "a",
        "type": "Normal",
        "reportingController": "c.example.com/x",
        "reportingInstance": "i",
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "kind": "Lease",
        "spec": {"holderIdentity": "h", "leaseDurationSeconds": 5, "renewTime": "2024-01-02T03:04:05.000006Z"},
    },
    f"{RBAC}/namespaces/default/roles": {
        "kind": "Role",
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}],
    },
    f"{RBAC}/clusterroles": {"kind": "ClusterRole", "aggregationRule": {"clusterRoleSelectors": [SELECTOR]}},
    f"{RBAC}/namespaces/default/rolebindings": {"kind": "RoleBinding", "subjects": SUBJECTS, "roleRef": ROLE_REF},
    f"{RBAC}/clusterrolebindings": {"kind": "ClusterRoleBinding", "subjects": SUBJECTS, "roleRef": ROLE_REF},
    f"{ADMISSION}/mutatingwebhookconfigurations": {"kind": "MutatingWebhookConfiguration", "webhooks": [WEBHOOK]},
    f"{ADMISSION}/validatingwebhookconfigurations": {"kind": "ValidatingWebhookConfiguration", "webhooks": [WEBHOOK]},
    f"{ADMISSION}/validatingadmissionpolicies": {
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [{**RULE, "resourceNames": ["x"]}]},
            "variables": [{"name": "v", "expression": "1"}],
            "validations": [{"expression": "variables.v == 1", "message": "m"}],
        },
    },
    f"{ADMISSION}/validatingadmissionpolicybindings": {
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "a", "validationActions": ["Deny"], "matchResources": {"objectSelector": SELECTOR}},
    },
    f"{ADMISSION}/mutatingadmissionpolicies": {
        "kind": "MutatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        },
    },
    f"{ADMISSION}/mutatingadmissionpolicybindings": {
        "kind": "MutatingAdmissionPolicyBinding",
        "spec": {"policyName": "a"},
    },
    "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations": {
        "kind": "StorageVersionMigration",
        "spec": {"resource": {"group": "g.example.com", "resource": "widgets"}},
    },
}


def whole(path: str, obj: dict[str, Any]) -> dict[str, Any]:
    """With all that a client sends."""
    parts = path.split("/")
    version = parts[2] if parts[1] == "api" else f"{parts[2]}/{parts[3]}"
    return {"apiVersion": version, "metadata": {"name": "a"}, **obj}


def read(answer: Answer, code: int = 200) -> dict[str, Any]:
    assert (answer.code, answer.header("content-type")) == (code, PROTOBUF), answer.body
    return decode_object(answer.body)


def without_empty(value: Any) -> Any:
    """What an empty field stands for in JSON cannot be known from protobuf: a Go type leaves it out, or does not."""
    if isinstance(value, dict):
        found = {name: without_empty(item) for name, item in value.items()}
        return {name: item for name, item in found.items() if item not in (None, {}, [], "", 0, False)}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


@shares_application
@pytest.mark.parametrize(
    "path, obj", OBJECTS.items(), ids=[f"{o['kind']}-{p.split('/')[2]}" for p, o in OBJECTS.items()]
)
async def test_the_life_of_an_object(api: Client, path: str, obj: dict[str, Any]) -> None:
    obj = whole(path, obj)
    name = obj["metadata"]["name"]
    options = {"content_type": PROTOBUF, "accept": PREFERRED}
    made = read(await api.post(path, encode_object(obj), **options), 201)
    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == (obj["apiVersion"], obj["kind"], name)
    assert made["metadata"]["uid"]

    async def equal_in_all_forms() -> dict[str, Any] | None:
        """The object as protobuf has it, when no controller has written it between the reads."""
        found = read(await api.get(f"{path}/{name}", accept=PREFERRED))
        listed = read(await api.get(path, accept=PREFERRED))
        in_json = (await api.get(f"{path}/{name}")).ok()
        if in_json["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            return None
        assert without_empty(found) == without_empty(in_json)
        [item] = [item for item in listed["items"] if item["metadata"]["name"] == name]
        bare = {k: v for k, v in found.items() if k not in ("kind", "apiVersion")}
        assert (listed["kind"], item) == (f"{obj['kind']}List", bare)
        return found

    async def changed() -> Answer | None:
        found = await eventually(equal_in_all_forms)
        found["metadata"].setdefault("labels", {})["x"] = "y"
        answer = await api.put(f"{path}/{name}", encode_object(found), **options)
        return answer if answer.code != 409 else None

    assert read(await eventually(changed))["metadata"]["labels"]["x"] == "y"
    patched = await api.patch(f"{path}/{name}", {"metadata": {"labels": {"z": "y"}}}, MERGE, accept=PREFERRED)
    assert read(patched)["metadata"]["labels"].items() >= {"x": "y", "z": "y"}.items()
    delete = encode_object({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]})
    assert (await api.delete(f"{path}/{name}", delete, **options)).code == 200
    other = {
        "apiVersion": "v1",
        "kind": "Secret" if obj["kind"] != "Secret" else "ConfigMap",
        "metadata": {"name": "a"},
    }
    status = read(await api.post(path, encode_object(other), **options), 400)
    assert (status["kind"], status["reason"]) == ("Status", "BadRequest")


async def frame(watch: Watch) -> tuple[str, dict[str, Any]]:
    """The next event of a watch in protobuf."""
    data = await watch.read(int.from_bytes(await watch.read(4), "big"))
    event: Any = message_class("meta.k8s.io/v1/WatchEvent").FromString(data)
    return event.f1, decode_object(event.f2.f1)


@shares_application
@pytest.mark.parametrize(
    "accept", [pytest.param(f"{PROTOBUF};stream=watch,application/json;stream=watch", id="asked as a stream"), PROTOBUF]
)
async def test_watch(api: Client, accept: str) -> None:
    (await api.post(MAPS, whole(MAPS, OBJECTS[MAPS]))).ok(201)
    selected = f"{MAPS}?watch=true&fieldSelector=metadata.name=a&allowWatchBookmarks=true&sendInitialEvents=true"
    async with api.watch(f"{selected}&resourceVersionMatch=NotOlderThan", accept=accept) as watch:
        assert (watch.code, watch.headers["content-type"]) == (200, [f"{PROTOBUF};stream=watch"])
        type_, obj = await frame(watch)
        assert (type_, obj["kind"], obj["data"]) == ("ADDED", "ConfigMap", {"a": "ä"})
        type_, obj = await frame(watch)
        assert (type_, obj["kind"]) == ("BOOKMARK", "ConfigMap")
        assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        (await api.patch(f"{MAPS}/a", {"data": {"a": "2"}})).ok()
        type_, obj = await frame(watch)
        assert (type_, obj["data"]) == ("MODIFIED", {"a": "2"})
        (await api.delete(f"{MAPS}/a")).ok()
        assert (await frame(watch))[0] == "DELETED"


@shares_application
async def test_pages(shared_api: Client) -> None:
    names = {f"page-{i}" for i in range(5)}
    for name in names:
        (await shared_api.post(MAPS, {"metadata": {"name": name, "labels": {"of": "pages"}}})).ok(201)
    found, token = set(), ""
    while True:
        query = f"?labelSelector=of=pages&limit=2&continue={token}"
        page = read(await shared_api.get(MAPS + query, accept=PROTOBUF))
        found |= {item["metadata"]["name"] for item in page["items"]}
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert found == names


@shares_application
@pytest.mark.parametrize(
    "path, body",
    [
        ("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"kind": "SubjectAccessReview", "spec": {"user": "u", "nonResourceAttributes": {"path": "/x", "verb": "get"}}}),
        ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}),
        ("/apis/authentication.k8s.io/v1/tokenreviews", {"kind": "TokenReview", "spec": {"token": "t"}}),
        ("/apis/authentication.k8s.io/v1/selfsubjectreviews", {"kind": "SelfSubjectReview"}),
    ],
)  # fmt: skip
async def test_reviews(shared_api: Client, path: str, body: dict[str, Any]) -> None:
    obj = encode_object({**whole(path, body), "metadata": {}})
    answer = read(await shared_api.post(path, obj, content_type=PROTOBUF, accept=PREFERRED), 201)
    in_json = (await shared_api.post(path, body)).ok(201)
    assert without_empty(answer["status"]) == without_empty(in_json["status"])


@shares_application
@pytest.mark.parametrize("content_type", [PROTOBUF, "application/json"])
async def test_an_event_with_the_empty_fields_that_go_writes(shared_api: Client, content_type: str) -> None:
    """As client-go's recorders create events by default: fields that Go has no pointers for are on the wire if empty."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    regarding = {**OBJECTS[path]["regarding"], "uid": "", "apiVersion": "", "resourceVersion": "", "fieldPath": ""}
    event = whole(path, OBJECTS[path]) | {
        "metadata": {"name": f"empty-fields.{content_type.rpartition('.')[2].rpartition('/')[2]}", "namespace": ""},
        "regarding": regarding,
        "note": "",
        "deprecatedSource": {"component": "", "host": ""},
        "deprecatedCount": 0,
    }

    def body(obj: dict[str, Any]) -> Any:
        return encode_object(obj) if content_type == PROTOBUF else obj

    made = (await shared_api.post(path, body(event), content_type=content_type)).ok(201)
    assert made["deprecatedSource"] == {}
    series = {"count": 2, "lastObservedTime": "2024-01-02T03:04:06.000007Z"}
    again = {**event, "metadata": made["metadata"], "series": series}
    changed = await shared_api.put(f"{path}/{made['metadata']['name']}", body(again), content_type=content_type)
    assert changed.ok()["series"] == series


@shares_application
async def test_a_token_of_a_service_account(api: Client) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = read(await api.post(path, encode_object(body), content_type=PROTOBUF, accept=PREFERRED), 201)
    assert answer["status"]["token"]


@shares_application
async def test_the_scale_of_a_custom_resource(api: Client) -> None:
    (await api.post(WIDGETS, widget("a", replicas=1))).ok(201)
    assert (await api.get(f"{WIDGETS}/a", accept=PROTOBUF)).code == 406
    assert (await api.get(f"{WIDGETS}/a/scale", accept=PROTOBUF)).code == 406
    scale = (await api.get(f"{WIDGETS}/a/scale", accept=PREFERRED)).ok()  # in JSON
    scale["spec"] = {"replicas": 4}
    put = await api.put(f"{WIDGETS}/a/scale", encode_object(scale), content_type=PROTOBUF, accept=PREFERRED)
    assert (put.ok()["spec"], put.header("content-type")) == ({"replicas": 4}, "application/json")


@shares_application
async def test_options_are_validated_before_a_custom_resource_is_refused(shared_api: Client) -> None:
    for query, code, reason in (
        ("", 415, "UnsupportedMediaType"),
        ("?dryRun=All", 415, "UnsupportedMediaType"),
        ("?fieldManager=%00", 422, "Invalid"),
    ):
        failure(await shared_api.post(f"{WIDGETS}{query}", b"k8s\0", content_type=PROTOBUF), code, reason)


@shares_application
async def test_tables_are_not_available_in_protobuf(shared_api: Client) -> None:
    table = TABLE.replace("application/json", PROTOBUF)
    assert (await shared_api.get(MAPS, accept=table)).code == 406
    assert (await shared_api.get(MAPS, accept=f"{table},{TABLE}")).ok()["kind"] == "Table"


@shares_application
@pytest.mark.parametrize(
    "path, kind",
    [
        ("/api", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/events.k8s.io", "APIGroup"),
        ("/api/v1", "APIResourceList"),
        ("/apis/rbac.authorization.k8s.io/v1", "APIResourceList"),
    ],
)
async def test_discovery(shared_api: Client, path: str, kind: str) -> None:
    found = read(await shared_api.get(path, accept=PROTOBUF))
    assert found["kind"] == kind
    in_json = (await shared_api.get(path)).ok()
    assert without_empty(found) | {"apiVersion": ""} == without_empty(in_json) | {"apiVersion": ""}


@shares_application
async def test_aggregated_discovery(shared_api: Client) -> None:
    form = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = await shared_api.get("/apis", accept=PROTOBUF + form)
    assert (answer.code, answer.header("content-type")) == (200, PROTOBUF + form)
    in_json = (await shared_api.get("/apis", accept=f"application/json{form}")).ok()
    assert without_empty(decode_object(answer.body)) == without_empty(in_json)


@shares_application
@pytest.mark.parametrize(
    "body, message",
    [
        pytest.param(
            b"", "the object provided is unrecognized (must be of type ConfigMap): empty data (<empty>)", id="empty"
        ),
        pytest.param(
            b'{"kind": "ConfigMap"}',
            "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a "
            'protobuf message, expected prefix [107 56 115 0] ({"kind": "ConfigMap"})',
            id="JSON",
        ),
        pytest.param(
            b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x01\x0b",
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: proto: cannot parse invalid wire-format data',
            id="cut",
        ),
    ],
)
async def test_bodies_that_are_refused(shared_api: Client, body: bytes, message: str) -> None:
    status = failure(await shared_api.post(MAPS, body, content_type=PROTOBUF), 400, "BadRequest")
    assert status["message"] == message


@shares_application
async def test_a_large_body(api: Client) -> None:
    obj = whole(MAPS, {"kind": "ConfigMap", "data": {f"key-{i}": "x" * 100 for i in range(4000)}})
    made = read(await api.post(MAPS, encode_object(obj), content_type=PROTOBUF, accept=PREFERRED), 201)
    assert made["data"] == obj["data"]


# --- the messages have all fields of the kinds

_SERVED = [
    pytest.param(definition, version, id=f"{definition.group}/{version} {definition.names.kind}")
    for definition in definitions()
    for version in definition.versions
    if definition.group != "query.registry"  # not of Kubernetes, whose messages these are
]


@pytest.mark.parametrize("definition, version", _SERVED)
def test_each_built_in_kind_has_a_message(definition: Definition, version: str) -> None:
    api_version = f"{definition.group}/{version}" if definition.group else version
    key = kind_key(api_version, definition.names.kind)
    assert key is not None
    message: Any = message_class(key).DESCRIPTOR
    schema = definition.versions[version].schema().json["properties"]
    assert list(_missing(message, {k: v for k, v in schema.items() if k in ("spec", "status")})) == []
    if definition.verbs is None or "list" in definition.verbs:
        assert kind_key(api_version, definition.names.list_kind) is not None


def _missing(message: Descriptor, properties: dict[str, Any], path: str = "") -> Iterator[str]:
    """The properties of a schema that a message has no field for."""
    fields = dict(_fields(message))
    for name, schema in properties.items():
        if name not in fields:
            yield f"{path}.{name}"
        elif fields[name].message_type and "properties" in schema:
            yield from _missing(type_of(fields[name]), schema["properties"], f"{path}.{name}")
        elif fields[name].message_type and "properties" in schema.get("items", {}):
            yield from _missing(type_of(fields[name]), schema["items"]["properties"], f"{path}.{name}")


def _fields(message: Descriptor) -> Iterator[tuple[str, FieldDescriptor]]:
    for field in message.fields:
        if field.json_name == INLINE:
            yield from _fields(type_of(field))
        else:
            yield field.json_name, field
