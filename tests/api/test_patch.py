"""Patch: the four patch types, what each refuses, and missing objects."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from registry.api.strategies.base import Object
from registry.api.strategies.custom import CustomStrategy
from tests.api.client import APPLY, JSON_PATCH, MERGE, Body, Client
from tests.api.errors import failure
from tests.api.widgets import GROUP, NAMESPACES, WIDGETS, make, widget
from tests.application import shares_application

pytestmark = shares_application


A = f"{WIDGETS}/a"

APPLIED: dict[str, tuple[str, Body, Any]] = {
    "merge sets": (MERGE, {"spec": {"size": 5}}, {"size": 5, "color": "red", "parts": ["x"]}),
    "merge removes": (MERGE, {"spec": {"parts": None}}, {"size": 1, "color": "red"}),
    "merge replaces lists": (MERGE, {"spec": {"parts": ["y"]}}, {"size": 1, "color": "red", "parts": ["y"]}),
    "a removed field is defaulted again": (
        MERGE,
        {"spec": {"color": None}},
        {"size": 1, "color": "grey", "parts": ["x"]},
    ),
    "json adds": (
        JSON_PATCH,
        [{"op": "add", "path": "/spec/parts/-", "value": "y"}],
        {"size": 1, "color": "red", "parts": ["x", "y"]},
    ),
    "json tests and replaces": (
        JSON_PATCH,
        [{"op": "test", "path": "/spec/size", "value": 1}, {"op": "replace", "path": "/spec/size", "value": 2}],
        {"size": 2, "color": "red", "parts": ["x"]},
    ),
}


@pytest.mark.parametrize("form, body, spec", APPLIED.values(), ids=APPLIED)
async def test_a_patch_changes_what_it_names(shared_api: Client, form: str, body: Body, spec: Any) -> None:
    await make(shared_api, "a", size=1, color="red", parts=["x"])
    assert (await shared_api.patch(A, body, form)).ok(200)["spec"] == spec


REFUSED: dict[str, tuple[str, Body, int, str]] = {
    "merge of no json": (MERGE, "{", 400, "BadRequest"),
    "merge of a list": (MERGE, "[]", 400, "BadRequest"),
    "merge to a wrong value": (MERGE, {"spec": {"size": -1}}, 422, "Invalid"),
    "merge of another name": (MERGE, {"metadata": {"name": "b"}}, 400, "BadRequest"),
    "merge of an old resource version": (MERGE, {"metadata": {"resourceVersion": "1"}}, 409, "Conflict"),
    "json patch of an object": (JSON_PATCH, {"op": "add"}, 400, "BadRequest"),
    "json patch whose test fails": (JSON_PATCH, [{"op": "test", "path": "/spec/size", "value": 9}], 422, "Invalid"),
    "json patch of nothing": (JSON_PATCH, [{"op": "remove", "path": "/spec/none"}], 422, "Invalid"),
    "json patch that removes everything": (JSON_PATCH, [{"op": "remove", "path": "/kind"}], 400, ""),
    "a form that there is not": ("application/xml", "<a/>", 415, "UnsupportedMediaType"),
    "a strategic patch of a custom object": ("application/strategic-merge-patch+json", {}, 415, "UnsupportedMediaType"),
    "an apply without a manager": (APPLY, "spec: {}", 422, "Invalid"),
}


@pytest.mark.parametrize("form, body, code, reason", REFUSED.values(), ids=REFUSED)
async def test_an_invalid_patch_changes_nothing(
    shared_api: Client, form: str, body: Body, code: int, reason: str
) -> None:
    [made] = await make(shared_api, "a", size=1)
    answer = await shared_api.patch(A, body, form)
    if reason:
        failure(answer, code, reason)
    else:
        assert answer.code >= 400
        failure(answer, answer.code, answer.json.get("reason", ""))
    assert (await shared_api.get(A)).ok() == made


@pytest.mark.parametrize(
    "change, code, reason",
    [
        ({}, 500, "InternalError"),
        ({"resourceVersion": "1"}, 409, "Conflict"),
        ({"resourceVersion": "x"}, 500, ""),
        ({"resourceVersion": "1", "labels": {"-": "-"}}, 409, "Conflict"),
    ],
)
async def test_a_patch_without_a_version_is_refused_after_a_conflict(
    shared_api: Client, change: dict[str, Any], code: int, reason: str
) -> None:
    [made] = await make(shared_api, "a")
    for path in (A, f"{A}/status"):
        failure(await shared_api.patch(path, {"apiVersion": None, "metadata": change}), code, reason)
    assert (await shared_api.get(A)).ok() == made


@pytest.mark.parametrize("form", [MERGE, JSON_PATCH])
async def test_a_malformed_patch_of_a_missing_object(shared_api: Client, form: str) -> None:
    assert failure(await shared_api.patch(A, "nonsense", form), 400, "BadRequest")["message"] == "invalid JSON patch"


@pytest.mark.usefixtures("as_1_36")
@pytest.mark.parametrize("form", [MERGE, JSON_PATCH])
async def test_a_malformed_patch_of_a_missing_object_in_1_36(shared_api: Client, form: str) -> None:
    failure(await shared_api.patch(A, "nonsense", form), 404, "NotFound")


async def test_an_apply_creates_a_missing_object(shared_api: Client) -> None:
    body = "apiVersion: test.example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 3}\n"
    made = (await shared_api.patch(f"{A}?fieldManager=me", body, APPLY)).ok(201)
    assert made["spec"]["size"] == 3
    again = (await shared_api.patch(f"{A}?fieldManager=me", body, APPLY)).ok(200)
    assert again == made


@pytest.mark.parametrize(
    "path, kind", [(f"{WIDGETS}/none", "Widget"), ("/api/v1/namespaces/default/configmaps/none", "ConfigMap")]
)
async def test_an_apply_with_a_uid_creates_nothing(shared_api: Client, path: str, kind: str) -> None:
    api_version = "v1" if kind == "ConfigMap" else f"{GROUP}/v1"
    for metadata in ({}, {"namespace": "other"}, {"labels": {"-": "a"}}):
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "none", "uid": "88e00824", **metadata}}
        status = failure(await shared_api.patch(f"{path}?fieldManager=me", body, APPLY), 409, "Conflict")
        resource = "configmaps" if kind == "ConfigMap" else f"widgets.{GROUP}"
        why = "uid mismatch: the provided object specified uid 88e00824, and no existing object was found"
        assert status["message"] == f'Operation cannot be fulfilled on {resource} "none": {why}'
    failure(await shared_api.get(path), 404, "NotFound")
    wrong = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "none", "uid": 5}}
    assert (await shared_api.patch(f"{path}?fieldManager=me", wrong, APPLY)).code in (400, 422, 500)
    failure(await shared_api.get(path), 404, "NotFound")


async def test_applying_a_field_of_another_manager_is_a_conflict_unless_forced(api: Client) -> None:
    await make(api, "a", size=1)
    body = widget("a", size=2)
    status = failure(await api.patch(f"{A}?fieldManager=me", body, APPLY), 409, "Conflict")
    assert status["details"]["causes"][0] == {
        "reason": "FieldManagerConflict",
        "message": status["details"]["causes"][0]["message"],
        "field": ".spec.size",
    }
    assert (await api.patch(f"{A}?fieldManager=me&force=true", body, APPLY)).ok()["spec"]["size"] == 2


async def test_a_long_json_patch_is_refused(api: Client) -> None:
    await make(api, "a")
    body = [{"op": "test", "path": "/kind", "value": "Widget"}] * 10_001
    failure(await api.patch(A, body, JSON_PATCH), 413, "RequestEntityTooLarge")


async def test_copies_cannot_grow_an_object_without_end(api: Client) -> None:
    await make(api, "a", free={"a": ["x" * 100]})
    body = [{"op": "copy", "from": "/spec/free", "path": "/spec/free/a/-"}] * 60
    answer = await api.patch(A, body, JSON_PATCH)
    assert answer.code in (413, 422)
    failure(answer, answer.code, answer.json["reason"])


async def test_applies_that_create_one_object_at_once(api: Client) -> None:
    """The first creates it, the others find it."""
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "at-once"}, "spec": {"size": 1}}
    paths = [f"{WIDGETS}/at-once?fieldManager=m{i}" for i in range(8)]
    answers = await asyncio.gather(*(api.patch(path, body, APPLY) for path in paths))
    assert sorted(answer.code for answer in answers) == [200] * 7 + [201]
    made = (await api.get(f"{WIDGETS}/at-once")).ok()["metadata"]
    assert {entry["manager"] for entry in made["managedFields"]} == {f"m{i}" for i in range(8)}


_SCHEME = 'in scheme "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"'
STRATEGIC = "application/strategic-merge-patch+json"
TYPES = {
    "another kind": (MERGE, {"kind": "Foo"}, f'no kind "Foo" is registered for version "v1" {_SCHEME}'),
    "another version": (
        JSON_PATCH,
        [{"op": "replace", "path": "/apiVersion", "value": "v2"}],
        f'no kind "ConfigMap" is registered for version "v2" {_SCHEME}',
    ),
    "a kind that is served, too": (
        MERGE,
        {"kind": "Secret"},
        "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
    ),
    "no kind": (MERGE, {"kind": None}, ""),
    "no version": (MERGE, {"apiVersion": None}, None),
    "no version in a strategic patch": (STRATEGIC, {"apiVersion": None}, ""),
    "only some keys retained in a strategic patch": (STRATEGIC, {"$retainKeys": ["metadata", "data"]}, ""),
    "all deleted in a strategic patch": (STRATEGIC, {"$patch": "delete"}, None),
    "another kind in a strategic patch": (STRATEGIC, {"kind": "Foo"}, ""),
    "no kind in a strategic patch": (STRATEGIC, {"kind": None}, ""),
}


@pytest.mark.parametrize("form, patch, why", TYPES.values(), ids=TYPES)
async def test_the_type_of_a_built_in_object_cannot_be_patched(
    api: Client, form: str, patch: Body, why: str | None
) -> None:
    """What a JSON or merge patch makes is decoded, what a strategic one makes is not.

    Without a version it is decoded into the internal struct, which knows no field of it: no name is left.
    """
    maps = f"{NAMESPACES}/default/configmaps"
    (await api.post(maps, {"metadata": {"name": "a"}, "data": {"k": "v"}})).ok(201)
    answer = await api.patch(f"{maps}/a", patch, form)
    if why is None:
        assert "undeterminable: name must be provided" in failure(answer, 400, "BadRequest")["message"]
        return
    if not why:
        found = answer.ok()
        assert (found["apiVersion"], found["kind"], found["data"]) == ("v1", "ConfigMap", {"k": "v"})
        return
    status = failure(answer, 422, "Invalid")
    assert status["message"].startswith(' "" is invalid: patch: Invalid value: "{')
    assert status["message"].endswith(f'": {why}')
    assert (await api.get(f"{maps}/a")).ok()["kind"] == "ConfigMap"


@pytest.mark.parametrize("validation", ["Strict", "Warn", "Ignore"])
@pytest.mark.parametrize(
    "form, changes",
    [
        pytest.param(MERGE, {"spec": {"size": 2}}, id="merge patch"),
        pytest.param(JSON_PATCH, [{"op": "replace", "path": "/spec/size", "value": 2}], id="json patch"),
    ],
)
async def test_a_patch_shares_what_it_leaves_with_the_old_object(
    api: Client, validation: str, form: str, changes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that only what has changed is pruned, defaulted and validated."""
    (await api.post(WIDGETS, widget("a", size=1, parts=["x"]))).ok(201)
    shared: list[bool] = []
    decode = CustomStrategy.decode

    def observed(self: CustomStrategy, obj: Object, unknown: list[str], old: Object | None = None) -> Object:
        if old is not None:
            shared.append(obj["spec"]["parts"] is old["spec"]["parts"])
        return decode(self, obj, unknown, old)

    monkeypatch.setattr(CustomStrategy, "decode", observed)
    (await api.patch(f"{A}?fieldValidation={validation}", changes, form)).ok(200)
    assert shared == [True]


@pytest.mark.parametrize(
    "changes, unknown, shown",
    [
        pytest.param(
            {"spec": {"shape": {"sides": 3}}},
            "spec.shape",
            '"free":{"b":1},"parts":["x"],"shape":{"sides":3},"size":1}}',
            id="a field",
        ),
        pytest.param(
            {"spec": {"free": [{"a": None}], "shape": 1}},
            "spec.shape",
            '"free":[{"a":null}],"parts":["x"],"shape":1,"size":1}}',
            id="a list in place of an object",
        ),
        pytest.param(
            [{"op": "add", "path": "/spec", "value": {"size": 2, "parts": ["x"], "shape": {"sides": 3}}}],
            "spec.shape",
            '{"size":2,"parts":["x"],"shape":{"sides":3}}}',
            id="a value of a json patch",
        ),
        pytest.param(
            [
                {"op": "test", "path": "/spec/free/b", "value": 1.0},
                {"op": "add", "path": "/spec/shape", "value": {"sides": 3}},
            ],
            "spec.shape",
            '"parts":["x"],"shape":{"sides":3},"size":1}}',
            id="a json patch with a test of a number",
        ),
        pytest.param(
            {"apiVersion": f"{GROUP}/v9"}, "spec", '"free":{"b":1},"parts":["x"],"size":1}}', id="another version"
        ),
    ],
)
async def test_a_refused_patch_is_shown_as_a_whole(api: Client, changes: Any, unknown: str, shown: str) -> None:
    """As the patch makes it, before anything is pruned; and the stored object is left as it is."""
    (await api.post(WIDGETS, widget("a", size=1, parts=["x"], free={"b": 1}))).ok(201)
    before = (await api.get(A)).ok(200)
    for _ in range(2):
        form = JSON_PATCH if isinstance(changes, list) else MERGE
        answer = await api.patch(f"{A}?fieldValidation=Strict", changes, form)
        message = failure(answer, 422, "Invalid")["message"]
        assert f'unknown field "{unknown}"' in message
        assert shown in message.replace('\\"', '"')
    assert (await api.get(A)).ok(200) == before


@pytest.mark.parametrize("validation", ["Strict", "Warn"])
async def test_faults_of_a_json_patch_are_in_the_order_of_its_operations(api: Client, validation: str) -> None:
    (await api.post(WIDGETS, widget("a", size=1))).ok(201)
    body = (
        b'[{"op": "add", "path": "/spec/color", "value": "red", "extra": 1},'
        b' {"op": "add", "path": "/spec/x", "path": "/spec/size", "value": 2}, {"op": "add", "path": "/spec/color", "value": "red", "more": 1}]'
    )
    answer = await api.patch(f"{WIDGETS}/a?fieldValidation={validation}&dryRun=All", body, JSON_PATCH)
    faults = [
        'json patch unknown field "[0].extra"',
        'json patch duplicate field "[1].path"',
        'json patch unknown field "[2].more"',
    ]
    if validation == "Warn":
        assert answer.warnings == faults
    else:
        assert answer.json["message"].endswith(f"strict decoding error: {', '.join(faults)}")


# What the Go struct of a built-in kind cannot hold, though it is a string for an apply: the body, and why.
UNCONVERTIBLE = {
    "a time": (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"acquireTime": "x"}},
        'parsing time "x" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "x" as "2006"',
    ),
    "a quantity": (
        f"{NAMESPACES}/default/resourcequotas",
        {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"pods": "x"}}},
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "bytes": (
        f"{NAMESPACES}/default/secrets",
        {"apiVersion": "v1", "kind": "Secret", "data": {"k": "!!"}},
        "error decoding from json: illegal base64 data at input byte 0",
    ),
}


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("path, body, why", UNCONVERTIBLE.values(), ids=UNCONVERTIBLE)
async def test_an_apply_that_cannot_be_converted(
    api: Client, path: str, body: dict[str, Any], why: str, exists: bool
) -> None:
    """The message names the object as the applied configuration does: without a namespace if that has none."""
    if exists:
        (await api.post(path, {"metadata": {"name": "a"}})).ok(201)
    version, kind = body["apiVersion"], body["kind"]
    typed = f"{version if '/' in version else f'/{version}'}, Kind={kind}"
    for metadata, name in (({"name": "a"}, "/a"), ({"name": "a", "namespace": "default"}, "default/a")):
        answer = await api.patch(f"{path}/a?fieldManager=m&force=true", {**body, "metadata": metadata}, APPLY)
        assert failure(answer, 500, "")["message"] == (
            f"failed to convert new object ({name}; {typed}) to proper version: unable to convert unstructured object "
            f"to {typed}: {why}"
        )


# A patch in words of the decoder that kube-apiserver uses for its type and validation.
MALFORMED: dict[str, tuple[str, str, bytes, str]] = {
    "a byte": (
        MERGE,
        "Warn",
        b"\xff",
        "error decoding patch: invalid character '\u00ff' looking for beginning of value",
    ),
    "a byte order mark": (
        JSON_PATCH,
        "Strict",
        b"\xef\xbb\xbf[]",
        "error decoding patch: invalid character '\u00ef' looking for beginning of value",
    ),
    "a control character": (
        MERGE,
        "Warn",
        b'{"a": "\x01"}',
        "error decoding patch: invalid character '\\x01' in string literal",
    ),
    "an escape": (MERGE, "Warn", b'"\\x"', "error decoding patch: invalid character 'x' in string escape code"),
    "a hexadecimal escape": (
        MERGE,
        "Warn",
        b'"\\u12"',
        "error decoding patch: invalid character '\"' in \\u hexadecimal character escape",
    ),
    "a fraction": (
        MERGE,
        "Warn",
        b"[1.]",
        "error decoding patch: invalid character ']' after decimal point in numeric literal",
    ),
    "an exponent": (
        MERGE,
        "Warn",
        b"[1e+]",
        "error decoding patch: invalid character ']' in exponent of numeric literal",
    ),
    "a merge patch, ignored": (MERGE, "Ignore", b"{", "Invalid JSON Patch"),
    "a scalar, ignored": (MERGE, "Ignore", b"5", "Invalid JSON Patch"),
    "a JSON patch, ignored": (JSON_PATCH, "Ignore", b"{", "unexpected end of JSON input"),
    "the type of a JSON patch, ignored": (
        JSON_PATCH,
        "Ignore",
        b"[1]",
        "json: cannot unmarshal number into Go value of type jsonpatch.Operation",
    ),
    "an object with a large number for a JSON patch": (
        JSON_PATCH,
        "Warn",
        b'{"a": 1e999}',
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    ),
}


@pytest.mark.usefixtures("as_1_36")
@pytest.mark.parametrize("form, validation, body, message", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_patch_in_1_36(
    shared_api: Client, form: str, validation: str, body: bytes, message: str
) -> None:
    await make(shared_api, "a", size=1)
    answer = await shared_api.patch(f"{A}?fieldValidation={validation}", body, form)
    assert failure(answer, 400, "BadRequest")["message"] == message


@pytest.mark.parametrize("content_type, code", [("text/plain", 415), (MERGE, 400)])
async def test_a_patch_of_a_collection(shared_api: Client, content_type: str, code: int) -> None:
    assert (await shared_api.patch(WIDGETS, b"{}", content_type)).code == code


async def test_the_first_segment_after_the_name_is_the_subresource(shared_api: Client) -> None:
    await make(shared_api, "a", size=1)
    status = failure(await shared_api.get(f"{A}/none/status"), 404, "NotFound")
    assert status["message"] == f'widgets.{GROUP} "a" not found'
    (await shared_api.get(f"{A}/status/more")).ok()


async def test_unknown_fields_are_in_the_order_of_the_patched_text(shared_api: Client) -> None:
    await make(shared_api, "a", size=1)
    digits = "1" * 5000
    answer = await shared_api.patch(f"{A}?fieldValidation=Strict", {"spec": {"9": 1, digits: 1, "10": 1}})
    message = failure(answer, 422, "Invalid")["message"]
    assert re.findall(r'unknown field \\?"spec\.([0-9]+)', message) == ["10", digits, "9"]
