"""Hosts of URLs that the server will call: one spelling for each, so that the validated host is the one resolved.

Resolvers accept `0177.0.0.1`, `127.1`, `0x7f.1` and `2130706433` as addresses, map `①②⑦` and full-width letters to
ASCII, and drop the dot of `localhost.`. kube-apiserver allows all of them; here they are rejected, both when they are
written and when they are called. Pure: registry/webhooks/egress.py decides whether an address may be called.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_MAX_HOST: Final = 253
# Upper case and underscores are not valid in host names by RFC 1123, but occur in DNS.
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
# A last label like this makes resolvers read the whole host as an IPv4 address (URL Standard, "ends in a number").
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)
_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)


class HostError(ValueError):
    """Its text follows the name of the field or `host "x": `."""


def split_host_port(text: str) -> tuple[str, int]:
    """`hook.example.com:8443` gives `("hook.example.com", 8443)`, `[2001:DB8::1]` gives `("2001:db8::1", 443)`.

    Raises HostError.
    """
    host, port = text, ""
    if text.startswith("["):
        host, bracket, port = text.partition("]")
        host += bracket
        if not bracket or (port and not port.startswith(":")):
            raise HostError("must be an IPv6 address in brackets, and a port behind a colon")
        port = port[1:]
    elif ":" in text:
        host, _, port = text.partition(":")
    if port and not (_PORT.fullmatch(port) and 0 < int(port) < 65536):
        raise HostError("port must be between 1 and 65535, inclusive")
    return canonical_host(host), int(port or 443)


def canonical_host(host: str) -> str:
    """A DNS name in lower case, or an IP address without brackets. Raises HostError."""
    if host.startswith("["):
        return _ipv6(host)
    if not host.isascii():
        raise HostError("must be ASCII: write an internationalized name in its xn-- form")
    if "%" in host:
        raise HostError("must not contain percent-encoded characters")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _ipv4(host)
    if labels[-1] == "" and len(labels) > 1:
        raise HostError("must not end with a dot")
    if len(host) > _MAX_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise HostError("must be an IP address, or labels of at most 63 letters, digits, '-' and '_' separated by dots")
    return host.lower()


def _ipv4(host: str) -> str:
    try:
        return str(ipaddress.IPv4Address(host))  # rejects leading zeros, and any form but four decimal numbers
    except ValueError as error:
        raise HostError("an IPv4 address must be four decimal numbers without leading zeros") from error


def _ipv6(host: str) -> str:
    if "%" in host:
        raise HostError("an IPv6 address must not have a zone")
    try:
        address = ipaddress.IPv6Address(host[1:-1])
    except ValueError as error:
        raise HostError("must be an IPv6 address in brackets") from error
    if address.ipv4_mapped is not None or (int(address) >> 32 == 0 and int(address) > 1):
        raise HostError("an IPv4 address must not be written as an IPv6 address")
    return str(address)
