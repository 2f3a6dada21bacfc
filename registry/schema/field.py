"""Field errors and field paths, in Kubernetes' wording.

A validation returns a list of FieldError and continues after the first, so that a manifest is fixed in one go. A path
is a plain string, built by the three functions below: `child("spec", "replicas")` is `spec.replicas`,
`index("spec.ports", 0)` is `spec.ports[0]`, `key("spec.map", "a")` is `spec.map[a]`.

kube-apiserver prints values, names and lists of them in full, so that its response can be larger than the request by
orders of magnitude. Here texts and paths are truncated beyond a length that ordinary errors do not reach.

Follows apimachinery pkg/util/validation/field/{errors,path}.go.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from registry.codec.go_text import go_g, go_json, go_quote

# A validation may stop after this many errors; how many are listed is bounded in registry/api/errors.py.
MAX_ERRORS = 1000
# Characters of one value or detail in an error: twice the longest one recorded of kube-apiserver.
MAX_TEXT = 10_000
# Characters of a message: about fifty times the longest that was recorded. All causes of a Status have half of it.
MAX_MESSAGE = 256 * 1024
# Approximate characters of a path: there may be an error at each end of thousands of paths that share a long name.
MAX_PATH = 10_000


class ErrorType(enum.StrEnum):
    """The reason of a cause in a Status."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


_TEXTS = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TYPE_INVALID: "Invalid value",
    ErrorType.INTERNAL: "Internal error",
}

# These never print the bad value (field.Error.ErrorBody).
_WITHOUT_VALUE = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


class OmitValue:
    """The bad value of an error that prints none: `spec: Invalid value: detail` (field.OmitValueType)."""


OMIT_VALUE = OmitValue()


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of one field.

    `FieldError(ErrorType.INVALID, "spec.replicas", -1, "must not be negative").message()` is
    `spec.replicas: Invalid value: -1: must not be negative`.
    """

    type: ErrorType
    field: str
    bad_value: object = OMIT_VALUE
    detail: str = ""

    def body(self) -> str:
        """The text without the field: the `message` of a cause."""
        text = _TEXTS[self.type]
        if self.type not in _WITHOUT_VALUE and not isinstance(self.bad_value, OmitValue):
            text += f": {go_value(self.bad_value)}"
        if self.detail:
            text += f": {shorten(self.detail)}"
        return text

    def message(self) -> str:
        """The whole text, as in the message of a Status."""
        return f"{self.field}: {self.body()}"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError(ErrorType.REQUIRED, field, "", detail)


def invalid(field: str, bad_value: object, detail: str) -> FieldError:
    return FieldError(ErrorType.INVALID, field, bad_value, detail)


def type_invalid(field: str, bad_value: object, detail: str) -> FieldError:
    return FieldError(ErrorType.TYPE_INVALID, field, bad_value, detail)


def duplicate(field: str, bad_value: object) -> FieldError:
    return FieldError(ErrorType.DUPLICATE, field, bad_value)


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError(ErrorType.FORBIDDEN, field, "", detail)


def not_supported(field: str, bad_value: object, supported: list[str]) -> FieldError:
    """`Unsupported value: "x": supported values: "A", "B"`; the values are printed in the given order."""
    detail = f"supported values: {join_shortened(map(go_quote, supported), ', ')}" if supported else ""
    return FieldError(ErrorType.NOT_SUPPORTED, field, bad_value, detail)


def too_long(field: str, max_length: int) -> FieldError:
    unit = "byte" if max_length == 1 else "bytes"
    detail = f"may not be more than {max_length} {unit}" if max_length >= 0 else "value is too long"
    return FieldError(ErrorType.TOO_LONG, field, "", detail)


def too_many(field: str, actual: int, max_quantity: int) -> FieldError:
    unit = "item" if max_quantity == 1 else "items"
    detail = f"must have at most {max_quantity} {unit}" if max_quantity >= 0 else "has too many items"
    return FieldError(ErrorType.TOO_MANY, field, actual if actual >= 0 else OMIT_VALUE, detail)


def child(path: str, name: str) -> str:
    return below(path, f".{name}" if path else name)


def index(path: str, position: int) -> str:
    return below(path, f"[{position}]")


def key(path: str, name: str) -> str:
    return below(path, f"[{name}]")


def below(path: str, step: str) -> str:
    """Appends a segment to a path; a path that becomes too long is cut to its beginning and the last segment."""
    if len(path) + len(step) <= MAX_PATH:
        return path + step
    if len(path) <= MAX_PATH:
        return (path + step)[:MAX_PATH] + _CUT
    return path[:MAX_PATH] + _CUT + step[:_MAX_STEP]


_CUT = "..."
_MAX_STEP = 200


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """`text`, truncated to `limit` characters: `abc...`."""
    return text if len(text) <= limit else text[:limit] + _CUT


def join_shortened(texts: Iterable[str], separator: str, limit: int = MAX_TEXT) -> str:
    """`separator.join(texts)`, omitting those that would exceed `limit`: `"a", "b", ...`."""
    parts: list[str] = []
    length = 0
    for text in texts:
        if length > limit:
            parts.append(_CUT)
            break
        parts.append(shorten(text, limit))
        length += len(text) + len(separator)
    return separator.join(parts)


def go_value(value: object) -> str:
    """A bad value as Go prints it in an error: texts quoted, numbers by `%v`, everything else as JSON; truncated."""
    if value.__class__ is str and isinstance(value, str):
        return quote_shortened(value)
    if value.__class__ is float and isinstance(value, float):
        return go_g(value)
    return shorten(go_json(value, MAX_TEXT))


def quote_shortened(text: str) -> str:
    """A quoted text, truncated: `"abc"...`."""
    return go_quote(text) if len(text) <= MAX_TEXT else go_quote(text[:MAX_TEXT]) + _CUT
