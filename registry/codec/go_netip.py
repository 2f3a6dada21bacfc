"""Parses IP addresses as Go's net/netip does, with its error texts.

Follows Go's src/net/netip/netip.go (ParseAddr).
"""

from __future__ import annotations

from typing import NamedTuple

from registry.codec.go_text import go_quote


class AddressError(ValueError):
    """A text is not an address; the message is netip's, without the part before the colon."""


class Address(NamedTuple):
    """An address as a number of `bits` (32 or 128) bits."""

    number: int
    bits: int
    zone: str = ""


def parse_addr(text: str) -> Address:
    """Parses an address. Raises AddressError."""
    for character in text:
        if character == ".":
            return Address(_parse_v4(text), 32)
        if character == ":":
            return _parse_v6(text)
        if character == "%":
            raise AddressError("missing IPv6 address")
    raise AddressError("unable to parse IP")


def _parse_v4(text: str) -> int:
    number = octets = value = digits = 0
    for position, character in enumerate(text):
        if "0" <= character <= "9":
            if digits == 1 and value == 0:
                raise AddressError("IPv4 field has octet with leading zero")
            value = value * 10 + int(character)
            digits += 1
            if value > 255:
                raise AddressError("IPv4 field has value >255")
        elif character == ".":
            if position == 0 or position == len(text) - 1 or text[position - 1] == ".":
                raise AddressError(f"IPv4 field must have at least one digit (at {go_quote(text[position:])})")
            if octets == 3:
                raise AddressError("IPv4 address too long")
            number, octets, value, digits = number << 8 | value, octets + 1, 0, 0
        else:
            raise AddressError(f"unexpected character (at {go_quote(text[position:])})")
    if octets < 3:
        raise AddressError("IPv4 address too short")
    return number << 8 | value


def _parse_v6(text: str) -> Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise AddressError("zone must be a non-empty string")
    groups: list[int] = []
    ellipsis = -1
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
        if not rest:
            return Address(0, 128, zone)
    while len(groups) < 8:
        digits = _count_hex_digits(rest)
        if rest[digits : digits + 1] == ".":
            groups += _embedded_v4(rest, len(groups), expands=ellipsis >= 0)
            rest = ""
            break
        groups.append(int(rest[:digits], 16))
        rest = rest[digits:]
        if not rest:
            break
        if rest[0] != ":":
            raise AddressError("unexpected character, want colon" + _at(rest))
        if len(rest) == 1:
            raise AddressError("colon must be followed by more characters" + _at(rest))
        rest = rest[1:]
        if rest[0] == ":":
            if ellipsis >= 0:
                raise AddressError("multiple :: in address" + _at(rest))
            ellipsis, rest = len(groups), rest[1:]
            if not rest:
                break
    if rest:
        raise AddressError("trailing garbage after address" + _at(rest))
    _expand(groups, ellipsis)
    number = 0
    for group in groups:
        number = number << 16 | group
    return Address(number, 128, zone)


def _count_hex_digits(rest: str) -> int:
    """The number of hexadecimal digits in the group at the start of `rest`. Raises AddressError."""
    digits = 0
    while digits < len(rest) and rest[digits] in "0123456789abcdefABCDEF":
        digits += 1
        if digits > 4:
            raise AddressError("each group must have 4 or less digits" + _at(rest))
    if digits == 0:
        raise AddressError("each colon-separated field must have at least one digit" + _at(rest))
    return digits


def _embedded_v4(rest: str, groups: int, *, expands: bool) -> tuple[int, int]:
    """The two groups of an IPv4 address at the end, after `groups` others. Raises AddressError."""
    if not expands and groups != 6:
        raise AddressError("embedded IPv4 address must replace the final 2 fields of the address" + _at(rest))
    if groups + 2 > 8:
        raise AddressError("too many hex fields to fit an embedded IPv4 at the end of the address" + _at(rest))
    embedded = _parse_v4(rest)
    return embedded >> 16, embedded & 0xFFFF


def _expand(groups: list[int], ellipsis: int) -> None:
    """Inserts the zeros that `::` stands for at index `ellipsis`, which is negative if there is no `::`."""
    if len(groups) < 8:
        if ellipsis < 0:
            raise AddressError("address string too short")
        groups[ellipsis:ellipsis] = [0] * (8 - len(groups))
    elif ellipsis >= 0:
        raise AddressError("the :: must expand to at least one field of zeros")


def _at(rest: str) -> str:
    return f" (at {go_quote(rest)})"
