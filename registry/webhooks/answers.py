"""Decodes answers of external servers, reviews among them, within bounds, and beside the event loop if they are large.

A text of 16 MiB may become gigabytes (`[[],[],...`) or take seconds. So the number of values is bounded before anything
is decoded, input for the slow decoder (YAML) is bounded more strictly, and a thread does what takes longer than a
moment, in the tenant's turn: hostile answers wait for one another, not others for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from registry.codec.go_text import not_registered, type_meta_error
from registry.codec.json_decode import decode_json
from registry.codec.json_size import has_more_values
from registry.codec.model import DecodeError, TooManyValues
from registry.codec.structs.base import ROOT, DecodingContext, StructDecodeError
from registry.codec.structs.meta import UNVERSIONED
from registry.codec.structs.structs import Struct
from registry.codec.yaml_decode import decode_yaml
from registry.flowcontrol.evaluation import aside
from registry.webhooks.errors import CallFailed

T = TypeVar("T")

# Including keys: 1,000 for each of the 500 objects of a batch. This many lists take 45 MB and a tenth of a second.
MAX_VALUES: Final = 500_000
MAX_DEPTH: Final = 900
MAX_YAML_BYTES: Final = 64 * 1024
# Decoding this much takes about a millisecond.
_INLINE_BYTES: Final = 64 * 1024
# How much of an answer an error quotes.
_MAX_TEXT: Final = 4096

# For work that no request waits for: one thread, so that one answer is decoded at a time.
_background: Final = ThreadPoolExecutor(1, "webhook-answers")


async def run_aside(size: int, function: Callable[[], T]) -> T:
    """Runs `function`, pure and handling an answer of `size` bytes, perhaps in a thread; returns its result."""
    if size <= _INLINE_BYTES:
        return function()
    return await aside(function, _background)


def decode_bounded_json(data: bytes, *, max_values: int = MAX_VALUES) -> Any:
    """Decodes JSON within bounds. Raises DecodeError."""
    if has_more_values(data, max_values):
        raise DecodeError(f"more than {max_values} values")
    try:
        return decode_json(data, MAX_DEPTH, max_values).value
    except TooManyValues as error:
        raise DecodeError(str(error)) from None


def decode_answer(data: bytes) -> Any:
    """Decodes JSON, or else YAML unless it begins as JSON: kube-apiserver's decoder reads both. Raises CallFailed."""
    try:
        return decode_bounded_json(data)
    except DecodeError as error:
        problem = str(error)
    if len(data) <= MAX_YAML_BYTES and not data.lstrip().startswith(b"{"):
        try:
            return decode_yaml(data).value
        except DecodeError as error:
            problem = str(error)
    raise CallFailed(f"couldn't get version/kind; json parse error: {shorten(problem)}")


def shorten(text: str) -> str:
    """Truncates `text` for an error to 4096 characters."""
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}... ({len(text)} characters)"


# -- reviews
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
