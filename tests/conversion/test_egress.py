"""Which addresses webhooks may be called at, and where services are."""

from __future__ import annotations

import pytest

from registry.conversion.client import endpoint_of
from registry.conversion.egress import EgressPolicy
from registry.conversion.services import Services, parse_services

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
}


@pytest.mark.parametrize("address, by_default, where_allowed", ADDRESSES.values(), ids=ADDRESSES.keys())
def test_addresses(address: str, by_default: bool, where_allowed: bool) -> None:
    assert EgressPolicy().allows(address) is by_default
    assert EgressPolicy(["10.0.0.0/8", "fd00::/8"]).allows(address) is where_allowed


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
