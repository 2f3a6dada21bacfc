from __future__ import annotations

import pytest

from registry.definitions.urls import Url, UrlError, is_request_uri, parse_url


@pytest.mark.parametrize(
    "text, url",
    [
        pytest.param("https://h:1/p?q#f", Url("https", None, "h:1", "q", "f"), id="all parts"),
        pytest.param("HTTPS://u@[::1]:8443/", Url("https", "u", "[::1]:8443"), id="IPv6"),
        pytest.param("mailto:a@b", Url("mailto"), id="opaque"),
        pytest.param("//h/p", Url("", None, "h"), id="no scheme"),
        pytest.param("/p:q", Url(), id="path"),
        pytest.param("", Url(), id="empty"),
    ],
)
def test_parse(text: str, url: Url) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text, why",
    [
        pytest.param(":x", "missing protocol scheme", id="scheme"),
        pytest.param("a b:c/d", "first path segment in URL cannot contain colon", id="colon"),
        pytest.param("http://h\n", "net/url: invalid control character in URL", id="control character"),
        pytest.param("https://[::1", "missing ']' in host", id="bracket"),
        pytest.param("https://a b/", 'invalid character " " in host name', id="blank in host"),
        pytest.param("https://h/%zz", 'invalid URL escape "%zz"', id="escape"),
        pytest.param("https://u|@h/", "net/url: invalid userinfo", id="user"),
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
    assert (is_request_uri(text) is not None) is accepted
