"""The formats of strings that Kubernetes enforces, and which format of a schema is effective.

Dashes in a format's name are ignored (`date-time` is `datetime`), its case is significant. Unknown formats are ignored.
The checks are those of kube-openapi pkg/validation/strfmt and of the Go functions that it calls (net/url, net/mail,
net, time), including their corner cases: `duration` allows `3 weeks`, `byte` rejects the empty text, `ipv4` allows
`010.0.0.1`.

Each takes time linear in the text and memory that does not grow with the number of its parts: a text may have
millions. Patterns are possessive, and parts are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from registry.codec.go_time import ORDINARY_SECONDS, days_in
from registry.schema.checks import always
from registry.schema.formats.mail import is_email
from registry.schema.formats.net import is_cidr, is_hostname, is_ipv4, is_ipv6, is_mac, is_request_uri
from registry.schema.goduration import UNITS

Check = Callable[[str], bool]


class FormatAsWritten(str):
    """A format that is effective whatever its name and type: kube-apiserver validates defaults with these."""

    __slots__ = ()


def effective_format(schema_type: str, name: str) -> str:
    """The format that is enforced, "" for none: `effective_format("boolean", "ipv4")` is "".

    `schema_type` is "" for a schema without a type and for int-or-string.
    """
    if not name or name.__class__ is FormatAsWritten:
        return name
    if schema_type in ("", "string"):
        return name if name.replace("-", "") in CHECKS else ""
    return number_format(schema_type, name)


def number_format(schema_type: str, name: str) -> str:
    """The format that limits numbers of this type, "" for none."""
    if schema_type == "integer":
        return name if name in ("int32", "int64") else ""
    if schema_type == "number":
        return name if name in ("float", "double") else ""
    return ""


def format_check(name: str) -> Check | None:
    """The check of a string format, None where it does not apply to strings (int32, double, unknown ones)."""
    return CHECKS.get(name.replace("-", ""))


def _full(pattern: str, flags: int = 0) -> Check:
    fullmatch = re.compile(pattern, re.ASCII | flags).fullmatch
    return lambda text: fullmatch(text) is not None


# ---- identifiers

_is_object_id = _full("[0-9a-fA-F]{24}")
_is_uuid = _full("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_is_uuid3 = _full("[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_is_uuid4 = _full("[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.IGNORECASE)
_is_uuid5 = _full("[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}", re.IGNORECASE)
_is_isbn10_text = _full("[0-9]{9}[0-9X]")
_is_isbn13_text = _full("[0-9]{13}")
_is_card_number = _full(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}"
)
_CARD_DIGITS = 16
_is_ssn_text = _full(r"\d{3}[- ]?\d{2}[- ]?\d{4}")

_GO_BLANKS_AND_DASHES = str.maketrans("", "", "\t\n\f\r -")


def _is_isbn10(text: str) -> bool:
    text = text.translate(_GO_BLANKS_AND_DASHES)
    if not _is_isbn10_text(text):
        return False
    digits = [10 if digit == "X" else int(digit) for digit in text]
    return sum(place * digit for place, digit in enumerate(digits, start=1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    text = text.translate(_GO_BLANKS_AND_DASHES)
    if not _is_isbn13_text(text):
        return False
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(text[:12]))
    return int(text[12]) == -total % 10


def _is_credit_card(text: str) -> bool:
    """Ignores everything but digits; these must form a known kind of number with a correct check digit."""
    number = ""
    for digits in re.finditer("[0-9]+", text):
        if len(number) > _CARD_DIGITS:
            return False
        number += digits.group()
    if not _is_card_number(number):
        return False
    doubled = [int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(number))]
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0


def _is_ssn(text: str) -> bool:
    return len(text) == 11 and _is_ssn_text(text)  # so both separators must be present


# ---- texts

_is_hex_color = _full("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_BYTE = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
_BLANK = "[\t\n\f\r ]*"
_is_rgb_color = _full(rf"rgb\({_BLANK}{_BYTE}{_BLANK},{_BLANK}{_BYTE}{_BLANK},{_BLANK}{_BYTE}{_BLANK}\)")
_is_padded_base64 = _full("[A-Za-z0-9+/]++={0,2}")
_is_label = _full("[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_is_subdomain = _full(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def _is_base64(text: str) -> bool:
    return len(text) % 4 == 0 and _is_padded_base64(text)


def _is_short_name(text: str) -> bool:
    return len(text) <= 63 and _is_label(text)


def _is_long_name(text: str) -> bool:
    return len(text) <= 253 and _is_subdomain(text)


# ---- times

_date = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII).fullmatch
_ordinary_date_time = re.compile(ORDINARY_SECONDS + "Z", re.ASCII).fullmatch
_time_of_day = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})").fullmatch


def _is_date(text: str) -> bool:
    match = _date(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    return 1 <= month <= 12 and 1 <= day <= days_in(year, month)


def _is_date_time(text: str) -> bool:
    """`2024-01-02T03:04:05Z` with any offset and any decimals; text after a second `t` is ignored."""
    if _ordinary_date_time(text):
        return True
    parts = text.lower().split("t", 2)
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    match = _time_of_day(parts[1])
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


_go_duration = re.compile(r"[-+]?(?:0|(?:(?:\d++(?:\.\d*+)?|\.\d++)(?:ns|us|µs|μs|ms|s|m|h))++)", re.ASCII).fullmatch
_go_duration_part = re.compile(r"(\d*)(?:\.(\d*))?([a-zµμ]+)", re.ASCII)
# Possessive, and anchored at the start of a run of digits: otherwise a long run would take quadratic time.
_scala_duration = re.compile(r"(?<![0-9])([0-9]++)[\t\n\f\r ]*+([A-Za-zµ]+)")
_SHORT_UNITS = frozenset({"ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"})
_LONG_UNITS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")


def _is_duration(text: str) -> bool:
    """What Go's time.ParseDuration accepts, else a text that contains at least one `<number> <unit>`."""
    if _go_duration(text) and _fits_duration(text):
        return True
    has_unit = False
    for match in _scala_duration.finditer(text):
        if _number(match[1]) >= 1 << 63:
            return False
        unit = match[2].lower()
        has_unit = has_unit or unit in _SHORT_UNITS or unit.startswith(_LONG_UNITS)
    return has_unit


def _fits_duration(text: str) -> bool:
    """Whether the sum is below 2^63 nanoseconds (about 292 years)."""
    total = 0
    for part in _go_duration_part.finditer(text):
        whole, decimals, unit = part.groups("")
        nanoseconds = UNITS[unit]
        total += _number(whole) * nanoseconds
        if decimals:
            total += int(decimals[:18].ljust(18, "0")) * nanoseconds // 10**18
        if total >= 1 << 63:
            return False
    return True


def _number(digits: str) -> int:
    """The number with these digits ("" is 0); 2^63 for any that is clearly larger."""
    if len(digits) >= 19:
        digits = digits.lstrip("0")
        if len(digits) >= 20:
            return 1 << 63
    return int(digits or "0")


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "bsonobjectid": _is_object_id,
        "uri": is_request_uri,
        "email": is_email,
        "hostname": is_hostname,
        "ipv4": is_ipv4,
        "ipv6": is_ipv6,
        "cidr": is_cidr,
        "mac": is_mac,
        "uuid": _is_uuid,
        "uuid3": _is_uuid3,
        "uuid4": _is_uuid4,
        "uuid5": _is_uuid5,
        "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
        "isbn10": _is_isbn10,
        "isbn13": _is_isbn13,
        "creditcard": _is_credit_card,
        "ssn": _is_ssn,
        "hexcolor": _is_hex_color,
        "rgbcolor": _is_rgb_color,
        "byte": _is_base64,
        "password": always,
        "date": _is_date,
        "duration": _is_duration,
        "datetime": _is_date_time,
        "k8sshortname": _is_short_name,
        "k8slongname": _is_long_name,
    }
)
