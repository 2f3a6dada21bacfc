"""IP addresses and CIDRs in fields that are older than strict validation.

What a field had before stays valid: leading zeros, IPv4-mapped addresses, and CIDRs with bits beyond the prefix, of
which warnings name the standard form. IPv6 addresses need not be in canonical form.

Follows apimachinery pkg/util/validation/ip.go with StrictIPCIDRValidation on, as since 1.36, and ValidateEndpointIP of
kubernetes pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator
from typing import Final

from registry.codec.go_text import go_quote
from registry.schema.field import FieldError, invalid
from registry.schema.formats.net import Address, lenient_address, lenient_network, unmapped

_NOT_AN_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NOT_A_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def is_ip(text: str) -> bool:
    return lenient_address(text) is not None


def is_ipv6(text: str) -> bool:
    address = lenient_address(text)
    return address is not None and address.version == 6


def ip_errors(path: str, text: str, before: Collection[str]) -> list[FieldError]:
    """Returns the error of an address; what was accepted `before` stays valid."""
    if text in before:
        return []
    if not is_ip(text):
        return [invalid(path, text, _NOT_AN_IP)]
    address = _standard_address(text)
    if address is None:
        return [invalid(path, text, "must not have leading 0s")]
    is_mapped = unmapped(address) is not address
    return [invalid(path, text, "must not be an IPv4-mapped IPv6 address")] if is_mapped else []


def endpoint_ip_errors(path: str, text: str, before: Collection[str]) -> list[FieldError]:
    """Returns the errors of an address that traffic is sent to."""
    return ip_errors(path, text, before) or list(_special_errors(path, text))


def _special_errors(path: str, text: str) -> Iterator[FieldError]:
    address = lenient_address(text)
    if address is None:
        yield invalid(path, text, "must be a valid IP address")
        return
    if address.is_unspecified:
        yield invalid(path, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        yield invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _is_link_local_multicast(address):
        yield invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")


def _is_link_local_multicast(address: Address) -> bool:
    data = address.packed
    return data[:3] == b"\xe0\0\0" if address.version == 4 else data[0] == 0xFF and data[1] & 0xF == 2


def cidr_errors(path: str, text: str, before: Collection[str] = ()) -> list[FieldError]:
    if text in before:
        return []
    parsed = lenient_network(text)
    if parsed is None:
        return [invalid(path, text, _NOT_A_CIDR)]
    bare, _, digits = text.partition("/")
    address = _standard_address(bare)
    if address is None or digits != str(int(digits)):
        return [invalid(path, text, "must not have leading 0s in IP or prefix length")]
    if unmapped(address) is not address:
        return [invalid(path, text, "must not have an IPv4-mapped IPv6 address")]
    if ipaddress.ip_network((address.packed, int(digits)), strict=False).network_address != address:
        return [invalid(path, text, "must not have bits set beyond the prefix length")]
    return []


def ip_warnings(path: str, text: str) -> Iterator[str]:
    """Yields the warning of an address in another form than the standard one (GetWarningsForIP)."""
    address = lenient_address(text)
    if address is None:
        return
    if not _is_strict(text):
        yield f"{path}: non-standard IP address {go_quote(text)} is invalid: use {go_quote(str(address))}"
    elif address.version == 6 and str(address) != text:
        yield f"{path}: IPv6 address {go_quote(text)} should be in RFC 5952 canonical format ({go_quote(str(address))})"


def cidr_warnings(path: str, text: str) -> Iterator[str]:
    """Yields the warnings of a CIDR in another form than the standard one (GetWarningsForCIDR)."""
    parsed = lenient_network(text)
    if parsed is None:
        return
    address, length = parsed
    network = ipaddress.ip_network((address.packed, length), strict=False)
    first = unmapped(network.network_address)
    canonical = f"{first}/{length - 96 if first.version < address.version else length}"
    warned = False
    if network.network_address != address:
        single = f"{unmapped(address)}/{address.max_prefixlen}"
        could = f"(should be {go_quote(canonical)} or {go_quote(single)}?)"
        yield f"{path}: CIDR value {go_quote(text)} is ambiguous in this context {could}"
        warned = True
    bare, _, digits = text.partition("/")
    if not _is_strict(bare) or digits != str(length):
        yield f"{path}: non-standard CIDR value {go_quote(text)} is invalid: use {go_quote(canonical)}"
        warned = True
    if not warned and address.version == 6 and canonical != text:
        yield f"{path}: IPv6 CIDR value {go_quote(text)} should be in RFC 5952 canonical format ({go_quote(canonical)})"


def _standard_address(text: str) -> Address | None:
    """Returns an address that net/netip parses: one without leading zeros."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_strict(text: str) -> bool:
    """Whether net/netip parses an address, and it is not IPv4-mapped."""
    address = _standard_address(text)
    return address is not None and unmapped(address) is address
