"""An answer as a Go struct: what reviews of conversion and of admission have in common. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.codec.go_text import not_registered, type_meta_error
from registry.codec.structs.base import ROOT, DecodingContext, StructDecodeError
from registry.codec.structs.meta import UNVERSIONED
from registry.codec.structs.structs import Struct
from registry.webhooks.answers import decode_answer
from registry.webhooks.errors import CallFailed

# Where kube-apiserver's scheme for reviews was made: its error texts name the line.
SCHEME: Final = "k8s.io/apiserver/pkg/util/webhook/client.go:71"


def decoded_review(data: bytes) -> dict[str, Any]:
    """Decodes an answer as an object, whatever its kind; null is empty. Raises CallFailed."""
    value = decode_answer(data)
    problem = type_meta_error(value)
    if problem is not None:
        raise CallFailed(problem)
    return value or {}


def decode_review(data: bytes, structs: Mapping[str, Struct], group: str, version: str, kind: str) -> dict[str, Any]:
    """Decodes an answer as the kind and version that it states, and requires that they are those of the review.

    A missing kind or version is filled in, unknown fields are ignored. `structs` has the struct of each version. Raises
    CallFailed, for what is malformed before for what is of another version.
    """
    review = decoded_review(data)
    api_version, its_kind = review.get("apiVersion") or f"{group}/{version}", review.get("kind") or kind
    if api_version.count("/") > 1:
        raise CallFailed(f"unexpected GroupVersion string: {api_version}")
    its_group, _, its_version = api_version.rpartition("/")
    struct = structs.get(its_version) if (its_group, its_kind) == (group, kind) else None
    if struct is not None:
        review = _decode_struct(struct, review)
    elif its_kind in UNVERSIONED:
        its_version, api_version = "v1", "v1"
    else:
        raise CallFailed(not_registered(its_kind, api_version, SCHEME))
    if api_version != f"{group}/{version}":
        raise CallFailed(f"converting ({its_version}.{its_kind}) to ({version}.{kind}): unknown conversion")
    return review


def _decode_struct(struct: Struct, review: dict[str, Any]) -> dict[str, Any]:
    try:
        context = DecodingContext(None)
        decoded: dict[str, Any] = context.finish(struct.decode(review, ROOT, context))
    except StructDecodeError as error:
        raise CallFailed(str(error)) from error
    return decoded


def go_kind(review: dict[str, Any]) -> str:
    """Returns the type that an answer states, as Go prints a GroupVersionKind: `g/v1, Kind=K`, or `/, Kind=`."""
    group, _, version = (review.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={review.get('kind') or ''}"
