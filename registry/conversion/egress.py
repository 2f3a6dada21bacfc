"""Where calls of webhooks may go.

Whoever may write a definition chooses a URL that this server will call. So that nobody reaches the operator's own
network by it, only addresses of the public internet are called unless the settings allow others; and the address that
has been judged is the one that is connected to, whatever the name comes to mean in between.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Addresses that carry an IPv4 address in their last 32 bits and lead there through a translator (RFC 6052, RFC 8215).
_TRANSLATED = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


class EgressPolicy:
    """Which addresses may be called: public ones, and those in the networks that the operator allows."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        """`allowed` are CIDRs: `10.1.0.0/16`, `127.0.0.1/32`, `fd00::/8`. Raises ValueError for anything else."""
        self._allowed: list[Network] = [ipaddress.ip_network(text, strict=False) for text in allowed]

    def allows(self, address: str) -> bool:
        ip = _plain(ipaddress.ip_address(address.partition("%")[0]))
        if any(ip in network for network in self._allowed if network.version == ip.version):
            return True
        # Python counts old forms as global: IPv4 addresses in the last bits of ::/8, and fec0::/10, once for sites.
        return ip.is_global and not (ip.is_multicast or ip.is_reserved
                                     or (isinstance(ip, ipaddress.IPv6Address) and ip.is_site_local))


def _plain(ip: Address) -> Address:
    """The address that is meant: IPv4 addresses hide in several forms of IPv6 ones."""
    if isinstance(ip, ipaddress.IPv6Address):
        hidden = ip.ipv4_mapped or ip.sixtofour
        if hidden is not None:
            return hidden
        if any(ip in network for network in _TRANSLATED):
            return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip
