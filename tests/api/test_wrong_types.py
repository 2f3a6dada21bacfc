"""Every field of every built-in kind with a value of another type: refused with Go's message, never a 500."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from registry.api.strategies import strategy_for
from registry.builtin import definitions
from registry.builtin.structs import CORE
from registry.codec.structs.base import GoType
from registry.codec.structs.structs import GoMap, GoSlice, OneOf, Pointer, Struct
from registry.definitions.model import Definition
from registry.definitions.types import CustomResourceDefinition
from tests.api.client import APPLY, MERGE, Client
from tests.api.errors import failure
from tests.application import shares_application

pytestmark = shares_application


SERVICES = "/api/v1/namespaces/default/services"
VALUES: list[Any] = [5, "abc", [["a", "b"]], None, {"a": {"a": []}}]
PYTHON = re.compile(r"Traceback|NoneType|TypeError|KeyError|ValueError|object has no attribute|<class '")
# The answers of kube-apiserver itself with 500, to what an apply cannot handle.
KUBERNETES = re.compile(
    "failed to create typed patch object|to proper version: unable to convert unstructured object|strconv.ParseUint: parsing"
)
# How deep a schema in a definition is taken to pieces; it holds itself.
MAX_DEPTH = 9


def struct_of(definition: Definition) -> Struct | None:
    if definition.names.plural == "customresourcedefinitions":
        return CustomResourceDefinition
    if definition.names.plural == "services":
        return CORE["Service"]
    version = definition.versions[definition.storage_version]
    return getattr(strategy_for(definition, version), "struct", None)


def wrongs(type_: GoType, depth: int = 0) -> Iterator[Any]:
    """Values of a type in which one thing is of another type."""
    yield from VALUES
    if depth > MAX_DEPTH:
        return
    if isinstance(type_, Pointer):
        yield from wrongs(type_.element, depth)
    elif isinstance(type_, GoSlice):
        yield from ([wrong] for wrong in wrongs(type_.element, depth + 1))
    elif isinstance(type_, GoMap):
        yield from ({"a": wrong} for wrong in wrongs(type_.element, depth + 1))
    elif isinstance(type_, Struct):
        # Of structs that hold themselves one level is enough.
        below = MAX_DEPTH + 1 if type_.name == "JSONSchemaProps" else depth + 1
        for field in type_.fields:
            yield from ({field.name: wrong} for wrong in wrongs(field.type, below))
    elif isinstance(type_, OneOf):
        yield from ([wrong] for wrong in VALUES)


def path_of(definition: Definition) -> str:
    start = f"/apis/{definition.group}" if definition.group else "/api"
    place = "namespaces/default/" if definition.namespaced else ""
    return f"{start}/{definition.storage_version}/{place}{definition.names.plural}"


def merged(base: dict[str, Any], wrong: dict[str, Any]) -> dict[str, Any]:
    """The object with what is wrong, with a name where that leaves room for one."""
    obj = {**base, **wrong}
    if isinstance(obj.get("metadata"), dict):
        obj["metadata"] = {"name": "a", **obj["metadata"]}
    return obj


# Metadata is the same in all kinds; it is decoded in one way for typed ones, and in another for the others.
_WITH_METADATA = ("ConfigMap", "Service", "Tenant", "CustomResourceDefinition")


@pytest.mark.parametrize("definition", definitions(), ids=lambda definition: definition.name)
@pytest.mark.parametrize("posts", [True, False], ids=["create", "apply"])
async def test_values_of_wrong_types_in_every_field(
    module_application: Client, definition: Definition, posts: bool
) -> None:
    """By dry runs, so all share the tenant `default`."""
    api, path = module_application, path_of(definition)
    api_version = f"{definition.group}/{definition.storage_version}" if definition.group else "v1"
    base: dict[str, Any] = {"apiVersion": api_version, "kind": definition.names.kind, "metadata": {"name": "a"}}
    struct = struct_of(definition)
    members = ("spec", "status", "metadata", "data", "kind", "apiVersion")
    some = wrongs(struct) if struct is not None else ({name: value} for name in members for value in VALUES)
    for wrong in some:
        if not isinstance(wrong, dict) or ("metadata" in wrong and definition.names.kind not in _WITH_METADATA):
            continue
        obj = merged(base, wrong)
        if posts or "Review" in definition.names.kind:
            answer = await api.post(f"{path}?dryRun=All", obj)
        else:
            answer = await api.patch(f"{path}/a?dryRun=All&fieldManager=m", obj, APPLY)
        # kube-apiserver answers 500 to what it cannot apply, in words of its own.
        assert answer.code < 500 or KUBERNETES.search(answer.text), (obj, answer.text)
        assert not PYTHON.search(answer.text), (obj, answer.text)


WRONG_SERVICES: dict[str, tuple[Any, str]] = {
    "spec, a text": ({"spec": "abc"}, "string into Go struct field Service.spec of type v1.ServiceSpec"),
    "spec, a list": ({"spec": [["a", "b"]]}, "array into Go struct field Service.spec of type v1.ServiceSpec"),
    "ports, a number": (
        {"spec": {"ports": 5}},
        "number into Go struct field ServiceSpec.spec.ports of type []v1.ServicePort",
    ),
    "a port, a number": (
        {"spec": {"ports": [5]}},
        "number into Go struct field ServiceSpec.spec.ports of type v1.ServicePort",
    ),
    "the number of a port, a text": (
        {"spec": {"ports": [{"port": "80"}]}},
        "string into Go struct field ServicePort.spec.ports.port of type int32",
    ),
    "the number of a port, too large": (
        {"spec": {"ports": [{"port": 3000000000}]}},
        "number 3000000000 into Go struct field ServicePort.spec.ports.port of type int32",
    ),
    "a target, an object": (
        {"spec": {"ports": [{"port": 80, "targetPort": {}}]}},
        "object into Go struct field ServicePort.spec.ports.targetPort of type int32",
    ),
    "a selector": (
        {"spec": {"selector": {"a": 1}}},
        "number into Go struct field ServiceSpec.spec.selector of type string",
    ),
    "type": ({"spec": {"type": 1}}, "number into Go struct field ServiceSpec.spec.type of type v1.ServiceType"),
    "an address": (
        {"spec": {"clusterIPs": "a"}},
        "string into Go struct field ServiceSpec.spec.clusterIPs of type []string",
    ),
    "status": ({"status": []}, "array into Go struct field Service.status of type v1.ServiceStatus"),
}


@pytest.mark.parametrize("wrong, why", WRONG_SERVICES.values(), ids=WRONG_SERVICES)
async def test_services(api: Client, wrong: dict[str, Any], why: str) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    status = failure(await api.post(SERVICES, {**service, **wrong}), 400, "BadRequest")
    assert status["message"] == f'Service in version "v1" cannot be handled as a Service: json: cannot unmarshal {why}'
    (await api.post(SERVICES, {**service, "spec": {"ports": [{"port": 80}]}})).ok(201)
    status = failure(await api.patch(f"{SERVICES}/a", wrong, MERGE), 422, "Invalid")
    assert status["message"].endswith(f"json: cannot unmarshal {why}")


async def test_a_whole_service(api: Client) -> None:
    spec = {
        "ports": [{"name": "web", "port": 80, "targetPort": "http"}, {"name": "tls", "port": 443}],
        "selector": {"app": "a"},
        "clusterIP": "None",
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}},
        "ipFamilies": ["IPv4"],
    }
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {**spec, "colour": "red"}}
    answer = await api.post(SERVICES, body)
    assert answer.warnings == ['unknown field "spec.colour"', "spec.SessionAffinity is ignored for headless services"]
    assert answer.ok(201)["spec"] == {
        **spec,
        "ports": [
            {"name": "web", "port": 80, "protocol": "TCP", "targetPort": "http"},
            {"name": "tls", "port": 443, "protocol": "TCP", "targetPort": 443},
        ],
        "type": "ClusterIP",
        "clusterIPs": ["None"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }


async def test_each_of_several_kinds_is_a_text(api: Client) -> None:
    body = '{"kind":5,"kind":"Service","apiVersion":"v1"}'
    message = failure(await api.post(SERVICES, body), 400, "BadRequest")["message"]
    assert "json parse error: json: cannot unmarshal number into Go struct field .kind of type string" in message


async def test_a_member_that_was_null_is_given_twice(api: Client) -> None:
    body = '{"kind":null,"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","labels":null,"labels":{}}}'
    answer = await api.post("/api/v1/namespaces/default/configmaps?dryRun=All", body)
    answer.ok(201)
    assert answer.warnings == ['duplicate field "kind"', 'duplicate field "metadata.labels"']


async def test_an_api_version_without_version(api: Client) -> None:
    for body in ('{"kind":"Service","apiVersion":"v1/"}', '{"apiVersion":"v1/"}'):
        message = failure(await api.post(SERVICES, body), 400, "BadRequest")["message"]
        assert message == (
            f"Service in version \"\" cannot be handled as a Service: Object 'apiVersion' is missing in '{body}'"
        )


DELETE_OPTIONS = {
    "several kinds": ('{"kind":5,"kind":"DeleteOptions"}', "number into Go struct field .kind of type string"),
    "the literal": (
        '{"gracePeriodSeconds":1.50}',
        "number 1.50 into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
    ),
    "of several values the first": (
        '{"gracePeriodSeconds":5.5,"gracePeriodSeconds":5}',
        "number 5.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
    ),
    "beyond float64": (
        '{"orphanDependents":1e400}', "number into Go struct field DeleteOptions.orphanDependents of type bool"
    ),
    "a version missing": ('{"apiVersion":"v1/"}', "Object 'apiVersion' is missing in '{\"apiVersion\":\"v1/\"}'"),
    "the core group": ('{"kind":"ConfigMap","apiVersion":"/v1"}', 'no kind "ConfigMap" is registered for version "v1"'),
}  # fmt: skip


@pytest.mark.parametrize("body, fault", DELETE_OPTIONS.values(), ids=DELETE_OPTIONS)
async def test_delete_options(api: Client, body: str, fault: str) -> None:
    status = failure(await api.delete("/api/v1/namespaces/default/configmaps/none", body), 400, "BadRequest")
    assert fault in status["message"]


async def test_a_group_without_version_is_the_group_of_the_path(api: Client) -> None:
    body = '{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/","metadata":{"name":"a"}}'
    created = await api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles?dryRun=All", body)
    assert created.ok(201)["apiVersion"] == "rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
async def test_a_version_that_is_served_no_more(api: Client, version: str) -> None:
    api_version = f"rbac.authorization.k8s.io/{version}"
    body = {"kind": "ClusterRole", "apiVersion": api_version, "metadata": {"name": "a"}}
    status = failure(await api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", body), 400, "BadRequest")
    assert status["message"] == (
        f"the API version in the data ({api_version}) does not match the expected API version "
        "(rbac.authorization.k8s.io/v1)"
    )


async def test_a_list_is_a_known_kind(api: Client) -> None:
    body = {"kind": "List", "apiVersion": "v1"}
    message = failure(await api.post("/api/v1/namespaces/default/configmaps", body), 400, "BadRequest")["message"]
    assert message.endswith("converting (v1.List) to (core.ConfigMap): unknown conversion")
