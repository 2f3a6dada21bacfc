"""The rules on ObjectMeta, their texts and their order."""

from typing import Any

import pytest

from registry.schema.names import name_is_dns1035_label, name_is_dns_label, name_is_path_segment
from registry.schema.objectmeta.rules import (
    finalizer_warnings,
    owner_reference_warnings,
    validate_common_fields,
    validate_field_manager,
    validate_object_meta,
    validate_object_meta_update,
    validate_update_thrice,
)

NAME = {"name": "a", "namespace": "n"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    "meta, errors",
    [
        pytest.param({}, [], id="ordinary"),
        pytest.param({"name": ""}, ["metadata.name: Required value: name or generateName is required"], id="no name"),
        pytest.param(
            {"name": "a" * 254},
            [f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters'],
            id="long name",
        ),
        pytest.param({"namespace": ""}, ["metadata.namespace: Required value"], id="no namespace"),
        pytest.param(
            {"namespace": "a.b"},
            ['metadata.namespace: Invalid value: "a.b": must not contain dots'],
            id="namespace with dots",
        ),
        pytest.param({"generateName": "pre-"}, [], id="generateName may end with a dash"),
        pytest.param(
            {"labels": {"a b": "c"}}, [f'metadata.labels: Invalid value: "a b": name part {KEY}'], id="label key"
        ),
        pytest.param(
            {"labels": {"/a": "", "b/": ""}},
            [
                'metadata.labels: Invalid value: "/a": prefix part must be non-empty',
                'metadata.labels: Invalid value: "b/": name part must be non-empty',
                f'metadata.labels: Invalid value: "b/": name part {KEY}',
            ],
            id="half label keys",
        ),
        pytest.param(
            {"labels": {"a/b/c": ""}},
            [
                f'metadata.labels: Invalid value: "a/b/c": a valid label key {KEY} with an optional DNS subdomain prefix and '
                "'/' (e.g. 'example.com/MyName')"
            ],
            id="two slashes",
        ),
        pytest.param(
            {"labels": {"a": "x" * 64}},
            [f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes'],
            id="long label value",
        ),
        pytest.param({"annotations": {"Example.com/A": "any\nthing"}}, [], id="annotation keys in any case"),
        pytest.param({"annotations": {"a": "x" * 262143}}, [], id="annotations at the limit"),
        pytest.param(
            {"annotations": {"a": "ä" * 131072}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="annotations above",
        ),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]},
            [
                "metadata.ownerReferences[0].apiVersion: Required value: must not be empty",
                "metadata.ownerReferences[0].kind: Required value: must not be empty",
                "metadata.ownerReferences[0].name: Required value: must not be empty",
                "metadata.ownerReferences[0].uid: Required value: must not be empty",
            ],
            id="empty owner",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "kind": "Event"}]},
            [
                'metadata.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"p","uid":"u"}: '
                "/v1, Kind=Event is disallowed from being an owner"
            ],
            id="banned owner",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "name": "q", "controller": True}]},
            [
                'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u",'
                '"controller":true},{"apiVersion":"v1","kind":"Pod","name":"q","uid":"u","controller":true}]: '
                'Only one reference can have Controller set to true. Found "true" in references for Pod/p and Pod/q'
            ],
            id="two controllers",
        ),
        pytest.param(
            {"finalizers": ["orphan", "foregroundDeletion"]},
            [
                'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion '
                "cannot be both set"
            ],
            id="both finalizers",
        ),
        pytest.param(
            {"finalizers": ["a b"]}, [f'metadata.finalizers: Invalid value: "a b": name part {KEY}'], id="finalizer"
        ),
        pytest.param(
            {"generation": -1},
            ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
            id="generation",
        ),
        pytest.param(
            {"managedFields": [{"operation": "x", "fieldsType": "y", "manager": "\n"}]},
            [
                'metadata.managedFields[0].operation: Unsupported value: "x": supported values: "Apply", "Update"',
                'metadata.managedFields[0].fieldsType: Invalid value: "y": must be `FieldsV1`',
                'metadata.managedFields[0].manager: Invalid value: "\\n": invalid character U+000A (at position 0)',
            ],
            id="managed fields",
        ),
        pytest.param(
            {"managedFields": [{"operation": "Apply", "manager": "x" * 129, "subresource": "s" * 257}]},
            [
                "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ],
            id="managed fields, long names",
        ),
    ],
)
def test_new_objects(meta: dict[str, Any], errors: list[str]) -> None:
    assert [e.message() for e in validate_object_meta({**NAME, **meta}, namespaced=True)] == errors


def test_a_namespace_on_a_cluster_scoped_object() -> None:
    assert [e.message() for e in validate_object_meta(NAME, namespaced=False)] == [
        "metadata.namespace: Forbidden: not allowed on this type"
    ]


@pytest.mark.parametrize(
    "name, function, good",
    [
        ("A_b", name_is_path_segment, True),
        ("..", name_is_path_segment, False),
        ("a%", name_is_path_segment, False),
        ("a.b", name_is_dns_label, False),
        ("1a", name_is_dns_label, True),
        ("1a", name_is_dns1035_label, False),
    ],
)
def test_name_functions(name: str, function: Any, good: bool) -> None:
    errors = validate_object_meta({"name": name}, namespaced=False, name_function=function)
    assert (not errors) is good


OLD = {
    "name": "a",
    "namespace": "n",
    "uid": "u",
    "resourceVersion": "5",
    "generation": 2,
    "creationTimestamp": "2024-01-02T03:04:05Z",
}


@pytest.mark.parametrize(
    "change, errors",
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"labels": {"a": "b"}}, [], id="labels"),
        pytest.param({"uid": "x"}, ['metadata.uid: Invalid value: "x": field is immutable'] * 2, id="uid twice"),
        pytest.param({"labels": {"a": "b c"}}, [None] * 3, id="labels thrice"),
        pytest.param({"finalizers": ["a b"]}, [None], id="finalizers once"),
        pytest.param(
            {"resourceVersion": ""},
            ['metadata.resourceVersion: Invalid value: "": must be specified for an update'] * 2,
            id="no version",
        ),
        pytest.param(
            {"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"] * 2, id="generation"
        ),
        pytest.param(
            {"deletionTimestamp": "2024-01-02T03:04:05Z"},
            ['metadata.deletionTimestamp: Invalid value: "2024-01-02T03:04:05Z": field is immutable'] * 2,
            id="deletion",
        ),
    ],
)
def test_updates(change: dict[str, Any], errors: list[str | None]) -> None:
    new = {**OLD, **change}
    found = [e.message() for e in validate_update_thrice(new, OLD, namespaced=True)]
    assert found == [expected or message for expected, message in zip(errors, found, strict=True)]
    assert found == [
        e.message()
        for e in (*validate_common_fields(new, OLD, namespaced=True), *validate_object_meta_update(new, OLD))
    ]


def test_no_finalizer_is_added_during_deletion() -> None:
    old = {**OLD, "deletionTimestamp": "2024-01-02T03:04:05Z", "finalizers": ["x/a", "x/b"]}
    assert validate_object_meta_update({**old, "finalizers": ["x/b"]}, old) == []
    assert [e.message() for e in validate_object_meta_update({**old, "finalizers": ["x/d", "x/b", "x/c"]}, old)] == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
        'finalizers []string{"x/c", "x/d"}'
    ]


def test_finalizer_warnings() -> None:
    tail = "to avoid accidental conflicts with other finalizer writers"
    assert finalizer_warnings({"finalizers": ["zeta", "a.b", "orphan", "x/y", "old"]}, {"finalizers": ["old"]}) == [
        f'metadata.finalizers: "a.b": prefer a domain-qualified finalizer name including a path (/) {tail}',
        f'metadata.finalizers: "zeta": prefer a domain-qualified finalizer name {tail}',
    ]
    assert finalizer_warnings({}, None) == []


def test_duplicate_owner_references_are_merged() -> None:
    meta = {"ownerReferences": [OWNER, {**OWNER, "name": "q"}, dict(OWNER)]}
    [warning] = owner_reference_warnings(meta)
    assert warning.endswith("duplicate UID(s) observed: u")
    assert meta["ownerReferences"] == [OWNER, {**OWNER, "name": "q"}]
    assert owner_reference_warnings(meta) == []


@pytest.mark.parametrize(
    "name, messages",
    [
        ("m", []),
        ("é" * 64, []),
        ("é" * 65, ["fieldManager: Too long: may not be more than 128 bytes"]),
        ("a\nb", ['fieldManager: Invalid value: "a\\nb": invalid character U+000A (at position 1)']),
        (
            "é\n\t",
            [
                'fieldManager: Invalid value: "é\\n\\t": invalid character U+000A (at position 2)',
                'fieldManager: Invalid value: "é\\n\\t": invalid character U+0009 (at position 3)',
            ],
        ),
    ],
)
def test_names_of_managers(name: str, messages: list[str]) -> None:
    assert [error.message() for error in validate_field_manager(name, "fieldManager")] == messages


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"labels": {"a": "-"}}, id="a label"),
        pytest.param({"uid": "v"}, id="the uid"),
        pytest.param({"labels": {"a": "-"}, "uid": "v"}, id="a label and the uid"),
        pytest.param({"resourceVersion": ""}, id="no revision"),
        pytest.param({"annotations": {"-": ""}, "generation": -1}, id="an annotation and the generation"),
        pytest.param({"managedFields": [{"operation": "x"}]}, id="an owner"),
    ],
)
def test_an_update_has_the_errors_of_all_its_checks(change: dict[str, Any]) -> None:
    old = {**NAME, "uid": "u", "resourceVersion": "1"}
    new = {**old, **change}
    whole = validate_object_meta(new, namespaced=True, name_function=name_is_path_segment)
    update = validate_object_meta_update(new, old)
    assert validate_common_fields(new, old, namespaced=True) == whole + update
    assert validate_update_thrice(new, old, namespaced=True) == whole + update + update


@pytest.mark.parametrize("validate", [validate_common_fields, validate_update_thrice])
def test_what_is_valid_is_checked_once(validate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []
    monkeypatch.setattr("registry.schema.objectmeta.rules._labels", lambda meta, path, errors: checked.append(path))
    old = {**NAME, "resourceVersion": "1", "labels": {"a": "b"}}
    assert validate(old, old, namespaced=True) == []
    assert checked == ["metadata"]
