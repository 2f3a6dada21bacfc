"""IP addresses and CIDRs: ip(), isIP(), cidr(), isCIDR() and their members.

Addresses with zones, IPv4-mapped ones and octets with leading zeros are rejected, with the errors of Go's net/netip.

Follows apiserver pkg/cel/library/{ip,cidr}.go and pkg/cel/{ip,cidr}.go.
"""

from __future__ import annotations

import math
from ipaddress import IPv6Address
from typing import Final

from registry.cel.common.values import EvalError, Opaque, TypeValue, Value, no_such_overload, size_of
from registry.cel.ext.conversions import TYPE_NAMES
from registry.cel.ext.table import STRING_FACTOR, Cost, can_parse, function, member, mismatch, traversal
from registry.codec.go_netip import AddressError, parse_addr
from registry.codec.go_text import go_quote
from registry.codec.text_cache import cache_short

IP_TYPE: Final = TypeValue("net.IP")
CIDR_TYPE: Final = TypeValue("net.CIDR")
TYPE_NAMES[IP_TYPE.name] = IP_TYPE
TYPE_NAMES[CIDR_TYPE.name] = CIDR_TYPE


class Ip(Opaque):
    """An address as a number of `bits` (32 or 128) bits."""

    __slots__ = ("bits", "number")

    type = IP_TYPE

    def __init__(self, number: int, bits: int) -> None:
        self.number = number
        self.bits = bits

    def is_same(self, other: Ip) -> bool:
        return self.number == other.number and self.bits == other.bits

    def size(self) -> int:
        return self.bits // 8

    def text(self) -> str:
        if self.bits == 32:
            return ".".join(str(self.number >> shift & 255) for shift in (24, 16, 8, 0))
        if self.is_mapped():
            return f"::ffff:{Ip(self.number & 0xFFFFFFFF, 32).text()}"
        return str(IPv6Address(self.number))

    def is_mapped(self) -> bool:
        return self.bits == 128 and self.number >> 32 == 0xFFFF


class Cidr(Opaque):
    """An address, not masked, and the length of its prefix."""

    __slots__ = ("ip", "length")

    type = CIDR_TYPE

    def __init__(self, ip: Ip, length: int) -> None:
        self.ip = ip
        self.length = length

    def is_same(self, other: Cidr) -> bool:
        return self.length == other.length and self.ip.equals(other.ip)

    def size(self) -> int:
        return math.ceil(self.length / 8)

    def text(self) -> str:
        return f"{self.ip.text()}/{self.length}"

    def masked(self) -> Cidr:
        shift = self.ip.bits - self.length
        return Cidr(Ip(self.ip.number >> shift << shift, self.ip.bits), self.length)

    def contains(self, ip: Ip) -> bool:
        shift = self.ip.bits - self.length
        return ip.bits == self.ip.bits and ip.number >> shift == self.ip.number >> shift


# --- parsing


@cache_short(200, 2048)
def parse_ip(text: str) -> Ip:
    """Parses an IP address. Raises EvalError with the library's text."""
    try:
        parsed = parse_addr(text)
    except AddressError as error:
        raise EvalError(
            f"IP Address {go_quote(text)} parse error during conversion from string: "
            f"ParseAddr({go_quote(text)}): {error}"
        ) from None
    address = Ip(parsed.number, parsed.bits)
    if parsed.zone:
        raise EvalError(f"IP address {go_quote(text)} with zone value is not allowed")
    if address.is_mapped():
        raise EvalError(f"IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return address


@cache_short(200, 2048)
def parse_cidr(text: str) -> Cidr:
    """Parses a CIDR. Raises EvalError with the library's text."""
    prefix = "network address parse error during conversion from string: "
    try:
        cidr = _parse_prefix(text)
    except AddressError as error:
        raise EvalError(f"{prefix}{prefix}netip.ParsePrefix({go_quote(text)}): {error}") from None
    if cidr.ip.is_mapped():
        raise EvalError(f"{prefix}IPv4-mapped IPv6 address {go_quote(text)} is not allowed")
    return cidr


def _parse_prefix(text: str) -> Cidr:
    address, slash, length = text.rpartition("/")
    if not slash:
        raise AddressError("no '/'")
    try:
        parsed = parse_addr(address)
    except AddressError as error:
        raise AddressError(f"ParseAddr({go_quote(address)}): {error}") from None
    if parsed.zone:
        raise AddressError("IPv6 zones cannot be present in a prefix")
    if not length.isascii() or not length.isdigit() or (len(length) > 1 and length[0] == "0"):
        raise AddressError(f"bad bits after slash: {go_quote(length)}")
    if len(length) > 3 or int(length) > parsed.bits:
        raise AddressError("prefix length out of range")
    return Cidr(Ip(parsed.number, parsed.bits), int(length))


# --- functions


@function("ip", 1, of=(str,), cost=traversal())
def ip(value: str) -> Ip:
    return parse_ip(value)


@function("isIP", 1, of=(str,), cost=traversal())
def is_ip(value: str) -> bool:
    return can_parse(parse_ip, value)


@function("isCIDR", 1, of=(str,), cost=traversal())
def is_cidr(value: str) -> bool:
    return can_parse(parse_cidr, value)


@function("ip.isCanonical", 1, of=(str,), cost=traversal(2))
def is_canonical(value: str) -> bool:
    return parse_ip(value).text() == value


@function("cidr", 1, of=(str,), cost=traversal())
def cidr(value: str) -> Cidr:
    return parse_cidr(value)


@member("ip", 1, of=(Cidr,))
def cidr_ip(value: Cidr) -> Ip:
    return value.ip


@member("masked", 1, of=(Cidr,))
def masked(value: Cidr) -> Cidr:
    return value.masked()


@member("prefixLength", 1, of=(Cidr,))
def prefix_length(value: Cidr) -> int:
    return value.length


def _contains_cost(masks: bool) -> Cost:
    """Comparing prefixes reads the CIDR twice, and once more to mask it; the other operand is read if it is a text."""

    def cost(arguments: tuple[Value, ...], result: Value) -> int:
        size = size_of(arguments[0])
        total = math.ceil(2 * size * STRING_FACTOR)
        if masks:
            total += math.ceil(size * STRING_FACTOR) + 1
        if type(arguments[1]) is str:
            total += math.ceil(len(arguments[1]) * STRING_FACTOR)
        return total

    return cost


@member("containsIP", 2, cost=_contains_cost(False))
def contains_ip(network: Value, address: Value) -> bool:
    """A text that is not an address is `no such overload`, as in Kubernetes."""
    if type(network) is not Cidr or type(address) not in (str, Ip):
        raise mismatch("containsIP", network, address)
    if type(address) is str:
        try:
            address = parse_ip(address)
        except EvalError:
            raise no_such_overload() from None
    return network.contains(address)


@member("containsCIDR", 2, cost=_contains_cost(True))
def contains_cidr(network: Value, other: Value) -> bool:
    if type(network) is not Cidr or type(other) not in (str, Cidr):
        raise mismatch("containsCIDR", network, other)
    inner = parse_cidr(other) if type(other) is str else other
    return network.length <= inner.length and network.contains(inner.ip)


@member("family", 1, of=(Ip,))
def family(value: Ip) -> int:
    return 4 if value.bits == 32 else 6


@member("isUnspecified", 1, of=(Ip,))
def is_unspecified(value: Ip) -> bool:
    return value.number == 0


@member("isLoopback", 1, of=(Ip,))
def is_loopback(value: Ip) -> bool:
    return value.number >> 24 == 127 if value.bits == 32 else value.number == 1


@member("isLinkLocalMulticast", 1, of=(Ip,))
def is_link_local_multicast(value: Ip) -> bool:
    if value.bits == 32:
        return value.number >> 8 == 0xE00000
    return value.number >> 120 == 0xFF and value.number >> 112 & 0xF == 2


@member("isLinkLocalUnicast", 1, of=(Ip,))
def is_link_local_unicast(value: Ip) -> bool:
    return value.number >> 16 == 0xA9FE if value.bits == 32 else value.number >> 118 == 0b1111111010


@member("isGlobalUnicast", 1, of=(Ip,))
def is_global_unicast(value: Ip) -> bool:
    """Whether an address is unicast and not special; private addresses count."""
    if value.number == 0 or is_loopback(value) or is_link_local_unicast(value):
        return False
    if value.bits == 32:
        return value.number >> 28 != 0xE and value.number != 0xFFFFFFFF
    return value.number >> 120 != 0xFF
