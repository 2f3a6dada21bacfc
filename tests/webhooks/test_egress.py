"""Which addresses webhooks may be called at, and where services are."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

import pytest

from registry.webhooks.egress import SPECIAL_PURPOSE, EgressPolicy
from registry.webhooks.endpoint import endpoint_of
from registry.webhooks.services import Services, parse_services

# The address, whether it may be called by default, and whether where 10.0.0.0/8 and fd00::/8 are allowed.
ADDRESSES = {
    "public": ("93.184.216.34", True, True),
    "public IPv6": ("2606:2800:220:1::1", True, True),
    "loopback": ("127.0.0.1", False, False),
    "loopback IPv6": ("::1", False, False),
    "link-local": ("169.254.169.254", False, False),
    "link-local IPv6": ("fe80::1%eth0", False, False),
    "private": ("10.1.2.3", False, True),
    "another private": ("192.168.1.1", False, False),
    "unique local": ("fd12::1", False, True),
    "shared by a carrier": ("100.64.0.1", False, False),
    "unspecified": ("0.0.0.0", False, False),
    "multicast": ("224.0.0.1", False, False),
    "multicast IPv6": ("ff0e::1", False, False),
    "mapped loopback": ("::ffff:127.0.0.1", False, False),
    "mapped private": ("::ffff:10.1.2.3", False, True),
    "6to4 of a private one": ("2002:c0a8:0101::1", False, False),
    "loopback in the oldest form": ("::127.0.0.1", False, False),
    "of a site": ("fec0::1", False, False),
    "translated metadata service": ("64:ff9b::a9fe:a9fe", False, False),
    "translated private": ("64:ff9b::10.1.2.3", False, True),
    "translated public": ("64:ff9b::93.184.216.34", True, True),
    "translated by the operator's own prefix": ("64:ff9b:1::10.1.2.3", False, False),
    "mapped public": ("::ffff:93.184.216.34", True, True),
    "6to4 of a public one": ("2002:5db8:d822::1", False, False),
    "Teredo": ("2001:0:5db8:d822::1", False, False),
    "ISATAP of a private one": ("2606:2800:220:1:0:5efe:192.168.1.1", False, False),
    "ISATAP of an allowed one": ("2606:2800:220:1:200:5efe:10.1.2.3", False, True),
    "ISATAP of a public one": ("2606:2800:220:1:200:5efe:5db8:d822", True, True),
    "not given to the internet": ("4000::1", False, False),
    "multicast to all nodes": ("ff02::1", False, False),
    "platform of Azure": ("168.63.129.16", False, False),
    "broadcast": ("255.255.255.255", False, False),
    "no address": ("localhost", False, False),
}


@pytest.mark.parametrize("address, by_default, where_allowed", ADDRESSES.values(), ids=ADDRESSES.keys())
def test_addresses(address: str, by_default: bool, where_allowed: bool) -> None:
    assert EgressPolicy().allows(address) is by_default
    assert EgressPolicy(["10.0.0.0/8", "fd00::/8"]).allows(address) is where_allowed


# IPv6 addresses where their whole block is allowed, and whether the IPv4 address within may be called.
EMBEDDED = {
    "NAT64, 48 bits": ("64:ff9b:1:c0a8:1:100::", False),
    "NAT64, 48 bits, public": ("64:ff9b:1:5db8:d8:2200::", True),
    "NAT64, 96 bits": ("64:ff9b:1:2::192.168.1.1", False),
    "NAT64, 96 bits, public": ("64:ff9b:1:2::93.184.216.34", True),
    "NAT64, 64 bits": ("64:ff9b:1:2:c0:a801:100::", False),
    "NAT64, 56 bits": ("64:ff9b:1:2c0:a8:101::", False),
    "6to4": ("2002:c0a8:101::1", False),
    "6to4, public": ("2002:5db8:d822::1", True),
    "Teredo of a private client": ("2001:0:5db8:d822:0:0:3f57:fefe", False),
    "Teredo of a private server": ("2001:0:c0a8:101:0:0:a247:27dd", False),
    "Teredo, public": ("2001:0:5db8:d822:0:0:a247:27dd", True),
    "compatible": ("::192.168.1.1", False),
    "mapped": ("::ffff:192.168.1.1", False),
}


@pytest.mark.parametrize("address, allowed", EMBEDDED.values(), ids=EMBEDDED.keys())
def test_embedded_addresses_are_checked_by_themselves(address: str, allowed: bool) -> None:
    assert EgressPolicy(["::/0"]).allows(address) is allowed
    assert EgressPolicy(["::/0", "0.0.0.0/0"]).allows(address)


# An address within is treated as the IPv4 address that it is or stands for.
_BY_IPV4 = ("::ffff:0:0/96", "64:ff9b::/96")
BLOCKS = [network for network in SPECIAL_PURPOSE if str(network) not in _BY_IPV4]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_special_purpose_blocks(block: IPv4Network | IPv6Network) -> None:
    for address in (block[0], block[-1]):
        assert not EgressPolicy().allows(str(address))


FOUND = [
    "192.0.0.8",
    "192.0.0.9",
    "192.88.99.1",
    "64:ff9b:1:a00:1::",
    "64:ff9b:1::a00:1",
    "3fff::1",
    "3fff:fff::1",
    "100:0:0:1::1",
    "5f00::1",
    "2001:3::1",
    "2620:4f:8000::1",
    "192.31.196.1",
    "192.52.193.1",
    "192.175.48.1",
]


@pytest.mark.parametrize("address", FOUND)
def test_what_counted_as_public_once(address: str) -> None:
    assert not EgressPolicy().allows(address)


def test_a_network_must_be_one() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0"):
        EgressPolicy(["10.0.0"])


def test_services_are_found_by_the_map_and_then_by_the_template() -> None:
    places = parse_services(["hook.default=10.0.0.7:8443", "b.c=hooks.example.com", "six.d=[fd00::1]:99"])
    services = Services(places, "{name}.{namespace}.svc.example.com")
    assert services.find("hook", "default", 443) == ("10.0.0.7", 8443)
    assert services.find("b", "c", 444) == ("hooks.example.com", 444)
    assert services.find("six", "d", 443) == ("fd00::1", 99)
    assert services.find("x", "y", 5) == ("x.y.svc.example.com", 5)
    assert Services(places).find("x", "y", 5) is None


@pytest.mark.parametrize("text", ["", "a.b", "a=b", "a.b=", "a.b=:5", "a.b=c:x", "a.b=c:70000"])
def test_services_in_another_form_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        parse_services([text])


# What is asked for, and what errors show.
URLS = {
    "nothing": ("https://hook.example.com", "/", "https://hook.example.com/"),
    "a port": ("https://hook.example.com:8443", "/", "https://hook.example.com:8443/"),
    "an address": ("https://[2001:db8::1]:8443/a", "/a", "https://[2001:db8::1]:8443/a"),
    "a path": ("https://hook.example.com/a/b%20c", "/a/b%20c", "https://hook.example.com/a/b%20c"),
    "escaped slashes": ("https://hook.example.com/a%2fb%2F", "/a/b", "https://hook.example.com/a/b"),
    "letters": (
        "https://hook.example.com/ä(%C3%A4)",
        "/%C3%A4%28%C3%A4%29",
        "https://hook.example.com/%C3%A4%28%C3%A4%29",
    ),
    "slashes": ("https://hook.example.com//a//b/", "/a/b", "https://hook.example.com/a/b"),
    "dots": ("https://hook.example.com/a/../b/./c", "/b/c", "https://hook.example.com/b/c"),
}


@pytest.mark.parametrize("url, path, shown", URLS.values(), ids=URLS.keys())
def test_the_path_of_a_url(url: str, path: str, shown: str) -> None:
    endpoint = endpoint_of({"url": url}, Services())
    assert (endpoint.path, endpoint.url) == (path, shown)


@pytest.mark.parametrize("given, path", [(None, "/"), ("", "/"), ("/", "/"), ("/a/b/", "/a/b")])
def test_the_path_of_a_service(given: str | None, path: str) -> None:
    service = {"name": "hook", "namespace": "default", "port": 8443, "path": given}
    endpoint = endpoint_of({"service": service}, Services())
    assert (endpoint.path, endpoint.url) == (path, f"https://hook.default.svc:8443{path}")
