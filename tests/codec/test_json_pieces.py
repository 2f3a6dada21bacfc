from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec.json_decode import decode_json, decode_verbatim_json
from registry.codec.json_pieces import PIECE_BYTES, decode_in_pieces, divide
from registry.codec.model import Repeated
from tests.codec.strategies import JSON_VALUES

_REFUSED = object()


def outcome(decode: Any, data: bytes) -> Any:
    """The value with the order of its keys, or that it was refused."""
    try:
        value = decode(data)
    except ValueError:
        return _REFUSED
    return json.dumps(value)


def _pairs_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is given twice")
    return value


at_once = json.JSONDecoder(object_pairs_hook=_pairs_once).decode


def of_bytes(data: bytes) -> Any:
    return at_once(data.decode())


@given(
    value=st.lists(JSON_VALUES, max_size=6) | st.dictionaries(st.text(max_size=3), JSON_VALUES, max_size=6),
    piece_bytes=st.integers(1, 40),
    indent=st.none() | st.integers(0, 2),
)
def test_what_is_divided_has_the_same_value(value: Any, piece_bytes: int, indent: int | None) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=False).encode()
    assert outcome(partial(divide, decode=of_bytes, keeps_repeated=False, piece_bytes=piece_bytes), data) == outcome(
        of_bytes, data
    )


# Few characters, of which many sequences are nearly JSON.
@given(
    data=st.lists(
        st.sampled_from(['"', '"a"', ",", ":", "[", "]", "{", "}", "1", " ", "\\", "null", '"b":']), max_size=14
    )
)
def test_the_same_texts_are_refused(data: list[str]) -> None:
    text = "".join(data).encode()
    expected = outcome(of_bytes, text)
    for piece_bytes in (1, 2, 5):
        divided = partial(divide, decode=of_bytes, keeps_repeated=False, piece_bytes=piece_bytes)
        assert outcome(divided, text) == expected


TEXTS = {
    "object": b'{"a":1,"b":2,"c":3}',
    "list": b"[1, 2, 3 ,4]",
    "nested": b'{"a":{"b":[1,2,{"c":[]}],"d":{}},"e":[[],[1]]}',
    "blanks": b' \n{ "a" : [ 1 , 2 ] , "b" : { } }\t',
    "brackets in strings": b'{"}":"{","]":["[","\\"]"],"\\\\":"a,b"}',
    "key with quotation marks": b'{"a\\"b\\\\":[1,2,3,4],"\\u0041":{"c":[1,2]}}',
    "scalar": b" 12 ",
    "empty": b"",
    "no comma": b"[1,2 3]",
    "no comma after a list": b"[[1,2] [3]]",
    "two commas": b"[1,2,,3]",
    "two commas after a list": b"[[1,2],,3]",
    "comma at the end": b"[1,2,3,]",
    "comma at the end after a list": b"[1,[2,3],]",
    "comma at the start": b"[,1,2]",
    "list as an object's key": b'{[1,2]:1,"a":2}',
    "list without a key": b'{"a":1,[1,2]}',
    "list after a value": b'{"a":1[1,2]}',
    "number before a list": b"[1[2,3]]",
    "other bracket": b'{"a":[1,2}]',
    "not closed": b"[1,2,[3]",
    "closed twice": b"[1,2]]",
    "string not closed": b'[1,2,"a]',
    "two values": b"[1,2] [3]",
    "key twice": b'{"a":1,"b":2,"a":3}',
    "key of a list twice": b'{"a":[1,2,3],"b":2,"a":[4,5,6]}',
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_texts(text: bytes) -> None:
    expected = outcome(of_bytes, text)
    for piece_bytes in range(1, len(text) + 2):
        divided = partial(divide, decode=of_bytes, keeps_repeated=False, piece_bytes=piece_bytes)
        assert outcome(divided, text) == expected, piece_bytes


@pytest.mark.parametrize("piece_bytes", [1, 4, 9, 30])
def test_repeated_keys_are_kept_for_those_who_want_them(piece_bytes: int) -> None:
    def pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return Repeated(pairs) if len(dict(pairs)) != len(pairs) else dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=pairs)
    text = b'{"a":1,"b":{"c":[1,2],"c":[3,4]},"a":[5,6],"d":0}'
    value = divide(text, lambda data: decoder.decode(data.decode()), True, piece_bytes)
    assert isinstance(value, Repeated)
    assert isinstance(value["b"], Repeated)
    assert value.pairs == [("a", 1), ("b", {"c": [3, 4]}), ("a", [5, 6]), ("d", 0)]
    assert value["b"].pairs == [("c", [1, 2]), ("c", [3, 4])]


# What a body can have most of.
LARGE = {
    "keys": orjson.dumps({"a": {f"k{i}": i for i in range(90_000)}}),
    "keys of objects": orjson.dumps({"a": [{"k": f"k{i}"} for i in range(90_000)]}),
    "keys at every level": orjson.dumps({f"k{i}": {f"k{i}{j}": [j, {"a": j}] for j in range(200)} for i in range(200)}),
    "numbers": orjson.dumps([list(range(200_000))]),
    "texts": orjson.dumps({"a": ["é"] * 300_000}),
    "lists": b"[" + b"[]," * 190_000 + b"[]]",
    "members last": b'{"k":[1,2,3],"a":' * 20_000 + b"1" + b"}" * 20_000,
}


@pytest.mark.parametrize("data", [*LARGE.values()][:-1], ids=[*LARGE][:-1])
def test_pieces_are_small(data: bytes) -> None:
    pieces: list[int] = []

    def decode(piece: bytes) -> Any:
        pieces.append(len(piece))
        return orjson.loads(piece)

    assert decode_in_pieces(data, decode) == orjson.loads(data)
    assert max(pieces) < 3 * PIECE_BYTES
    assert decode_json(data).value == orjson.loads(data)


def test_nesting_is_limited() -> None:
    with pytest.raises(ValueError, match="too deep"):
        decode_in_pieces(LARGE["members last"], orjson.loads)


def test_large_texts_of_other_spellings() -> None:
    """With escapes and numbers that are no int64, which orjson does not keep."""
    data = orjson.dumps({f"k{i}": 1.5 for i in range(60_000)}).replace(b'"k0"', b'"\\u006b0"').replace(b"1.5", b"1.50")
    assert decode_json(data).value == orjson.loads(data)
    assert decode_verbatim_json(data).keys() == orjson.loads(data).keys()
    twice = data[:-1] + b',"k1":2}'
    value = decode_verbatim_json(twice)
    assert isinstance(value, Repeated)
    assert value.pairs[-1] == ("k1", 2)
    assert len(value.pairs) == 60_001
    assert decode_json(twice).duplicates == ['duplicate field "k1"']


def test_blanks_between_values_are_read_once() -> None:
    """Megabytes of them, where a comma is looked for."""
    data = b'{"a":[' + b"1," * 60_000 + b'1],"b":' + b" " * 2_800_000 + b"1}"
    began = time.thread_time()
    assert decode_in_pieces(data, orjson.loads) == {"a": [1] * 60_001, "b": 1}
    assert time.thread_time() - began < 1
