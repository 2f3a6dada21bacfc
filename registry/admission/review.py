"""The AdmissionReview: the request body, validation of the response, and its verdict. Pure.

Follows apiserver pkg/admission/plugin/webhook/{request/admissionreview,errors/statuserror}.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.admission.attributes import Attributes, Resource
from registry.apply import json_patch
from registry.apply.errors import ApplyError
from registry.codec import go_base64
from registry.codec.json_encode import encode_json
from registry.codec.model import DecodeError
from registry.schema.field import go_quote
from registry.webhooks.answers import decode_bounded_json
from registry.webhooks.errors import CallFailed
from registry.webhooks.review import SCHEME, decoded_review

Object = dict[str, Any]

_GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"
# Codes that a status line can have; webhooks do use unknown ones.
_MAX_CODE = 999
_KNOWN = frozenset({f"{_GROUP}/v1", f"{_GROUP}/v1beta1"})


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
    version: str, uid: str, attributes: Attributes, matched: Resource, obj: Object | None, old: Object | None
) -> bytes:
    """The review; `obj` and `old` are at the version that the webhook is called with."""
    request: Object = {"uid": uid, **attributes.request(matched)}
    options = request.pop("options")
    dry_run = request.pop("dryRun")
    request |= {"object": obj, "oldObject": old, "dryRun": dry_run, "options": options}
    return encode_json({"kind": _KIND, "apiVersion": f"{_GROUP}/{version}", "request": request})


def verdict(version: str, uid: str, data: bytes, *, mutating: bool) -> Verdict:
    """The verdict of a response. Raises CallFailed if it is not a review, InvalidAnswer if it is invalid."""
    review = decoded_review(data)
    wanted = f"{_GROUP}/{version}"
    api_version, kind = _text(review.get("apiVersion")), _text(review.get("kind"))
    if api_version or kind:
        _check_type(api_version, kind, wanted)
    response = review.get("response")
    if not isinstance(response, dict):
        raise InvalidAnswer("webhook response was absent")
    patch, patch_type = _patch(response), response.get("patchType")
    if version == "v1":
        if _text(response.get("uid")) != uid:
            raise InvalidAnswer(f"expected response.uid={go_quote(uid)}, got {go_quote(_text(response.get('uid')))}")
        if not (api_version and kind):
            raise InvalidAnswer(f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got /, Kind=")
        _check_patch(patch, patch_type, mutating)
    elif patch:
        patch_type = "JSONPatch"  # the only type that v1beta1 supports, which did not check it
    status = response.get("status")
    annotations, warnings = response.get("auditAnnotations"), response.get("warnings")
    texts = annotations if isinstance(annotations, dict) else {}
    return Verdict(
        response.get("allowed") is True,
        [w for w in warnings if isinstance(w, str)] if isinstance(warnings, list) else (),
        {k: v for k, v in texts.items() if isinstance(v, str)},
        status if isinstance(status, dict) else {},
        patch,
        _text(patch_type),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _check_type(version: str, kind: str, wanted: str) -> None:
    if kind != _KIND or version not in _KNOWN:
        raise CallFailed(f'no kind "{kind}" is registered for version "{version}" in scheme {SCHEME}')
    if version != wanted:
        versions = [name.rpartition("/")[2] for name in (version, wanted)]
        raise CallFailed(f"converting ({versions[0]}.{_KIND}) to ({versions[1]}.{_KIND}): unknown conversion")


def _patch(response: Mapping[str, Any]) -> bytes:
    text = response.get("patch")
    if not isinstance(text, str):
        return b""
    try:
        return go_base64.decode(text)
    except go_base64.Base64Error as error:
        raise CallFailed(str(error)) from error


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
    """The operations of a verdict's patch, None where there are none. Raises BadPatch."""
    if not answer.patch:
        return None
    try:
        value = decode_bounded_json(answer.patch)
        json_patch.decode(value, strict=False)
    except (DecodeError, ApplyError) as error:
        raise BadPatch(f"received undecodable patch in webhook response: {error}") from error
    if value and answer.patch_type != "JSONPatch":
        raise BadPatch(f"unsupported patch type {go_quote(answer.patch_type)}")
    return value or None


def denial(name: str, status: Mapping[str, Any]) -> tuple[int, str, str, Mapping[str, Any] | None]:
    """Code, reason, message and details for a denial with this Status."""
    code = status.get("code")
    reason, message = _text(status.get("reason")), _text(status.get("message"))
    denied = f'admission webhook "{name}" denied the request'
    if message or reason:
        text = f"{denied}: {message or reason}"
    else:
        text = f"{denied} without explanation"
    details = status.get("details")
    if not isinstance(code, int) or isinstance(code, bool) or code < 400:
        code = 400
    elif code > _MAX_CODE:
        code = 500
    return code, reason, text, details if isinstance(details, dict) else None
