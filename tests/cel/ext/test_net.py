"""Addresses and URLs against other readers of them: Python's ipaddress, and the schema package's format `uri`."""

from __future__ import annotations

import ipaddress

from hypothesis import given, settings
from hypothesis import strategies as st

from registry.cel.common.values import EvalError
from registry.cel.ext.net import parse_ip
from registry.cel.ext.url import parse_request_uri
from registry.schema.formats.net import is_request_uri

ADDRESSES = st.one_of(
    st.lists(st.sampled_from(["0", "1", "9", "10", "255", "256", "01", ""]), min_size=3, max_size=5).map(".".join),
    st.lists(st.sampled_from(["", "0", "1", "ffff", "12345", "g", "1.2.3.4"]), min_size=1, max_size=9).map(":".join),
    st.text("0129abf:.%/ ", max_size=12),
    st.ip_addresses().map(str),
)

URLS = st.lists(
    st.sampled_from(
        [
            "http",
            "https",
            "a",
            "://",
            "//",
            "/",
            ":",
            "@",
            "[::1]",
            "[",
            "]",
            "80",
            ":80",
            "?x=1",
            "#f",
            "%zz",
            "%20",
            "%",
            " ",
            "é",
            "mailto:",
            ".",
            "\\",
            "\t",
            "1.2.3.4",
            "user:pw@",
            "<",
            '"',
            "^",
            "{",
            "|",
            "[fe80::1%25en0]",
            "*",
            "ht+tp",
        ]
    ),
    min_size=1,
    max_size=6,
).map("".join)


@settings(max_examples=500, deadline=None)
@given(ADDRESSES)
def test_addresses(text: str) -> None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        expected = None
    else:
        special = isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.scope_id)
        expected = None if special else str(address)
    try:
        found = parse_ip(text).text()
    except EvalError:
        found = None
    assert found == expected


@settings(max_examples=500, deadline=None)
@given(URLS)
def test_urls(text: str) -> None:
    try:
        parse_request_uri(text)
        valid = True
    except EvalError as error:
        assert str(error).startswith("parse ")  # noqa: PT017 - the text is checked only when there is one
        valid = False
    assert valid == is_request_uri(text)
