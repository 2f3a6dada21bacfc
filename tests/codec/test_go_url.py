from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec.go_url import BAD_ESCAPE, Url, UrlError, parse_request_uri, parse_url, unescape, unescape_valid


@pytest.mark.parametrize(
    "text, url",
    [
        pytest.param("https://h:1/p?q#f", Url("https", None, "h:1", "/p", "?q", "f"), id="all parts"),
        pytest.param("HTTPS://u@[::1]:8443/", Url("https", "u", "[::1]:8443", "/"), id="IPv6"),
        pytest.param("mailto:a@b", Url("mailto", opaque="a@b"), id="opaque"),
        pytest.param("//h/p", Url("", None, "h", "/p"), id="no scheme"),
        pytest.param("/p:q", Url(raw_path="/p:q"), id="path"),
        pytest.param("https://h%C3%A9/%2f%ff", Url("https", None, "hé", "/%2f%ff"), id="decoded"),
        pytest.param("", Url(), id="empty"),
    ],
)
def test_parse(text: str, url: Url) -> None:
    assert parse_url(text) == url


def test_the_path_is_decoded() -> None:
    assert parse_url("https://h/a%2fb%ff").path == "/a/b\udcff"


@pytest.mark.parametrize(
    "text, why",
    [
        pytest.param(":x", "missing protocol scheme", id="scheme"),
        pytest.param("a b:c/d", "first path segment in URL cannot contain colon", id="colon"),
        pytest.param("1a:c/d", "first path segment in URL cannot contain colon", id="no scheme"),
        pytest.param("http://h\n", "net/url: invalid control character in URL", id="control character"),
        pytest.param("https://[::1", "missing ']' in host", id="bracket"),
        pytest.param("https://a b/", 'invalid character " " in host name', id="blank in host"),
        pytest.param("https://h/%zz", 'invalid URL escape "%zz"', id="escape"),
        pytest.param("https://u|@h/", "net/url: invalid userinfo", id="user"),
        pytest.param("https://[h]/", 'invalid host: ParseAddr("h"): unable to parse IP', id="no address in brackets"),
        pytest.param("https://a[::1]/", "invalid IP-literal", id="before a bracket"),
    ],
)
def test_refused(text: str, why: str) -> None:
    with pytest.raises(UrlError) as caught:
        parse_url(text)
    assert str(caught.value).endswith(f": {why}")
    assert str(caught.value).startswith("parse ")


@pytest.mark.parametrize(
    "text, accepted",
    [
        pytest.param("https://h/", True, id="absolute"),
        pytest.param("/p", True, id="path"),
        pytest.param("yes", False, id="word"),
        pytest.param("http://h:x", False, id="bad"),
    ],
)
def test_request_uri(text: str, accepted: bool) -> None:
    try:
        parse_request_uri(text)
    except UrlError:
        assert not accepted
    else:
        assert accepted


ESCAPES = [
    b"%41",
    b"%zz",
    b"%",
    b"%4",
    b"\\",
    b"\\x41",
    b"%5C",
    b"%5cx41",
    b"%e2%98%83",
    b"%e2%98",
    b"%ff",
    b"\\u2603",
    b"%00",
    b"+",
    b"%25",
    b"a",
]


@given(st.lists(st.sampled_from(ESCAPES), max_size=6).map(b"".join))
def test_escapes_are_decoded_as_by_the_library(raw: bytes) -> None:
    assert unescape(raw) == unquote(raw.decode())
    if BAD_ESCAPE.search(raw.decode()):
        with pytest.raises(ValueError):
            unescape_valid(raw)
    else:
        assert unescape_valid(raw) == unescape(raw)


@pytest.mark.parametrize("text", ["-https://h/", "a b:c/d", "1:2"])
def test_a_request_uri_without_a_scheme_is_refused_as_such(text: str) -> None:
    with pytest.raises(UrlError, match=r"invalid URI for request$"):
        parse_request_uri(text)
