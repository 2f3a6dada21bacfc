"""JSON out: compact, keys as given, whole floats as integers, any depth."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec.json_decode import decode_json
from registry.codec.json_encode import MEMBERS_AT_ONCE, dumps_in_pieces, encode_canonical, encode_json, encode_json_text
from tests.codec.strategies import JSON_VALUES, as_written


@pytest.mark.parametrize(
    "value, text",
    [
        pytest.param({"b": 1, "a": [True, None, "é\n<"]}, '{"b":1,"a":[true,null,"é\\n<"]}', id="order and text"),
        pytest.param({"a": 1.0}, '{"a":1}', id="whole float"),
        pytest.param(1.0, "1", id="whole float alone"),
        pytest.param([-3.0, 2.5], "[-3,2.5]", id="in a list"),
        pytest.param(
            [1e15, 1e16, 1e17, 1e18],
            "[1000000000000000,10000000000000000,100000000000000000,1000000000000000000]",
            id="as far as int64",
        ),
        pytest.param(
            [9223372036854775808.0, -1e20, 123456789012345680000.0, 1234567890123456789.0],
            "[9223372036854776000,-100000000000000000000,123456789012345680000,1234567890123456800]",
            id="shortest digits and noughts",
        ),
        pytest.param([1e21, 1.5e300, 1e-7], "[1e+21,1.5e+300,1e-7]", id="exponents"),
        pytest.param({"image": "a:1.0", "list": "[1.0,2.0]"}, '{"image":"a:1.0","list":"[1.0,2.0]"}', id="text stays"),
        pytest.param({"list": "[1.0]", "n": 2.0}, '{"list":"[1.0]","n":2}', id="text and number"),
        pytest.param([9223372036854775807], "[9223372036854775807]", id="int64 maximum"),
        pytest.param("\0", '"\\u0000"', id="NUL"),
    ],
)
def test_text(value: Any, text: str) -> None:
    assert encode_json(value) == text.encode()
    assert encode_json_text(value) == text


@pytest.mark.parametrize("depth", [254, 255, 1000, 5000])
def test_depth(depth: int) -> None:
    value: Any = {"x": 1.0}
    for i in range(depth):
        value = {"a": value, "b": []} if i % 2 else [value, {}]
    data = encode_json(value)
    assert data.count(b"{") == depth // 2 + (depth + 1) // 2 + 1
    assert b'{"x":1}' in data
    assert encode_json(decode_json(data).value) == data


@given(JSON_VALUES)
def test_round_trip(value: Any) -> None:
    data = encode_json(value)
    again = decode_json(data)
    assert again.value == as_written(value)
    assert again.duplicates == []
    assert encode_json(again.value) == data


@pytest.mark.parametrize("option", [0, orjson.OPT_SORT_KEYS], ids=["in order", "sorted"])
@given(value=JSON_VALUES, at_once=st.integers(1, 8))
def test_pieces_are_the_same_text(option: int, value: Any, at_once: int) -> None:
    assert dumps_in_pieces(value, option, at_once) == orjson.dumps(value, option=option)


LARGE = {
    "keys": {f"k{i}": {} if i % 2 else 1.0 for i in range(3 * MEMBERS_AT_ONCE)},
    "a list": [[i] for i in range(3 * MEMBERS_AT_ONCE)],
    "objects": {"b": [{"b": 1, "a": [2]} for _ in range(MEMBERS_AT_ONCE)], "a": 1, "c": {"d": [1] * MEMBERS_AT_ONCE}},
}


@pytest.mark.parametrize("value", LARGE.values(), ids=LARGE)
def test_large_values_in_another_thread(value: Any) -> None:
    """Where they are encoded in pieces."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(encode_json, value).result() == encode_json(value)
        assert pool.submit(encode_canonical, value).result() == encode_canonical(value)


def test_pieces_of_what_is_nested_deeply() -> None:
    value: Any = [1] * 100
    for _ in range(240):
        value = {"a": value, "b": 2}
    assert dumps_in_pieces(value, 0, 10) == orjson.dumps(value)
    for _ in range(1_000):
        value = {"a": value}
    with pytest.raises(TypeError):
        dumps_in_pieces(value, 0, 10)
