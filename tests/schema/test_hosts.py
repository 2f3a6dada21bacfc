"""Hosts of URLs that are called: what may be written, and what is refused because a resolver reads it otherwise."""

from __future__ import annotations

import pytest

from registry.schema.hosts import HostError, split_host_port

GOOD = {
    "name": ("hook.example.com", ("hook.example.com", 443)),
    "one label": ("localhost", ("localhost", 443)),
    "port": ("hook.example.com:8443", ("hook.example.com", 8443)),
    "empty port": ("hook.example.com:", ("hook.example.com", 443)),
    "upper case": ("Hook.Example.COM", ("hook.example.com", 443)),
    "underscore": ("my_hook.example.com", ("my_hook.example.com", 443)),
    "internationalized": ("xn--bcher-kva.example", ("xn--bcher-kva.example", 443)),
    "numbers before the last label": ("127.0.0.1.example.com", ("127.0.0.1.example.com", 443)),
    "IPv4": ("93.184.216.34:1", ("93.184.216.34", 1)),
    "loopback": ("127.0.0.1", ("127.0.0.1", 443)),
    "IPv6": ("[2001:DB8::1]:8443", ("2001:db8::1", 8443)),
    "long form of IPv6": ("[0:0:0:0:0:0:0:1]", ("::1", 443)),
}


@pytest.mark.parametrize("text, expected", GOOD.values(), ids=GOOD)
def test_hosts(text: str, expected: tuple[str, int]) -> None:
    assert split_host_port(text) == expected


BAD = {
    "octal": "0177.0.0.1",
    "leading zeros": "127.000.000.001",
    "hexadecimal": "0x7f.1",
    "short": "127.1",
    "decimal": "2130706433",
    "hexadecimal number": "0x7f000001",
    "octal number": "017700000001",
    "five numbers": "1.2.3.4.5",
    "beyond a byte": "256.1.1.1",
    "last label 0x": "example.0x",
    "circled digits": "①②⑦.0.0.1",
    "full-width": "ｌｏｃａｌｈｏｓｔ",
    "ideographic full stop": "127。0。0。1",
    "soft hyphen": "local\u00adhost",
    "umlaut": "bücher.example",
    "Kelvin sign": "\u212alocalhost",
    "trailing dot": "localhost.",
    "trailing dot of an address": "127.0.0.1.",
    "only a dot": ".",
    "empty label": "hook..example.com",
    "leading dot": ".localhost",
    "empty": "",
    "only a port": ":443",
    "percent-encoded": "%6cocalhost",
    "percent-encoded letter": "%E2%91%A0.example",
    "backslash": "a\\b.example",
    "space": "a b",
    "tab": "a\tb",
    "NUL": "a\0b",
    "user": "u@h.example",
    "leading hyphen": "-a.example",
    "label too long": "a" * 64 + ".example",
    "name too long": "a." * 127 + "aa",
    "mapped": "[::ffff:127.0.0.1]",
    "mapped in hexadecimal": "[::ffff:7f00:1]",
    "compatible": "[::127.0.0.1]",
    "zone": "[fe80::1%25eth0]",
    "no IPv6": "[1.2.3.4]",
    "unclosed": "[::1",
    "behind the bracket": "[::1]x",
    "IPv6 without brackets": "::1",
    "port 0": "h:0",
    "port too high": "h:65536",
    "port of a name": "h:https",
    "Arabic digits": "١٢٧.0.0.1",
    "port in Arabic digits": "h:٤٤٣",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_hosts_that_are_refused(text: str) -> None:
    with pytest.raises(HostError):
        split_host_port(text)
