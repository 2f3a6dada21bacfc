"""The review that webhooks are sent, and what their answers say."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest

from registry.admission.attributes import AdmissionAttributes, Resource
from registry.admission.review import (
    BadPatch,
    InvalidAnswer,
    Verdict,
    check_patch_type,
    decode_patch,
    denial,
    request_body,
    verdict,
)
from registry.api.errors import StatusError
from registry.webhooks.errors import CallFailed

WIDGETS = Resource("g", "v1", "widgets", "g", "v1", "Widget")


def test_the_request() -> None:
    attributes = AdmissionAttributes(
        "UPDATE", WIDGETS, "status", "n", "a", {"x": 1}, {"x": 0}, {"kind": "UpdateOptions"}, True, {"username": "u"}
    )
    review = orjson.loads(request_body("v1beta1", "U", attributes, WIDGETS, {"x": 1}, {"x": 0}))
    kind, resource = (
        {"group": "g", "version": "v1", "kind": "Widget"},
        {"group": "g", "version": "v1", "resource": "widgets"},
    )
    assert review == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1beta1",
        "request": {
            "uid": "U",
            "kind": kind,
            "resource": resource,
            "subResource": "status",
            "requestKind": kind,
            "requestResource": resource,
            "requestSubResource": "status",
            "name": "a",
            "namespace": "n",
            "operation": "UPDATE",
            "userInfo": {"username": "u"},
            "object": {"x": 1},
            "oldObject": {"x": 0},
            "dryRun": True,
            "options": {"kind": "UpdateOptions"},
        },
    }


def answer(head: dict[str, Any] | None = None, **response: Any) -> bytes:
    made = {"uid": "U", "allowed": True, **response}
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"} if head is None else head
    return json.dumps({**head, "response": {k: v for k, v in made.items() if v is not None}}).encode()


def encoded(*operations: Any) -> str:
    return base64.b64encode(json.dumps(list(operations)).encode()).decode()


@pytest.mark.parametrize(
    "data, mutating, why",
    [
        pytest.param(answer(uid="X"), False, 'expected response.uid="U", got "X"', id="another uid"),
        pytest.param(answer(uid=None), False, 'expected response.uid="U", got ""', id="no uid"),
        pytest.param(
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
            False,
            "webhook response was absent",
            id="no response",
        ),
        pytest.param(
            answer({}),
            False,
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            id="no kind",
        ),
        pytest.param(answer(patch=encoded()), False, "validating webhook may not return response.patch", id="a patch"),
        pytest.param(
            answer(patchType="JSONPatch"),
            False,
            "validating webhook may not return response.patchType",
            id="a patch type",
        ),
        pytest.param(
            answer(patch=encoded()),
            True,
            "webhook returned response.patch but not response.patchType",
            id="no patch type",
        ),
        pytest.param(
            answer(patchType="JSONPatch"),
            True,
            "webhook returned response.patchType but not response.patch",
            id="no patch",
        ),
    ],
)
def test_answers_that_break_the_rules(data: bytes, mutating: bool, why: str) -> None:
    with pytest.raises(InvalidAnswer) as caught:
        verdict("v1", "U", data, mutating=mutating)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    "data, why",
    [
        (
            answer({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"}),
            "converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion",
        ),
        (
            answer({"apiVersion": "admission.k8s.io/v1", "kind": "Admission"}),
            'no kind "Admission" is registered for version "admission.k8s.io/v1" in scheme '
            '"k8s.io/apiserver/pkg/util/webhook/client.go:71"',
        ),
        (
            b"[]",
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type "
            r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }',
        ),
    ],
)
def test_responses_that_are_not_reviews(data: bytes, why: str) -> None:
    with pytest.raises(CallFailed) as caught:
        verdict("v1", "U", data, mutating=False)
    assert str(caught.value) == why


def test_v1beta1_is_not_held_to_uid_and_kind() -> None:
    found = verdict("v1beta1", "U", answer({}, uid=None, patch=encoded({"op": "add"})), mutating=True)
    assert (found.allowed, decode_patch(found)) == (True, [{"op": "add"}])


def decode_checked(found: Verdict) -> None:
    decode_patch(found)
    check_patch_type(found)


@pytest.mark.parametrize(
    "response, why",
    [
        (
            {"patch": base64.b64encode(b"no patch").decode(), "patchType": "JSONPatch"},
            "received undecodable patch in webhook response: invalid character 'o' in literal null (expecting 'u')",
        ),
        (
            {"patch": base64.b64encode(b"{}").decode(), "patchType": "JSONPatch"},
            "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type "
            "jsonpatch.Patch",
        ),
        ({"patch": encoded({"op": "add"}), "patchType": "MergePatch"}, 'unsupported patch type "MergePatch"'),
    ],
)
def test_invalid_patches(response: dict[str, Any], why: str) -> None:
    found = verdict("v1", "U", answer(**response), mutating=True)
    with pytest.raises(BadPatch) as caught:
        decode_checked(found)
    assert str(caught.value).startswith(why)


GO = "json: cannot unmarshal"


@pytest.mark.parametrize(
    "response, why",
    [
        ({"allowed": "yes"}, f"{GO} string into Go struct field AdmissionResponse.response.allowed of type bool"),
        ({"status": "no"}, f"{GO} string into Go struct field AdmissionResponse.response.status of type v1.Status"),
        ({"status": {"code": "4"}}, f"{GO} string into Go struct field Status.response.status.code of type int32"),
        ({"warnings": "w"}, f"{GO} string into Go struct field AdmissionResponse.response.warnings of type []string"),
        ({"warnings": [1]}, f"{GO} number into Go struct field AdmissionResponse.response.warnings of type string"),
        (
            {"auditAnnotations": {"k": 1}},
            f"{GO} number into Go struct field AdmissionResponse.response.auditAnnotations of type string",
        ),
        ({"patch": 5}, f"{GO} number into Go struct field AdmissionResponse.response.patch of type []uint8"),
        ({"patch": "@@"}, "illegal base64 data at input byte 0"),
        (
            {"patchType": 5},
            f"{GO} number into Go struct field AdmissionResponse.response.patchType of type v1.PatchType",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_wrong_types(response: dict[str, Any], why: str) -> None:
    """Refused in Go's words, as the answer is decoded into a Go struct; never taken for an allowance."""
    with pytest.raises(CallFailed) as caught:
        verdict("v1", "U", answer(**response), mutating=True)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    "data, why",
    [
        pytest.param(b"null", "webhook response was absent", id="null"),
        pytest.param(b"{}", "webhook response was absent", id="empty"),
        pytest.param(
            b'{"kind":"AdmissionReview","response":{"uid":"U"}}',
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=AdmissionReview",
            id="no version",
        ),
    ],
)
def test_answers_without_a_type(data: bytes, why: str) -> None:
    with pytest.raises(InvalidAnswer) as caught:
        verdict("v1", "U", data, mutating=True)
    assert str(caught.value) == why


@pytest.mark.parametrize(
    "data, why",
    [
        (b'{"kind":"Status","apiVersion":"v1"}', "converting (v1.Status) to (v1.AdmissionReview): unknown conversion"),
        (
            b'{"kind":"APIGroup","apiVersion":"x/v2"}',
            "converting (v1.APIGroup) to (v1.AdmissionReview): unknown conversion",
        ),
        (
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":{"allowed":"yes"}}',
            f"{GO} string into Go struct field AdmissionResponse.response.allowed of type bool",
        ),
        (
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","response":{"patch":"!!"}}',
            "illegal base64 data at input byte 0",
        ),
        (b'{"kind":"AdmissionReview","apiVersion":"a/b/c"}', "unexpected GroupVersion string: a/b/c"),
        (
            b'{"kind":"AdmissionReview","apiVersion":5}',
            f"couldn't get version/kind; json parse error: {GO} number into Go struct field .apiVersion of type string",
        ),
        (b'{"kind":', "couldn't get version/kind; json parse error: unexpected end of JSON input"),
    ],
    ids=[
        "a Status",
        "a kind of any version",
        "another version with a text",
        "another version with a bad patch",
        "three segments",
        "a number",
        "half an object",
    ],
)
def test_other_documents(data: bytes, why: str) -> None:
    with pytest.raises(CallFailed) as caught:
        verdict("v1", "U", data, mutating=True)
    assert str(caught.value) == why


def test_an_empty_patch_changes_nothing() -> None:
    assert decode_patch(verdict("v1", "U", answer(patch=encoded(), patchType="JSONPatch"), mutating=True)) is None


DENIED = 'admission webhook "w" denied the request'


@pytest.mark.parametrize(
    "status, expected",
    [
        ({}, {"message": f"{DENIED} without explanation", "code": 400}),
        ({"message": "no"}, {"message": f"{DENIED}: no", "code": 400}),
        ({"reason": "Conflict"}, {"message": f"{DENIED}: Conflict", "reason": "Conflict", "code": 400}),
        ({"code": 200, "message": "x"}, {"message": f"{DENIED}: x", "code": 400}),
        ({"code": 700, "message": "x"}, {"message": f"{DENIED}: x", "code": 700}),
        ({"code": 70000, "message": "x"}, {"message": f"{DENIED}: x", "code": 500}),
        (
            {"code": 409, "details": {"name": "n", "causes": [], "retryAfterSeconds": 0}},
            {"message": f"{DENIED} without explanation", "code": 409, "details": {"name": "n"}},
        ),
        ({"status": "Success", "message": "x"}, {"message": f"{DENIED}: x", "code": 400}),
        ({"status": "Odd", "message": "x"}, {"message": f"{DENIED}: x", "code": 400, "status": "Odd"}),
        (
            {"metadata": {"continue": "c", "remainingItemCount": 0}, "message": "x"},
            {"metadata": {"continue": "c", "remainingItemCount": 0}, "message": f"{DENIED}: x", "code": 400},
        ),
    ],
)
def test_denials(status: dict[str, Any], expected: Any) -> None:
    assert denial("w", status) == {"metadata": {}, "status": "Failure", **expected}


LONG = "\x01" * 1_000_000


@pytest.mark.parametrize(
    "response",
    [{"uid": LONG}, {"uid": "U", "patch": encoded({"op": "add"}), "patchType": LONG}],
    ids=["uid", "patch type"],
)
def test_what_errors_quote_is_bounded(response: dict[str, Any]) -> None:
    """Quoting 16 MB took seconds, on the event loop."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"allowed": True, **response}}
    with pytest.raises((InvalidAnswer, BadPatch)) as raised:
        check_patch_type(verdict("v1", "U", json.dumps(review).encode(), mutating=True))
    assert len(str(raised.value)) < 50_000


def test_the_reason_of_a_denial_is_bounded() -> None:
    assert len(StatusError(403, "r" * 1_000_000, "no").status()["reason"]) < 50_000
