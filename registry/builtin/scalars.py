"""Scalars of built-in kinds with decoders of their own: times with microseconds, quantities, maps of bytes.

Follows apimachinery pkg/apis/meta/v1/micro_time.go and pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from typing import Any

from registry.builtin.quantities import QuantityError, canonical_quantity
from registry.codec.go_text import go_quote
from registry.codec.go_time import ORDINARY_SECONDS, RFC3339, TimeError, canonical_time
from registry.codec.json_encode import encode_json_text
from registry.codec.model import NumberLiteral
from registry.codec.structs.base import DecodingContext, GoType, Link, StructDecodeError
from registry.codec.structs.meta import Time
from registry.codec.structs.scalars import INT_32, Bytes
from registry.codec.structs.structs import GoMap

_RFC3339_MICRO = "2006-01-02T15:04:05.000000Z07:00"
_canonical_micro = re.compile(ORDINARY_SECONDS + r"\.\d{6}Z", re.ASCII).fullmatch
_to_seconds = re.compile(r"\d{4}-\d\d-\d\dT\d{1,2}:\d\d:\d\d", re.ASCII)
_micros = re.compile(r"[.,](\d{6})", re.ASCII)


def canonical_micro_time(text: str) -> str:
    """`2024-03-04T05:06:07.123456+02:00` gives `2024-03-04T03:06:07.123456Z`. Raises TimeError without six decimals."""
    if _canonical_micro(text):
        return text
    seconds = _to_seconds.match(text)
    if seconds is None:
        return _with_layout(text, text)
    rest = text[seconds.end() :]
    micros = _micros.match(rest)
    if micros is None:
        _with_layout(text, f"{seconds.group()}Z")  # errors before the decimals are reported first
        raise TimeError(
            f'parsing time {go_quote(text)} as {go_quote(_RFC3339_MICRO)}: cannot parse {go_quote(rest)} as ".000000"'
        )
    return f"{_with_layout(text, seconds.group() + rest[micros.end() :])[:-1]}.{micros.group(1)}Z"


def _with_layout(text: str, reduced: str) -> str:
    """The canonical time of `reduced`; errors contain the whole text and its layout."""
    try:
        return canonical_time(reduced)
    except TimeError as error:
        printed = str(error).replace(f"parsing time {go_quote(reduced)}", f"parsing time {go_quote(text)}", 1)
        raise TimeError(printed.replace(go_quote(RFC3339), go_quote(_RFC3339_MICRO), 1)) from error


class QuantityType(GoType):
    """A resource.Quantity in its canonical form; a number is accepted too, and null is zero.

    All are amounts of a ResourceList, which have no more than thousandths (SetDefaults_ResourceList).
    """

    go = "resource.Quantity"
    zero = "0"

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if isinstance(value, NumberLiteral):
            text = value.text
        else:
            text = value.strip() if type(value) is str else encode_json_text(value)
        try:
            return canonical_quantity(text, in_milli=True)
        except QuantityError as error:
            raise StructDecodeError(str(error)) from error


class _BytesOfMap(Bytes):
    """Bytes by name: null means none."""

    zero = ""


class IntOrString(GoType):
    """An intstr.IntOrString: a string or an int32."""

    go = "int32"

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        if type(value) is str:
            return value
        own = DecodingContext(None)
        return own.finish(INT_32.decode(value, link, own))

    def is_empty(self, value: Any) -> bool:
        return False


# metav1.MicroTime: UTC and six decimals, or null.
MICRO_TIME = Time(canonical_micro_time)
QUANTITY = QuantityType()
BYTES_MAP = GoMap(_BytesOfMap())
INT_OR_STRING = IntOrString()
