"""Named formats: format.dns1123Label().validate('a'), format.named('uuid').

The checks are those of the schema package. Follows apiserver pkg/cel/library/format.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from registry.cel.common.values import NONE, EvalError, Opaque, Optional, TypeValue, Value, size_of
from registry.cel.ext.table import REGEX_FACTOR, STRING_FACTOR, function, member
from registry.cel.ext.url import parse_request_uri
from registry.schema.formats.formats import format_check
from registry.schema.names import (
    NameFunction,
    dns1035_label,
    dns1123_label,
    dns1123_subdomain,
    label_key,
    label_value,
    name_is_dns1035_label,
    name_is_dns_label,
    name_is_dns_subdomain,
)

FORMAT: Final = TypeValue("kubernetes.NamedFormat")


class Format(Opaque):
    """A format; `check` returns the errors of a text, an empty list if it is valid."""

    __slots__ = ("check", "name", "pattern_size")

    type = FORMAT
    has_text = False

    def __init__(self, name: str, check: Callable[[str], list[str]], pattern_size: int) -> None:
        self.name = name
        self.check = check
        self.pattern_size = pattern_size  # an estimate of the size of its regular expression, for costs

    def is_same(self, other: Format) -> bool:
        return self.name == other.name


def _uri(text: str) -> list[str]:
    try:
        parse_request_uri(text)
    except EvalError as error:
        return [str(error)]
    return []


def _format(name: str, error: str) -> Callable[[str], list[str]]:
    check = format_check(name)
    assert check is not None
    return lambda text: [] if check(text) else [error]


def _prefix(check: NameFunction) -> Callable[[str], list[str]]:
    """Allows the dash at the end of a generateName."""
    return lambda text: check(text, True)


FORMATS: Final[dict[str, Format]] = {
    "dns1123Label": Format("DNS1123Label", dns1123_label, 30),
    "dns1123Subdomain": Format("DNS1123Subdomain", dns1123_subdomain, 60),
    "dns1035Label": Format("DNS1035Label", dns1035_label, 30),
    "qualifiedName": Format("QualifiedName", label_key, 60),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(name_is_dns_label), 30),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(name_is_dns_subdomain), 60),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(name_is_dns1035_label), 30),
    "labelValue": Format("LabelValue", label_value, 40),
    "uri": Format("URI", _uri, 1103),
    "uuid": Format("uuid", _format("uuid", "does not match the UUID format"), 70),
    "byte": Format("byte", _format("byte", "invalid base64"), 84),
    "date": Format("date", _format("date", "invalid date"), 71),
    "datetime": Format("datetime", _format("datetime", "invalid datetime"), 71),
}


def _constant(name: str) -> None:
    function(f"format.{name}", 0)(lambda: FORMATS[name])


for _name in FORMATS:
    _constant(_name)


@function("format.named", 1, of=(str,))
def find_format(name: str) -> Optional:
    format_ = FORMATS.get(name)
    return Optional(format_) if format_ else NONE


def _validate_cost(arguments: tuple[Value, ...], result: Value) -> int:
    named_format = arguments[0]
    size = named_format.pattern_size if type(named_format) is Format else 1
    return math.ceil((1.0 + size_of(arguments[1])) * STRING_FACTOR) * math.ceil(size * REGEX_FACTOR)


@member("validate", 2, of=(Format, str), cost=_validate_cost)
def validate(named_format: Format, text: str) -> Optional:
    """NONE for a valid text, else the list of errors."""
    errors = named_format.check(text)
    return Optional(errors) if errors else NONE
