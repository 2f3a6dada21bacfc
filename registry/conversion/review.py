"""The ConversionReview: the request body, validation of the response, and merging of the converted objects. Pure.

Webhooks may change only labels and annotations of the metadata; everything else is restored from the original.

Follows apiextensions-apiserver pkg/apiserver/conversion/webhook_converter.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from registry.codec.go_text import go_quote, go_type, json_type
from registry.codec.json_encode import encode_json, encode_json_text
from registry.codec.structs.meta import META
from registry.codec.structs.scalars import STRING, UID, RawExtension
from registry.codec.structs.structs import Field, GoSlice, Pointer, Struct
from registry.conversion.errors import ConversionError
from registry.schema.field import quote_shortened
from registry.schema.objectmeta.rules import validate_object_meta_common
from registry.webhooks.answers import decode_review, go_kind, shorten
from registry.webhooks.errors import CallFailed

Object = dict[str, Any]

_GROUP = "apiextensions.k8s.io"
_KIND = "ConversionReview"
_GO_MAP = "map[string]interface {}"
_RESPONSE = Struct(
    "ConversionResponse",
    (Field("uid", UID), Field("convertedObjects", GoSlice(RawExtension())), Field("result", META["Status"])),
)
_REVIEW = Struct(
    "ConversionReview", (Field("kind", STRING), Field("apiVersion", STRING), Field("response", Pointer(_RESPONSE)))
)
_REVIEWS = {"v1": _REVIEW, "v1beta1": _REVIEW}


def request_body(review_version: str, uid: str, api_version: str, objects: Sequence[Mapping[str, Any]]) -> bytes:
    """The review that requests `objects` at `api_version`.

    Sends an empty response, and objects without a resource version, as kube-apiserver does: etcd's have none.
    """
    return encode_json(
        {
            "kind": _KIND,
            "apiVersion": f"{_GROUP}/{review_version}",
            "request": {"uid": uid, "desiredAPIVersion": api_version, "objects": [*map(_without_revision, objects)]},
            "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
        }
    )


def _without_revision(obj: Mapping[str, Any]) -> Object:
    metadata = obj.get("metadata") or {}
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "resourceVersion"}}


def converted_objects(review_version: str, uid: str, data: bytes) -> list[Any]:
    """The objects of a response, unchecked. Raises CallFailed for a malformed response."""
    review = decode_review(data, _REVIEWS, _GROUP, review_version, _KIND)
    is_v1 = review_version == "v1"  # the type and the uid are not enforced for v1beta1 webhooks
    if is_v1 and not (review.get("apiVersion") and review.get("kind")):
        raise CallFailed(f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {go_kind(review)}")
    response = review.get("response")
    if response is None:
        raise CallFailed("no response provided")
    if is_v1 and (answered_uid := response.get("uid", "")) != uid:
        raise CallFailed(f"expected response.uid={go_quote(uid)}, got {quote_shortened(answered_uid)}")
    result = response.get("result") or {}
    status = result.get("status", "")
    if status != "Success":
        raise CallFailed(result.get("message") or f"response.result.status was '{status}', not 'Success'")
    objects: list[Any] = response.get("convertedObjects") or []
    return objects


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def accept_converted(originals: Sequence[Object], converted: Sequence[Any], api_version: str) -> list[Object]:
    """Merges each converted object with the metadata of its original. Raises ConversionError."""
    if len(converted) != len(originals):
        raise ConversionError(f"{about(originals[0])} returned {len(converted)} objects, expected {len(originals)}")
    return [
        _accept_one(original, obj, api_version, i)
        for i, (original, obj) in enumerate(zip(originals, converted, strict=True))
    ]


def about(original: Mapping[str, Any]) -> str:
    """The prefix of each error: `conversion webhook for g/v1beta1, Kind=Widget`."""
    return f"conversion webhook for {original['apiVersion']}, Kind={original['kind']}"


def _accept_one(original: Object, obj: Any, api_version: str, index: int) -> Object:
    if obj is None:
        raise ConversionError("unexpected end of JSON input")
    if not isinstance(obj, dict):
        raise ConversionError(f"json: cannot unmarshal {json_type(obj)} into Go value of type {_GO_MAP}")
    if not _text(obj.get("kind")):
        raise ConversionError(f"Object 'Kind' is missing in '{shorten(encode_json_text(obj))}'")
    problem = _identity_problem(original, obj, api_version, index)
    if problem:
        raise ConversionError(f"{about(original)} returned invalid object{problem}")
    return {**obj, "metadata": _merge_metadata(original, obj.get("metadata"))}


def _identity_problem(original: Object, obj: Object, api_version: str, index: int) -> str:
    """The error in the object's type, name, namespace or uid; empty if there is none."""
    actual = _text(obj.get("apiVersion"))
    if actual != api_version:
        return f" at index {index}: invalid groupVersion (expected {api_version}, received {actual})"
    if obj.get("kind") != original["kind"]:
        return f" at index {index}: invalid kind (expected {original['kind']}, received {_text(obj.get('kind'))})"
    before, after = original.get("metadata") or {}, obj.get("metadata")
    after = after if isinstance(after, dict) else {}
    for key, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        was, now = _text(before.get(key)), _text(after.get(key))
        if was != now:
            return f": must have the same {word}: {was} != {now}"
    return ""


def _merge_metadata(original: Object, metadata: Any) -> Object:
    """The original's metadata with the labels and annotations of the response."""
    meta: Object = dict(original.get("metadata") or {})
    metadata = metadata if isinstance(metadata, dict) else {}
    for name in ("labels", "annotations"):
        value = metadata.get(name)
        if value is not None:
            problem = _map_problem(name, value, meta.get(name) or {})
            if problem:
                raise ConversionError(f"{about(original)} returned invalid metadata: {problem}")
        if value:
            meta[name] = value
        else:
            meta.pop(name, None)
    return meta


def _map_problem(name: str, value: Any, before: Mapping[str, Any]) -> str:
    """The error in labels or annotations that differ from `before`; empty if there is none."""
    if not isinstance(value, dict):
        return f"invalid metadata.{name} of type {go_type(value)} in converted object"
    for key, text in value.items():
        if not isinstance(text, str):
            return f"metadata.{name}[{key}] must be a string, but is {go_type(text)} in converted object"
    if value == before:
        return ""
    errors = [error.message() for error in validate_object_meta_common({name: value})]
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""
