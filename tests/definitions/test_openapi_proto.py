from __future__ import annotations

import struct
from typing import Any

import pytest

from registry.codec.wire import encode_delimited
from registry.definitions.compiled import compile_definition
from registry.definitions.openapi.documents import openapi_v3_document
from registry.definitions.openapi.proto import NotOpenAPI, encode_v2, encode_v3
from registry.definitions.openapi.v2 import openapi_v2
from tests.codec.wire_fields import fields
from tests.definitions.crds import crd, established

SCHEMA = {
    "type": "object",
    "description": "Ä widget.",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maxLength": 3, "enum": [1, None], "exclusiveMinimum": True},
        "m": {"type": "object", "additionalProperties": {"type": "string"}},
        "a": {"type": "object", "additionalProperties": True},
        "l": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    },
}
DOCUMENT = encode_v2(openapi_v2([compile_definition(established(crd(SCHEMA)))]))


def parts(message: bytes, number: int) -> list[Any]:
    return [value for found, value in fields(message) if found == number]


def named(message: bytes, number: int, name: str) -> bytes:
    """The value of the pair with this name."""
    for pair in parts(message, number):
        if parts(pair, 1) == [name.encode()]:
            found: bytes = parts(pair, 2)[0]
            return found
    raise KeyError(name)


def of_another_server(operation: Any = None, **schema: Any) -> dict[str, Any]:
    return {"paths": {"/apis/a/v1/b": {"get": operation}}, "definitions": {"B": schema}}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(of_another_server(5), id="operation"),
        pytest.param(of_another_server({"tags": 5}), id="tags"),
        pytest.param(of_another_server({"operationId": ["a"]}), id="operation id"),
        pytest.param(of_another_server({"parameters": {}}), id="parameters"),
        pytest.param(of_another_server({"parameters": [5]}), id="parameter"),
        pytest.param(of_another_server({"parameters": [{"in": [], "name": 7}]}), id="place and name of a parameter"),
        pytest.param(of_another_server({"responses": []}), id="responses"),
        pytest.param(of_another_server({"responses": {"200": 5}}), id="response"),
        pytest.param(of_another_server(properties=[]), id="properties"),
        pytest.param(of_another_server(properties={"a": 5}), id="property"),
        pytest.param(of_another_server(type={}), id="type"),
        pytest.param(of_another_server(type=["string", 5]), id="types"),
        pytest.param(of_another_server(items=[5]), id="items"),
        pytest.param(of_another_server(required=5), id="required"),
        pytest.param(of_another_server(enum={}), id="enum"),
        pytest.param(of_another_server(uniqueItems="yes"), id="flag"),
        pytest.param(of_another_server(maxLength=1.5), id="integer"),
        pytest.param(of_another_server(maxLength=-1), id="negative"),
        pytest.param(of_another_server(maxLength=1 << 63), id="long integer"),
        pytest.param(of_another_server(maximum="a"), id="double"),
        pytest.param(of_another_server(maximum=10**400), id="long double"),
        pytest.param(of_another_server(additionalProperties=5), id="additional properties"),
    ],
)
def test_values_of_wrong_types_are_refused(document: dict[str, Any]) -> None:
    """kubectl would get an internal error for all that the tenant has."""
    with pytest.raises(NotOpenAPI):
        encode_v2(document)


def test_what_other_servers_may_have() -> None:
    """Go reads null as nothing, and both forms of types and items."""
    document = of_another_server(
        properties={"a": None}, type=["string", "null"], items=[{"title": "x"}, {}], maximum=1, minimum=None
    )
    schema = named(parts(encode_v2(document), 9)[0], 1, "B")
    assert named(parts(schema, 25)[0], 1, "a") == b""
    assert [parts(found, 1) for found in parts(schema, 22)] == [[b"string", b"null"]]
    assert [len(parts(found, 1)) for found in parts(schema, 23)] == [2]


def test_document() -> None:
    assert parts(DOCUMENT, 1) == [b"2.0"]
    paths = parts(DOCUMENT, 8)[0]
    item = named(paths, 2, "/apis/g.example.com/v1/namespaces/{namespace}/widgets/{name}")
    patch = parts(item, 8)[0]
    assert parts(patch, 5) == [b"patchGExampleComV1NamespacedWidget"]
    assert named(patch, 13, "x-kubernetes-action") == b"\x12\x06patch\n"
    [body, *queries] = [parts(p, 1)[0] for p in parts(patch, 8)]
    assert parts(parts(body, 1)[0], 2) == [b"body"]
    query = parts(parts(queries[0], 2)[0], 3)[0]
    assert (parts(query, 4), parts(query, 2), parts(query, 6)) == ([b"dryRun"], [b"query"], [b"string"])
    shared = [parts(parts(p, 1)[0], 2)[0] for p in parts(item, 9)]
    assert parts(parts(shared[0], 4)[0], 4) == [b"name"]
    responses = parts(patch, 9)[0]
    answer = parts(named(responses, 1, "200"), 1)[0]
    assert parts(parts(parts(answer, 2)[0], 1)[0], 1) == [b"#/definitions/com.example.g.v1.Widget"]


@pytest.mark.parametrize(
    "value, yaml",
    [
        pytest.param("patch", "patch\n", id="text"),
        pytest.param(True, "true\n", id="flag"),
        pytest.param(["k", "l"], "- k\n- l\n", id="list"),
        pytest.param(
            [{"rule": "self.a != 1: 2", "message": "a: b"}, {"rule": "true"}],
            "- message: 'a: b'\n  rule: 'self.a != 1: 2'\n- rule: \"true\"\n",
            id="rules",
        ),
        pytest.param([{"rule": "a\n|| b"}], "- rule: |-\n    a\n    || b\n", id="several lines"),
        pytest.param("word " * 30 + "end", "word " * 30 + "end\n", id="a long line"),
        pytest.param(["yes", "12:30", "null", "1e3"], '- yes\n- 12:30\n- "null"\n- "1e3"\n', id="words"),
        pytest.param({"a10": 1e-7, "a2": 1e20}, "a10: 1e-7\na2: 100000000000000000000\n", id="map"),
    ],
)
def test_extension_values_are_yaml_in_block_style(value: Any, yaml: str) -> None:
    """As compared with kube-apiserver 1.36."""
    document = {"definitions": {"B": {"x-kubernetes-a": value}}}
    schema = named(parts(encode_v2(document), 9)[0], 1, "B")
    assert named(schema, 31, "x-kubernetes-a") == encode_delimited(2, yaml.encode())


def test_schema() -> None:
    widget = named(parts(DOCUMENT, 9)[0], 1, "com.example.g.v1.Widget")
    assert parts(widget, 4) == ["Ä widget.".encode()]
    assert named(widget, 31, "x-kubernetes-group-version-kind")[2:] == (
        b"- group: g.example.com\n  kind: Widget\n  version: v1\n"
    )
    properties = parts(widget, 25)[0]
    number = named(properties, 1, "n")
    assert parts(parts(number, 22)[0], 1) == [b"integer"]
    assert parts(number, 9) == [struct.unpack("<Q", struct.pack("<d", 1))[0]]
    assert (parts(number, 11), parts(number, 10)) == ([3], [1])
    assert parts(number, 20) == [b"\x12\x021\n", b"\x12\x05null\n"]
    assert parts(parts(parts(parts(named(properties, 1, "m"), 21)[0], 1)[0], 22)[0], 1) == [b"string"]
    assert parts(parts(named(properties, 1, "a"), 21)[0], 2) == [1]
    listed = named(properties, 1, "l")
    assert parts(parts(parts(parts(listed, 23)[0], 1)[0], 22)[0], 1) == [b"string"]
    assert named(listed, 31, "x-kubernetes-list-type") == b"\x12\x04set\n"


SCHEMA_V3 = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maxLength": 3, "enum": [1, None], "default": 0, "nullable": True},
        "b": {"type": "boolean", "default": False},
        "s": {"type": "string", "default": "ä", "pattern": "^a"},
        "o": {"type": "object", "default": {}, "additionalProperties": {"type": "string"}},
        "e": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
        "l": {"type": "array", "items": {"type": "string"}, "not": {"maxItems": 0}, "x-kubernetes-list-type": "set"},
    },
}
DOCUMENT_V3 = encode_v3(
    openapi_v3_document([compile_definition(established(crd(SCHEMA_V3)))], "apis/g.example.com/v1") or {}
)


def at(message: bytes, *path: int) -> Any:
    """What the first field of each number holds, one within the other."""
    found: Any = message
    for number in path:
        found = parts(found, number)[0]
    return found


def test_document_of_v3() -> None:
    assert parts(DOCUMENT_V3, 1) == [b"3.0.0"]
    assert at(DOCUMENT_V3, 2, 6) == b"v0.1.0"
    item = named(at(DOCUMENT_V3, 4), 1, "/apis/g.example.com/v1/namespaces/{namespace}/widgets/{name}")
    patch = at(item, 10)
    assert parts(patch, 5) == [b"patchGExampleComV1NamespacedWidget"]
    assert named(patch, 13, "x-kubernetes-action") == b"\x12\x06patch\n"
    query = at(patch, 6, 1)
    assert (parts(query, 1), parts(query, 2), at(query, 10, 1, 25)) == ([b"dryRun"], [b"query"], b"string")
    body = named(at(patch, 7, 1, 2), 1, "application/merge-patch+json")
    assert at(body, 1, 2, 1) == b"#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
    answer = at(named(at(patch, 8), 2, "200"), 1)
    assert parts(answer, 1) == [b"OK"]
    assert at(named(at(answer, 3), 1, "application/json"), 1, 2, 1) == (b"#/components/schemas/com.example.g.v1.Widget")


def test_schema_of_v3() -> None:
    widget = at(named(at(DOCUMENT_V3, 5, 1), 1, "com.example.g.v1.Widget"), 1)
    assert b"kind: Widget" in named(widget, 36, "x-kubernetes-group-version-kind")
    properties = at(widget, 31)
    number, flag, text, mapping, either, listed = (at(named(properties, 1, name), 1) for name in "nbsoel")
    assert (at(number, 25), parts(number, 1), parts(number, 15)) == (b"integer", [1], [3])
    assert parts(number, 24) == [b"\x12\x021\n", b"\x12\x05null\n"]
    assert parts(at(number, 33), 1) == [0]
    assert parts(at(flag, 33), 2) == [0]
    assert (at(text, 33, 3), at(text, 17)) == ("ä".encode(), b"^a")
    assert at(mapping, 33) == b"", "the message has no form for defaults that are no scalars"
    assert at(mapping, 32, 1, 1, 25) == b"string"
    assert [at(branch, 1, 25) for branch in parts(either, 28)] == [b"integer", b"string"]
    assert at(listed, 30, 1, 1, 25) == b"string"
    assert parts(at(listed, 29), 18) == [0]
    assert named(listed, 36, "x-kubernetes-list-type") == b"\x12\x04set\n"
    assert at(named(properties, 1, "metadata"), 1, 26, 2, 1).endswith(b".ObjectMeta")
