"""What Kubernetes 1.37 changed in what needs no server; api/test_emulation.py has the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from registry import emulation
from registry.admission.configuration import policies_apply, webhooks_apply
from registry.builtin import definitions
from registry.cel.checker.checker import check
from registry.cel.checker.schema_types import declare
from registry.cel.syntax.parser import parse
from registry.definitions.warnings import warnings
from registry.schema.model import from_json
from registry.schema.objectmeta.rules import (
    validate_custom_meta,
    validate_custom_meta_update,
    validate_object_meta,
    validate_update_thrice,
)
from tests.cel.evaluation import on_self
from tests.definitions.crds import crd, prepared


@pytest.fixture(params=emulation.NAMES)
def version(request: pytest.FixtureRequest) -> Iterator[str]:
    emulation.emulate(request.param)
    yield request.param
    emulation.emulate(emulation.DEFAULT)


def of_lists(*items: str, list_type: str = "set") -> dict[str, Any]:
    properties = {
        f"p{i}": {"type": "array", "x-kubernetes-list-type": list_type, "items": {"type": kind}}
        for i, kind in enumerate(items)
    }
    found: dict[str, Any] = prepared(crd({"type": "object", "properties": properties}))
    return found


def unsupported(kind: str) -> str:
    return (
        f'x-kubernetes-list-type: set for items of type "{kind}" is not supported by server-side apply or CEL '
        "validation rules"
    )


@pytest.mark.parametrize(
    "new, old, kinds",
    [
        pytest.param(of_lists("string", "integer"), None, [], id="scalars"),
        pytest.param(of_lists("object", "array", "object"), None, ["array", "object"], id="each type once, sorted"),
        pytest.param(of_lists("object", list_type="atomic"), None, [], id="no set"),
        pytest.param(of_lists("object", "array"), of_lists("object"), ["array"], id="new on an update"),
        pytest.param(of_lists("object"), of_lists("object", "array"), [], id="there before"),
    ],
)
def test_list_type_set_of_non_scalars(version: str, new: Any, old: Any, kinds: list[str]) -> None:
    assert warnings(new, old) == ([unsupported(kind) for kind in kinds] if version == "1.37" else [])


@pytest.mark.parametrize(
    "metadata, name, generate_name",
    [
        pytest.param({}, 253, 252, id="no schema"),
        pytest.param({"name": {"type": "string", "maxLength": 10}}, 10, 252, id="a shorter one"),
        pytest.param({"name": {"type": "string", "maxLength": 300}}, 253, 252, id="a longer one"),
    ],
)
def test_name_lengths(version: str, metadata: dict[str, Any], name: int, generate_name: int) -> None:
    schema = {"type": "object", "properties": {"metadata": {"type": "object", "properties": metadata}}}
    declared = declare(from_json(schema), resource_root=True)
    assert declared is not None
    found = declared.property("metadata")
    assert found is not None
    sizes = [found.property(field).max_elements for field in ("name", "generateName")]  # type: ignore[union-attr]
    assert sizes == [4 * name, 4 * generate_name] if version == "1.37" else sizes[0] == sizes[1] > 1_000_000


def test_versions_of_built_in_kinds(version: str) -> None:
    [migrations] = [d for d in definitions() if d.group == "storagemigration.k8s.io"]
    assert list(migrations.versions) == (["v1", "v1beta1"] if version == "1.37" else ["v1beta1"])
    assert migrations.storage_version == "v1beta1"


# Rules over `self`, an object with an integer n, and what is wrong with them in each version.
NAMES = {
    "a variable with a dot, beside a local one": ("[1].all(self, .self.n == self)", "field selection", None),
    "a local variable with a dot": ("[1].all(x, .x == x)", None, "undeclared reference to '.x' (in container '')"),
    "a field of a local variable that looks like a type": (
        "[{'protobuf': {'Duration': 1}}].all(google, google.protobuf.Duration == 1)",
        "found no matching overload for '_==_' applied to '(type(duration), int)'",
        None,
    ),
    "a type with a dot": ("[self.n].all(int, .int == type(int))", "found no matching overload", None),
    "a global name with a dot": (".self.n == 1 && type(duration('1s')) == .google.protobuf.Duration", None, None),
}


@pytest.mark.parametrize("rule, older, newer", NAMES.values(), ids=NAMES)
def test_names_in_rules(version: str, rule: str, older: str | None, newer: str | None) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    declared = declare(from_json(schema))
    assert declared is not None
    expected = newer if version == "1.37" else older
    found = [issue.message for issue in check(parse(rule), {"self": declared.type}).issues]
    assert [expected in message for message in found] == [True] if expected else found == []
    if not expected:
        compiled = on_self(rule, schema)
        assert [compiled.evaluate({"n": 1}, {}), compiled.exact().evaluate({"n": 1}, {})] == [True, True]


OWNER = {"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}
OWNERS: dict[str, tuple[dict[str, str], str, str]] = {
    "no kind": (
        {"kind": ""},
        'metadata.ownerReferences.kind: Invalid value: "": must not be empty',
        "metadata.ownerReferences[0].kind: Required value: must not be empty",
    ),
    "no version": (
        {"apiVersion": ""},
        'metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty',
        "metadata.ownerReferences[0].apiVersion: Required value: must not be empty",
    ),
    "a version of three parts": (
        {"apiVersion": "a/b/c"},
        'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty',
        'metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or <version>',
    ),
}


@pytest.mark.parametrize("change, older, newer", OWNERS.values(), ids=OWNERS)
def test_errors_of_owners(version: str, change: dict[str, str], older: str, newer: str) -> None:
    metadata = {"name": "a", "namespace": "n", "ownerReferences": [{**OWNER, **change}]}
    [error] = validate_object_meta(metadata, namespaced=True)
    assert error.message() == (newer if version == "1.37" else older)


@pytest.mark.parametrize(
    "operation, older, newer",
    [
        ("", 'Invalid value: "": must be `Apply` or `Update`', "Required value: must not be empty"),
        ("Merge", 'Invalid value: "Merge": must be `Apply` or `Update`',
         'Unsupported value: "Merge": supported values: "Apply", "Update"'),
    ],
)  # fmt: skip
def test_errors_of_managed_fields(version: str, operation: str, older: str, newer: str) -> None:
    metadata = {"name": "a", "managedFields": [{"operation": operation, "manager": "m"}]}
    [error] = validate_object_meta(metadata, namespaced=False)
    assert error.message() == f"metadata.managedFields[0].operation: {newer if version == '1.37' else older}"


REPEATED = {
    "name": "a",
    "resourceVersion": "1",
    "labels": {"a": "b c", "b": "b c", "c": "d e"},
    "finalizers": ["f g", "f g"],
}


def test_equal_errors_of_a_custom_object(version: str) -> None:
    fields = [error.field for error in validate_custom_meta(REPEATED, namespaced=False)]
    labels, finalizers = ["metadata.labels"], ["metadata.finalizers"]
    assert fields == (labels * 2 + finalizers if version == "1.37" else labels * 3 + finalizers * 2)
    assert len(validate_object_meta(REPEATED, namespaced=False)) == 5  # of an object within another, or a definition


def test_equal_errors_of_an_updated_custom_object(version: str) -> None:
    """The last of three validations, the custom resources' own, reports each once."""
    labels, finalizers = ["b c", "b c", "d e"], ["f g", "f g"]
    found = [error.bad_value for error in validate_custom_meta_update(REPEATED, REPEATED, namespaced=False)]
    common = labels + finalizers + labels
    assert found == common + (["b c", "d e"] if version == "1.37" else labels)
    of_definition = validate_update_thrice(REPEATED, REPEATED, namespaced=False)
    assert [error.bad_value for error in of_definition] == common + labels


REVIEWED = {
    "an access review": ("authorization.k8s.io", "subjectaccessreviews", False),
    "a token review": ("authentication.k8s.io", "tokenreviews", False),
    "any other kind": ("authentication.k8s.io", "others", True),
    "a policy": ("admissionregistration.k8s.io", "validatingadmissionpolicies", False),
}


@pytest.mark.parametrize("group, resource, newer", REVIEWED.values(), ids=REVIEWED)
def test_kinds_that_webhooks_see(version: str, group: str, resource: str, newer: bool) -> None:
    is_review = resource.endswith("reviews")
    assert webhooks_apply(group, resource) is (newer if version == "1.37" else newer or is_review)
    assert policies_apply(group, resource) is newer
