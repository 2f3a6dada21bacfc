"""Base64 as Go decodes it; the expectations are what encoding/base64 of Go 1.27 answered."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from registry.codec import go_base64
from registry.codec.go_base64 import Base64Error, decode

STANDARD: dict[str, bool] = {}
URL, RAW = {"url": True}, {"url": True, "padded": False}


@pytest.mark.parametrize(
    "text, options, decoded",
    [
        pytest.param("", STANDARD, b"", id="nothing"),
        pytest.param("YWI=", STANDARD, b"ab", id="padded"),
        pytest.param("Y\nWJ\r\nj\n", STANDARD, b"abc", id="line breaks"),
        pytest.param("YQ=\n=\n", STANDARD, b"a", id="a line break in the padding"),
        pytest.param("YR==", STANDARD, b"a", id="bits to spare"),
        pytest.param("-_8=", URL, b"\xfb\xff", id="the alphabet of addresses"),
        pytest.param("YWI", RAW, b"ab", id="unpadded"),
        pytest.param("YQ", RAW, b"a", id="unpadded, one byte"),
    ],
)
def test_decoded(text: str, options: dict[str, bool], decoded: bytes) -> None:
    assert decode(text, **options) == decoded


@pytest.mark.parametrize(
    "text, options, place",
    [
        pytest.param("!!", STANDARD, 0, id="first"),
        pytest.param("ab!d", STANDARD, 2, id="in a group"),
        pytest.param("abc", STANDARD, 0, id="padding forgotten"),
        pytest.param("abcdab", STANDARD, 4, id="padding forgotten in the second group"),
        pytest.param("abcd\nab", STANDARD, 5, id="padding forgotten after a line break"),
        pytest.param("ab=", STANDARD, 3, id="padding too short"),
        pytest.param("ab=c", STANDARD, 2, id="padding broken off"),
        pytest.param("ab==x", STANDARD, 4, id="more after the padding"),
        pytest.param("abc=d", STANDARD, 4, id="more after padding of one"),
        pytest.param("a===", STANDARD, 1, id="too much padding"),
        pytest.param("abcd=", STANDARD, 4, id="padding of nothing"),
        pytest.param("ab-_", STANDARD, 2, id="another alphabet"),
        pytest.param("ab+/", URL, 2, id="the standard alphabet"),
        pytest.param("\u00e9", STANDARD, 0, id="no ascii"),
        pytest.param("YWI=", RAW, 3, id="padding where there is none"),
        pytest.param("abcda", RAW, 4, id="a single character at the end"),
    ],
)
def test_refused(text: str, options: dict[str, bool], place: int) -> None:
    with pytest.raises(Base64Error) as caught:
        decode(text, **options)
    assert str(caught.value) == f"illegal base64 data at input byte {place}"


@pytest.mark.parametrize("options", [STANDARD, URL, RAW], ids=["standard", "url", "raw"])
def test_the_quick_check_changes_no_result(options: dict[str, bool]) -> None:
    """All short texts of some characters, by the search for the place of the error alone."""
    padded, url = options.get("padded", True), options.get("url", False)
    for length in range(6):
        for characters in itertools.product(b"Y+-=\n", repeat=length):
            data = bytes(characters)
            place = go_base64._corrupt_at(data, url=url, padded=padded)
            expected = contextlib.nullcontext() if place is None else pytest.raises(Base64Error, match=f" {place}$")
            with expected:
                decode(data.decode(), **options)
