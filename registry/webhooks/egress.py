"""Which addresses this server calls on behalf of others.

Anyone who may write a definition or a webhook configuration chooses a URL that this server will call. To protect the
operator's own network, only public addresses are called unless the settings allow others. IPv6 addresses that embed an
IPv4 address are also rejected if that may not be called: a translator or a tunnel on the way would lead there.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from importlib.resources import files
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address
Network = ipaddress.IPv4Network | IPv6Network

# special_purpose.txt says of each block what it is.
SPECIAL_PURPOSE: Final[tuple[Network, ...]] = tuple(
    ipaddress.ip_network(line.split()[0])
    for line in files(__package__).joinpath("special_purpose.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
)
# The only IPv6 addresses that IANA has given to the internet so far (iana.org/assignments/ipv6-address-space).
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
# RFC 6052 (2.1): the well-known prefix, followed only by the IPv4 address.
_WELL_KNOWN_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = IPv6Network("::/96")
# RFC 5214 (6.1): the interface identifier of ISATAP, whose bit 6 says whether the IPv4 address is unique.
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
# RFC 6052 (2.2): where the IPv4 address begins after a prefix of 48, 56 and 64 bits, and the bits behind it, all zero.
# Bits 64 to 71 are zero and do not count.
_NAT64_FORMS: Final = ((48, 40), (56, 32), (64, 24))


class EgressPolicy:
    """Allows public addresses, and those in the networks that the operator allows."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        """`allowed` are CIDRs: `10.1.0.0/16`, `127.0.0.1/32`, `fd00::/8`. Raises ValueError for anything else."""
        self._allowed: list[Network] = [ipaddress.ip_network(text, strict=False) for text in allowed]

    def allows(self, address: str) -> bool:
        """Checks `address` as getaddrinfo returns it: `93.184.216.34`, `fe80::1%eth0`. Anything else is rejected."""
        try:
            ip = parse_address(address)
        except ValueError:
            return False
        return self._allows(ip) and all(self._allows(inner) for inner in embedded_addresses(ip))

    def _allows(self, ip: Address) -> bool:
        return any(ip in network for network in self._allowed) or is_public(ip)


def parse_address(text: str) -> Address:
    """Parses an address without its zone; an IPv4-mapped one becomes the IPv4 address, which is what gets connected
    to."""
    ip = ipaddress.ip_address(text.partition("%")[0])
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip


def is_address(text: str) -> bool:
    try:
        parse_address(text)
    except ValueError:
        return False
    return True


def is_public(ip: Address) -> bool:
    """Returns whether `ip` can belong to a server of the public internet, whatever it embeds."""
    if isinstance(ip, IPv6Address):
        if ip in _WELL_KNOWN_NAT64:
            return True
        if ip not in _GLOBAL_UNICAST:
            return False
    return not any(ip in network for network in SPECIAL_PURPOSE)


def embedded_addresses(ip: Address) -> Iterator[IPv4Address]:
    """Yields the IPv4 addresses at which packets to `ip` may end, for each embedding that its bits match."""
    if isinstance(ip, IPv4Address):
        return
    bits = int(ip)
    if ip in _WELL_KNOWN_NAT64 or (ip in _COMPATIBLE and bits > 1):
        yield _low(bits)
    if ip in _LOCAL_NAT64:
        yield from _locally_translated(bits)
    if ip.sixtofour is not None:
        yield ip.sixtofour
    if ip.teredo is not None:
        yield from ip.teredo  # the server and the client
    if bits >> 32 & 0xFFFFFFFF in _ISATAP:
        yield _low(bits)


def _locally_translated(bits: int) -> Iterator[IPv4Address]:
    """Yields candidates for every possible length of the operator's prefix within the block, which cannot be seen."""
    if bits & 0xFFFFFFFF:
        yield _low(bits)
    without_u = (bits >> 64 << 56) | (bits & (1 << 56) - 1)  # 120 bits
    for prefix, suffix in _NAT64_FORMS:
        if not bits & (1 << suffix) - 1:
            yield _low(without_u >> 120 - prefix - 32)


def _low(bits: int) -> IPv4Address:
    return IPv4Address(bits & 0xFFFFFFFF)
