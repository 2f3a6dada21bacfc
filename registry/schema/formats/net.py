"""The network formats: uri, hostname, ipv4, ipv6, cidr, mac, as Go's net and net/url parse them.

`ipv4` and `cidr` use the older, lenient parser (k8s.io/utils/net.ParseIPSloppy), which allows leading zeros; `ipv6`
uses today's strict one.
"""

from __future__ import annotations

import ipaddress
import re

from registry.codec.go_url import UrlError, parse_request_uri
from registry.schema.patterns import compile_pattern

# The labels of a hostname may contain letters and symbols of any script; RE2 has the classes, Python's re does not.
_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}"
    r"([a-zA-Z\p{L}]){2,63})$"
)
_plain_hostname = re.compile(r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}").fullmatch


def is_hostname(text: str) -> bool:
    if len(text) <= 255 and _plain_hostname(text):
        return True
    data = text.encode()
    return len(data) <= 255 and compile_pattern(_HOSTNAME)(text) and all(len(p) <= 63 for p in data.split(b"."))


# ---- addresses

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_LONGEST_IPV6 = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
_lenient_octet = re.compile("[0-9]+").fullmatch
_lenient_group = re.compile("[0-9a-fA-F]+").fullmatch


def is_ipv4(text: str) -> bool:
    """`10.0.0.1` and `010.0.0.1`, but also `::ffff:10.0.0.1`."""
    return "." in text and (_lenient_ipv4(text) or _lenient_ipv6(text))


def is_ipv6(text: str) -> bool:
    if len(text) > _LONGEST_IPV6 or ":" not in text or "%" in text or "/" in text:
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def is_cidr(text: str) -> bool:
    address, slash, mask = text.partition("/")
    if not slash or not _lenient_octet(mask):
        return False
    bits = _small(mask)
    if _lenient_ipv4(address):
        return bits <= 32
    return bits <= 128 and _lenient_ipv6(address)


def _lenient_ipv4(text: str) -> bool:
    octets = text.split(".", 4)
    return len(octets) == 4 and all(_lenient_octet(octet) and _small(octet) <= 255 for octet in octets)


def _small(digits: str) -> int:
    """The number with these digits; 1000 for any larger number."""
    digits = digits.lstrip("0")
    return int(digits or "0") if len(digits) <= 3 else 1000


def _lenient_ipv6(text: str) -> bool:
    """Groups of any length with values up to ffff, at most one `::`, optionally an IPv4 address at the end."""
    head, ellipsis, tail = text.partition("::")
    if "::" in tail or tail.startswith(":"):
        return False
    groups = (head.split(":", 8) if head else []) + (tail.split(":", 8) if tail else [])
    if not groups:
        return bool(ellipsis)
    size = len(groups)
    if "." in groups[-1]:
        if (ellipsis and not tail) or not _lenient_ipv4(groups[-1]):
            return False
        groups.pop()
        size += 1
    if size > 7 if ellipsis else size != 8:
        return False
    return all(_lenient_group(g) and len(g.lstrip("0")) <= 4 for g in groups)


def lenient_address(text: str) -> Address | None:
    """Returns what ParseIPSloppy makes of a text: `010.0.0.1` and `::ffff:10.0.0.1` are the address 10.0.0.1."""
    address = _lenient_address(text)
    return address and unmapped(address)


def lenient_network(text: str) -> tuple[Address, int] | None:
    """Returns the address and the length of a CIDR as ParseCIDRSloppy takes it; the address may be IPv4-mapped."""
    if not is_cidr(text):
        return None
    address, _, bits = text.partition("/")
    parsed = _lenient_address(address)
    return None if parsed is None else (parsed, _small(bits))


def unmapped(address: Address) -> Address:
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _lenient_address(text: str) -> Address | None:
    if _lenient_ipv4(text):
        return ipaddress.IPv4Address(_without_zeros(text, "."))
    if not _lenient_ipv6(text):
        return None
    groups, colon, last = text.rpartition(":")
    last = _without_zeros(last, "." if "." in last else ":")
    return ipaddress.IPv6Address(_without_zeros(groups, ":") + colon + last)


def _without_zeros(text: str, separator: str) -> str:
    """Returns the numbers of an address without leading zeros."""
    return separator.join(number and (number.lstrip("0") or "0") for number in text.split(separator))


_mac = re.compile(
    r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?:(?::[0-9a-fA-F]{2}){2}|(?::[0-9a-fA-F]{2}){14})?"
    r"|(?:[0-9a-fA-F]{2}-){5}[0-9a-fA-F]{2}(?:(?:-[0-9a-fA-F]{2}){2}|(?:-[0-9a-fA-F]{2}){14})?"
    r"|(?:[0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}|(?:\.[0-9a-fA-F]{4}){7})?"
    r"|[0-9a-fA-F]{12}(?:[0-9a-fA-F]{4}|[0-9a-fA-F]{28})?"
).fullmatch


def is_mac(text: str) -> bool:
    """6, 8 or 20 bytes, separated by `:`, by `-`, in fours by `.`, or not at all."""
    return _mac(text) is not None


# ---- URIs


def is_request_uri(text: str) -> bool:
    """An absolute URI or an absolute path."""
    try:
        parse_request_uri(text)
    except UrlError:
        return False
    return True
