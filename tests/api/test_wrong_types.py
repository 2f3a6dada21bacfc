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
