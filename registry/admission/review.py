"""The AdmissionReview: the request body, validation of the response, and its verdict. Pure.

Follows apiserver pkg/admission/plugin/webhook/{request/admissionreview,errors/statuserror}.go.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.admission.attributes import AdmissionAttributes, Resource
from registry.apply.errors import ApplyError
from registry.apply.patches import json_patch
from registry.codec.go_text import go_quote
from registry.codec.json_encode import encode_json
from registry.codec.model import DecodeError
from registry.codec.structs.meta import META
from registry.codec.structs.scalars import BOOL, BYTES, STRING, UID, GoScalar
from registry.codec.structs.structs import STRINGS, Field, GoMap, Pointer, Struct
from registry.schema.field import quote_shortened
from registry.webhooks.answers import decode_bounded_json, decode_review, go_kind

Object = dict[str, Any]

_GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"
# Codes that a status line can have; webhooks do use unknown ones.
_MAX_CODE = 999


def _review_of(version: str) -> Struct:
    """The parts of an answer that are used (k8s.io/api/admission/*/types.go)."""
    response = Struct(
        "AdmissionResponse",
        (
            Field("uid", UID),
            Field("allowed", BOOL),
            Field("status", Pointer(META["Status"])),
            Field("patch", BYTES),
            Field("patchType", Pointer(GoScalar(f"{version}.PatchType", str, ""))),
            Field("auditAnnotations", GoMap(STRING)),
            Field("warnings", STRINGS),
        ),
        version,
    )
    fields = (Field("kind", STRING), Field("apiVersion", STRING), Field("response", Pointer(response)))
    return Struct(_KIND, fields, version)


_REVIEWS = {version: _review_of(version) for version in ("v1", "v1beta1")}


class InvalidAnswer(Exception):
    """An invalid response; the text follows `received invalid webhook response: `."""


class BadPatch(Exception):
    """A malformed patch; the text follows `failed calling webhook "w": `."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`patch` is the decoded JSON patch, None without one; `status` is the webhook's Status for a denial."""

    allowed: bool
    warnings: Sequence[str]
    annotations: Mapping[str, str]
    status: Mapping[str, Any]
    patch: bytes
    patch_type: str


def request_body(
    version: str, uid: str, attributes: AdmissionAttributes, matched: Resource, obj: Object | None, old: Object | None
) -> bytes:
    """The review; `obj` and `old` are at the version that the webhook is called with."""
    request: Object = {"uid": uid, **attributes.request(matched)}
    options = request.pop("options")
    dry_run = request.pop("dryRun")
    request |= {"object": obj, "oldObject": old, "dryRun": dry_run, "options": options}
    return encode_json({"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request})


def verdict(version: str, uid: str, data: bytes, *, mutating: bool) -> Verdict:
    """The verdict of a response. Raises CallFailed if it is not a review, InvalidAnswer if it is invalid."""
    review = decode_review(data, _REVIEWS, _GROUP, version, _KIND)
    response = review.get("response")
    if response is None:
        raise InvalidAnswer("webhook response was absent")
    patch, patch_type = base64.b64decode(response.get("patch", "")), response.get("patchType")
    if version == "v1":
        if (answered_uid := response.get("uid", "")) != uid:
            raise InvalidAnswer(f"expected response.uid={go_quote(uid)}, got {quote_shortened(answered_uid)}")
        if not (review.get("apiVersion") and review.get("kind")):
            raise InvalidAnswer(f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {go_kind(review)}")
        _check_patch(patch, patch_type, mutating)
    elif patch:
        patch_type = "JSONPatch"  # the only type that v1beta1 supports, which did not check it
    return Verdict(
        response.get("allowed", False),
        response.get("warnings") or (),
        response.get("auditAnnotations") or {},
        response.get("status") or {},
        patch,
        patch_type or "",
    )


def _check_patch(patch: bytes, patch_type: object, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise InvalidAnswer("validating webhook may not return response.patch")
        if patch_type is not None:
            raise InvalidAnswer("validating webhook may not return response.patchType")
        return
    if patch and patch_type is None:
        raise InvalidAnswer("webhook returned response.patch but not response.patchType")
    if not patch and patch_type is not None:
        raise InvalidAnswer("webhook returned response.patchType but not response.patch")
    if patch_type == "":
        raise InvalidAnswer('webhook returned invalid response.patchType of ""')


def decode_patch(answer: Verdict) -> Any:
    """The operations of a verdict's patch, whatever its type; None where there are none. Raises BadPatch."""
    if not answer.patch:
        return None
    try:
        value = decode_bounded_json(answer.patch)
        json_patch.decode(value, strict=False)
    except (DecodeError, ApplyError) as error:
        raise BadPatch(f"received undecodable patch in webhook response: {error}") from error
    return value or None


def check_patch_type(answer: Verdict) -> None:
    """Raises BadPatch for a patch that is not a JSON patch, which only matters where there is an object to change."""
    if answer.patch_type != "JSONPatch":
        raise BadPatch(f"unsupported patch type {quote_shortened(answer.patch_type)}")


def denial(name: str, status: Mapping[str, Any]) -> Object:
    """Returns the Status of a denial with this Status: all of it is the webhook's except for the start of the message.

    Follows apiserver pkg/admission/plugin/webhook/errors/statuserror.go.
    """
    code = status.get("code", 0)
    denied = f'admission webhook "{name}" denied the request'
    why = status.get("message") or status.get("reason")
    if code < 400:
        code = 400
    elif code > _MAX_CODE:
        code = 500
    outcome = status.get("status")
    encoded: Object = META["Status"].encode(status)
    return encoded | {
        "status": outcome if outcome and outcome != "Success" else "Failure",
        "message": f"{denied}: {why}" if why else f"{denied} without explanation",
        "code": code,
    }
