"""CBOR with the rules of Kubernetes."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec import cbor
from registry.codec.cbor import array_head, decode_cbor, encode_cbor, encode_event, encode_item
from registry.codec.model import MAX_CONTAINERS, CborError, TooManyValues

TAG = b"\xd9\xd9\xf7"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.parametrize(
    "data, value",
    [
        pytest.param(b"\xa1\x61a\x01", {"a": 1}, id="text"),
        pytest.param(b"\xa1\x41a\x41b", {"a": "b"}, id="byte strings are texts"),
        pytest.param(TAG + b"\xf6", None, id="self-described"),
        pytest.param(TAG + TAG + b"\x20", -1, id="twice"),
        pytest.param(b"\x9f\x01\x02\xff", [1, 2], id="indefinite length"),
        pytest.param(b"\xf9\x3c\x00", 1.0, id="half float"),
        pytest.param(b"\xc0\x74" + b"2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z", id="time as text"),
        pytest.param(b"\xc1\x00", "1970-01-01T00:00:00Z", id="time as number"),
        pytest.param(b"\xd5\x42\xfb\xff", "-_8", id="to be base64url later, without padding"),
        pytest.param(b"\xd6\x42ab", "YWI=", id="to be base64 later"),
        pytest.param(b"\xd7\x42ab", "6162", id="to be base16 later"),
        pytest.param(b"\xd6\x82\x42ab\xa1\x41k\xd7\x81\x42ab", ["YWI=", {"k": ["6162"]}], id="what is in a list, too"),
        pytest.param(b"\xd9\x03\xe7\x01", 1, id="an unknown tag"),
        pytest.param(b"\xd9\x03\xe7\xa1\x61a\x82\x01\xa0", {"a": [1, {}]}, id="an unknown tag of a map"),
        pytest.param(b"\xd8\x1c\x80", [], id="what could be shared"),
        pytest.param(b"\xd9\x01\x02\x81\x01", [1], id="a set"),
        pytest.param(b"\xd8\x23\x61(", "(", id="a regular expression"),
        pytest.param(b"\xd9\x01\x04\x44\x7f\x00\x00\x01", "\x7f\x00\x00\x01", id="an address"),
    ],
)
def test_values(data: bytes, value: Any) -> None:
    found = decode_cbor(data).value
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xa1\x61a", id="cut"),
        pytest.param(b"\x01\x02", id="two items"),
        pytest.param(b"\xa2\x61a\x01\x61a\x02", id="a key twice"),
        pytest.param(b"\xa2\x61a\x01\x41a\x02", id="a key as text and bytes"),
        pytest.param(b"\xa1\x01\x02", id="a key that is a number"),
        pytest.param(b"\xa1\x80\x02", id="a key that is a list"),
        pytest.param(b"\xf7", id="undefined"),
        pytest.param(b"\xf0", id="simple value"),
        pytest.param(b"\xf9\x7e\x00", id="NaN"),
        pytest.param(b"\xf9\x7c\x00", id="infinity"),
        pytest.param(b"\x1b" + b"\xff" * 8, id="beyond int64"),
        pytest.param(b"\xc2\x49\x01" + b"\x00" * 8, id="bignum"),
        pytest.param(b"\xc1\x1b" + b"\x7f" * 8, id="an invalid time"),
        pytest.param(b"\xc1\xf9\x7e\x00", id="a time that is not a number"),
        pytest.param(b"\xc0\x64noon", id="a time that is no time"),
        pytest.param(b"\xc0\x05", id="a number as text of a time"),
        pytest.param(b"\xc0\x54" + b"2024-01-02T03:04:05Z", id="a byte string as text of a time"),
        pytest.param(b"\xc1\x61x", id="a text as number of a time"),
        pytest.param(b"\xd9\x03\xe7\xa2\x61a\x01\x61a\x02", id="a key twice within a tag"),
        pytest.param(b"\x61\xff", id="not UTF-8"),
        pytest.param(b"\x81" * 5000 + b"\x01", id="deep"),
        pytest.param(b"\x81" * 301 + b"\x01", id="deeper than the limit"),
        pytest.param(b"\xd6" * 301 + b"\x81\x01", id="tags deeper than the limit"),
        pytest.param(b"\x9a\xff\xff\xff\xff", id="a long list that is not there"),
        pytest.param(b"\x5b\x7f" + b"\xff" * 7, id="a long string that is not there"),
        pytest.param(b"\xff", id="break"),
    ],
)  # fmt: skip
def test_refused(data: bytes) -> None:
    with pytest.raises(CborError) as caught:
        decode_cbor(data)
    assert str(caught.value).startswith("cbor: ")


@pytest.mark.parametrize("head", [b"\x81", b"\xa1\x41a", b"\xd6\x81", b"\x81\xd6"])
def test_as_deep_as_the_limit(head: bytes) -> None:
    """With the stack of a request below it: a test runs on about as many frames."""
    value = decode_cbor(head * (300 // sum(map(head.count, (b"\x81", b"\xa1", b"\xd6")))) + b"\x01").value
    assert encode_cbor(value).endswith(b"\x01")


@pytest.mark.parametrize("member", [None, "a"])
def test_deep_values_are_encoded(member: str | None) -> None:
    """JSON may be nested more deeply than Python recurses."""
    value: Any = {"bb": [True, "ä"], "a": 1}
    inner = encode_item(value)
    for _ in range(5000):
        value = [value] if member is None else {member: value}
    head = b"\x81" if member is None else b"\xa1\x41a"
    assert encode_cbor(value) == TAG + head * 5000 + inner


@given(JSON)
def test_deep_values_are_encoded_as_others(value: Any) -> None:
    assert b"".join(cbor._encode_in_pieces(value)) == encode_item(value)


def test_large_maps() -> None:
    """Which are encoded in pieces, as small ones are at once: shorter names first."""
    names = [f"{number:b}" for number in range(30_000)]
    value = {"b": {name: [{}] for name in names}, "a": dict.fromkeys(reversed(names), 1.5)}
    encoded = {name: cbor2.dumps(name.encode()) for name in names}
    expected = b"".join(
        cbor2.dumps(member.encode())
        + b"\xb9"
        + len(names).to_bytes(2)
        + b"".join(encoded[name] + item for name in names)
        for member, item in [("a", cbor2.dumps(1.5, canonical=True)), ("b", b"\x81\xa0")]
    )
    assert encode_item(value) == b"\xa2" + expected
    assert decode_cbor(TAG + encode_item(value["a"])).value == value["a"]


def test_shared_references_are_numbers() -> None:
    assert decode_cbor(b"\xd8\x1c\x81\xd8\x1d\x00").value == [0]


def test_texts_are_byte_strings_in_the_order_of_lengths() -> None:
    assert encode_cbor({"bb": True, "c": [1.5, None], "a": "ä"}) == (
        TAG + b"\xa3\x41a\x42\xc3\xa4\x41c\x82\xf9\x3e\x00\xf6\x42bb\xf5"
    )


def test_an_event() -> None:
    event = encode_event("ADDED", {"a": 1})
    assert event == TAG + b"\xa2\x44type\x45ADDED\x46object" + TAG + b"\xa1\x41a\x01"
    assert decode_cbor(event).value == {"type": "ADDED", "object": {"a": 1}}


@pytest.mark.parametrize("length", [0, 1, 23, 24, 255, 256, 65535, 65536])
def test_heads_of_arrays(length: int) -> None:
    assert cbor2.loads(array_head(length) + encode_item(None) * length) == [None] * length


@given(JSON)
def test_round_trip(value: Any) -> None:
    assert decode_cbor(encode_cbor(value)).value == value


@given(st.binary(max_size=60))
def test_arbitrary_bytes_decode_or_raise(data: bytes) -> None:
    with contextlib.suppress(CborError):
        value = decode_cbor(data).value
        assert decode_cbor(encode_cbor(value)).value == value


@given(st.floats())
def test_floats(value: float) -> None:
    data = b"\xfb" + struct.pack(">d", value)
    if value != value or value in (float("inf"), float("-inf")):
        with pytest.raises(CborError):
            decode_cbor(data)
    else:
        assert decode_cbor(data).value == value


def test_decoding_a_large_document_lets_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the decoder calls Python, which it does for each piece."""
    pieces = []

    class Counting(cbor._Pieces):
        def read(self, size: int | None = -1, /) -> bytes:
            pieces.append(size)
            return super().read(size)

    monkeypatch.setattr(cbor, "_Pieces", Counting)
    assert decode_cbor(b"\x9f" + b"\xa0" * 100_000 + b"\xff").value == [{}] * 100_000
    assert len(pieces) > 10


def array_of(item: bytes, count: int) -> bytes:
    return b"\x9a" + count.to_bytes(4, "big") + item * count


@pytest.mark.parametrize(
    "item, containers",
    [
        pytest.param(b"\x80", 1, id="lists"),
        pytest.param(b"\xa0", 1, id="maps"),
        pytest.param(b"\x9f\xff", 1, id="lists of indefinite length"),
        pytest.param(b"\x81\xa1\x41a\xfb\x80\x80\x80\x80\x80\x80\x80\x80", 2, id="a float in a map in a list"),
        pytest.param(b"\x58\x03\x80\x80\x80", 0, id="byte strings"),
        pytest.param(b"\x7f\x62\xc2\x80\x62\xc2\x80\xff", 0, id="texts in chunks"),
        pytest.param(b"\x19\x80\x80", 0, id="numbers"),
    ],
)
def test_arrays_and_maps_are_limited(item: bytes, containers: int) -> None:
    most = (MAX_CONTAINERS - 1) // (containers or 1)
    assert len(decode_cbor(array_of(item, most)).value) == most
    if containers:
        with pytest.raises(TooManyValues, match="more than 200000 objects and lists"):
            decode_cbor(array_of(item, most + 1))
