"""An answer as a Go struct: what reviews of conversion and of admission have in common. Pure."""

from __future__ import annotations

from typing import Any, Final

from registry.codec.go_text import type_meta_error
from registry.codec.structs.base import ROOT, DecodingContext, StructDecodeError
from registry.codec.structs.structs import Struct
from registry.webhooks.answers import decode_answer
from registry.webhooks.errors import CallFailed

# Where kube-apiserver's scheme for reviews was made: its error texts name the line.
SCHEME: Final = '"k8s.io/apiserver/pkg/util/webhook/client.go:71"'
# Kinds of v1 that every scheme knows (apimachinery pkg/apis/meta/v1/register.go).
_UNVERSIONED: Final = frozenset({"Status", "APIVersions", "APIGroupList", "APIGroup", "APIResourceList"})


def decoded_review(data: bytes) -> dict[str, Any]:
    """Decodes an answer as an object, whatever its kind; null is empty. Raises CallFailed."""
    value = decode_answer(data)
    problem = type_meta_error(value)
    if problem is not None:
        raise CallFailed(problem)
    return value or {}


def decode_struct(struct: Struct, review: dict[str, Any]) -> dict[str, Any]:
    """Decodes an answer as a Go struct; unknown fields are ignored. Raises CallFailed for a wrong type."""
    try:
        context = DecodingContext(None)
        decoded: dict[str, Any] = context.finish(struct.decode(review, ROOT, context))
    except StructDecodeError as error:
        raise CallFailed(str(error)) from error
    return decoded


def check_review_type(review: dict[str, Any], group: str, version: str, kind: str) -> None:
    """Raises CallFailed if the answer is of another kind than the review; a missing kind or version is filled in."""
    api_version, its_kind = review.get("apiVersion") or f"{group}/{version}", review.get("kind") or kind
    if api_version.count("/") > 1:
        raise CallFailed(f"unexpected GroupVersion string: {api_version}")
    is_review = its_kind == kind and api_version in (f"{group}/v1", f"{group}/v1beta1")
    if not is_review and not (api_version == "v1" and its_kind in _UNVERSIONED):
        raise CallFailed(f'no kind "{its_kind}" is registered for version "{api_version}" in scheme {SCHEME}')
    if api_version != f"{group}/{version}":
        answered = api_version.rpartition("/")[2]
        raise CallFailed(f"converting ({answered}.{its_kind}) to ({version}.{kind}): unknown conversion")


def go_kind(review: dict[str, Any]) -> str:
    """Returns the type that an answer states, as Go prints a GroupVersionKind: `g/v1, Kind=K`, or `/, Kind=`."""
    group, _, version = (review.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={review.get('kind') or ''}"
