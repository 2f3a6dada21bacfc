"""What is taken from a webhook's answer, and what is said of one that is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from registry.conversion.errors import ConversionError
from registry.conversion.review import accept_converted, converted_objects, request_body
from registry.webhooks.errors import CallFailed

UID = "11111111-2222-3333-4444-555555555555"
OBJECT: dict[str, Any] = {
    "apiVersion": "g/v1beta1",
    "kind": "W",
    "spec": {"a": 1},
    "metadata": {
        "name": "a",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"l": "m"},
        "finalizers": ["x/y"],
    },
}


def answer(**changes: Any) -> dict[str, Any]:
    response = {"uid": UID, "result": {"status": "Success"}, "convertedObjects": []} | changes
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}


def test_the_request_has_an_empty_response() -> None:
    review = json.loads(request_body("v1", UID, "g/v1", [OBJECT]))
    assert review["apiVersion"] == "apiextensions.k8s.io/v1"
    metadata = {name: value for name, value in OBJECT["metadata"].items() if name != "resourceVersion"}
    expected = {"uid": UID, "desiredAPIVersion": "g/v1", "objects": [{**OBJECT, "metadata": metadata}]}
    assert review["request"] == expected
    assert review["response"] == {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
    assert sorted(review) == ["apiVersion", "kind", "request", "response"]


FAILED: dict[str, tuple[Any, str]] = {
    "a message": (answer(result={"status": "Failed", "message": "no"}), "no"),
    "no message": (answer(result={"status": "Failed"}), "response.result.status was 'Failed', not 'Success'"),
    "no result": (answer(result=None), "response.result.status was '', not 'Success'"),
    "another uid": (answer(uid="x"), f'expected response.uid="{UID}", got "x"'),
    "no response": ({**answer(), "response": None}, "no response provided"),
    "no kind": (
        {"response": answer()["response"]},
        "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
    ),
    "the other version": (
        {**answer(), "apiVersion": "apiextensions.k8s.io/v1beta1"},
        "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
    ),
    "another kind": (
        {**answer(), "kind": "Conversion"},
        'no kind "Conversion" is registered for version "apiextensions.k8s.io/v1" in scheme',
    ),
    "a list": ([], "couldn't get version/kind; json parse error: json: cannot unmarshal array"),
    "a text": ("not an object", "couldn't get version/kind; json parse error: json: cannot unmarshal string"),
}


@pytest.mark.parametrize("review, why", FAILED.values(), ids=FAILED.keys())
def test_invalid_responses(review: Any, why: str) -> None:
    with pytest.raises(CallFailed) as raised:
        converted_objects("v1", UID, json.dumps(review).encode())
    assert str(raised.value).startswith(why)


def test_v1beta1_is_not_held_to_uid_and_kind() -> None:
    review = {"response": {"uid": "x", "result": {"status": "Success"}, "convertedObjects": [1]}}
    assert converted_objects("v1beta1", UID, json.dumps(review).encode()) == [1]


def changed(**metadata: Any) -> dict[str, Any]:
    return {**OBJECT, "apiVersion": "g/v1", "metadata": {**OBJECT["metadata"], **metadata}}


def test_webhooks_may_only_change_labels_and_annotations_of_metadata() -> None:
    given = changed(labels={"new": "y"}, annotations={"b": "c"}, finalizers=[], resourceVersion="1", generation=9)
    [result] = accept_converted([OBJECT], [given], "g/v1")
    assert result["metadata"] == {**OBJECT["metadata"], "labels": {"new": "y"}, "annotations": {"b": "c"}}
    assert result["apiVersion"] == "g/v1"
    [without] = accept_converted([OBJECT], [changed(labels=None)], "g/v1")
    assert "labels" not in without["metadata"]


REFUSED: dict[str, tuple[list[Any], str]] = {
    "too few": ([], "returned 0 objects, expected 1"),
    "too many": ([changed(), changed()], "returned 2 objects, expected 1"),
    "another name": ([changed(name="b")], "returned invalid object: must have the same name: a != b"),
    "another namespace": ([changed(namespace="b")], "returned invalid object: must have the same namespace: n != b"),
    "another uid": ([changed(uid="b")], "returned invalid object: must have the same UID: u != b"),
    "no metadata": ([{**changed(), "metadata": []}], "returned invalid object: must have the same name: a != "),
    "another kind": (
        [{**changed(), "kind": "V"}],
        "returned invalid object at index 0: invalid kind (expected W, received V)",
    ),
    "not converted": (
        [OBJECT],
        "returned invalid object at index 0: invalid groupVersion (expected g/v1, received g/v1beta1)",
    ),
    "bad label": ([changed(labels={"not a label": "!"})], "returned invalid metadata: [metadata.labels: Invalid value"),
    "a label that is no text": (
        [changed(labels={"a": 1})],
        "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object",
    ),
    "a list of labels": (
        [changed(labels=["a"])],
        "returned invalid metadata: invalid metadata.labels of type []interface {} in converted",
    ),
    "a text for annotations": (
        [changed(annotations="a")],
        "returned invalid metadata: invalid metadata.annotations of type string in converted",
    ),
}


@pytest.mark.parametrize("objects, why", REFUSED.values(), ids=REFUSED.keys())
def test_objects_that_are_refused(objects: list[Any], why: str) -> None:
    with pytest.raises(ConversionError) as raised:
        accept_converted([OBJECT], objects, "g/v1")
    assert str(raised.value).startswith(f"conversion webhook for g/v1beta1, Kind=W {why}")


NO_OBJECTS: dict[str, tuple[Any, str]] = {
    "null": (None, "unexpected end of JSON input"),
    "a text": ("x", "json: cannot unmarshal string into Go value of type map[string]interface {}"),
    "a number": (1, "json: cannot unmarshal number into Go value of type map[string]interface {}"),
    "no kind": ({"apiVersion": "g/v1"}, """Object 'Kind' is missing in '{"apiVersion":"g/v1"}'"""),
}


@pytest.mark.parametrize("given, why", NO_OBJECTS.values(), ids=NO_OBJECTS.keys())
def test_values_that_are_not_objects(given: Any, why: str) -> None:
    with pytest.raises(ConversionError) as raised:
        accept_converted([OBJECT], [given], "g/v1")
    assert str(raised.value) == why


def test_a_uid_is_quoted_in_part() -> None:
    """Quoting 16 MB took seconds."""
    response = {"uid": "\x01" * 1_000_000, "result": {"status": "Success"}}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}
    with pytest.raises(CallFailed) as raised:
        converted_objects("v1", "U", json.dumps(review).encode())
    assert len(str(raised.value)) < 50_000
