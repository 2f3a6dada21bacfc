"""YAML out: the forms that kube-apiserver prints, and that what is printed can be read again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec.yaml_decode import decode_yaml
from registry.codec.yaml_encode import encode_yaml
from tests.codec.strategies import FLOATS, INTEGERS, TEXT, as_written, json_values


@pytest.mark.parametrize(
    "value, text",
    [
        pytest.param(
            {"b": {"c": 1}, "a": ["x", {"y z": 1, "a": 2}]}, "a:\n- x\n- a: 2\n  y z: 1\nb:\n  c: 1\n", id="shape"
        ),
        pytest.param({"a": [], "b": {}, "c": None, "d": True}, "a: []\nb: {}\nc: null\nd: true\n", id="empty and null"),
        pytest.param([["a", "b"], []], "- - a\n  - b\n- []\n", id="lists of lists"),
        pytest.param(
            ["1", "true", "", " x", "a: b", "#c", "-", "'q'", "*a", "no"],
            "- \"1\"\n- \"true\"\n- \"\"\n- ' x'\n- 'a: b'\n- '#c'\n- '-'\n- '''q'''\n- '*a'\n- \"no\"\n",
            id="quotes",
        ),
        pytest.param(
            ["2020-01-02T03:04:05Z", "2020-13-01", "12:30", "0x1f", "1e3", "null", "~"],
            '- "2020-01-02T03:04:05Z"\n- 2020-13-01\n- "12:30"\n- "0x1f"\n- "1e3"\n- "null"\n- "~"\n',
            id="what would be read as something else",
        ),
        pytest.param({"t": "one\ntwo", "u": "one\n"}, "t: |-\n  one\n  two\nu: |\n  one\n", id="lines"),
        pytest.param(
            [1, -5, 1.0, 2.5, 1e6, 1e21, 1e-7, 9223372036854775808.0, 1e20],
            "- 1\n- -5\n- 1\n- 2.5\n- 1000000\n- 1e+21\n- 1e-07\n- 9223372036854776000\n- 1e+20\n",
            id="numbers",
        ),
        pytest.param(
            {"a10": 1, "a2": 2, "B": 3, "a": 4, ".": {}}, ".: {}\nB: 3\na: 4\na2: 2\na10: 1\n", id="natural order"
        ),
        pytest.param({"n1": 1, "n01": 2, "1n": 3, "n-": 4}, "1n: 3\nn-: 4\nn1: 1\nn01: 2\n", id="order of digits"),
        pytest.param({"f:y": 1, "y": 2, "n": 3}, 'f:y: 1\n"n": 3\n"y": 2\n', id="boolean words as keys"),
        pytest.param(
            {"m": "word " * 20 + "end"},
            "m: word word word word word word word word word word word word word word word word\n"
            "  word word word word end\n",
            id="folded at 80",
        ),
        pytest.param(
            {"m": 'Invalid value: "string": spec.size in body must be of type integer: "string" and more'},
            'm: \'Invalid value: "string": spec.size in body must be of type integer: "string" and\n  more\'\n',
            id="quoted and folded",
        ),
        pytest.param("text", "text\n", id="text alone"),
        pytest.param(["ü€", "😀"], '- ü€\n- "\\U0001F600"\n', id="letters of any script"),
    ],
)
def test_text(value: Any, text: str) -> None:
    assert encode_yaml(value).decode() == text


# libyaml writes and reads NEL, U+2028 and U+2029 as line breaks, and refuses U+FEFF in text: so does the reference.
_BREAKS = "\x85\u2028\u2029\ufeff"
_PRINTABLE = TEXT.map(lambda text: "".join(c for c in text if c.isprintable() and c not in _BREAKS))


@given(json_values(st.none() | st.booleans() | INTEGERS | FLOATS | _PRINTABLE))
def test_round_trip(value: Any) -> None:
    if any(key == "<<" for key in _keys(value)):
        return  # a plain `<<` is a merge key when it is read again, in Go as here
    assert decode_yaml(encode_yaml(value)).value == as_written(value)


@given(TEXT)
def test_any_string_round_trips(text: str) -> None:
    assert encode_yaml({"a": text}).startswith(b"a:")


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    return [key for item in value for key in _keys(item)] if isinstance(value, list) else []
