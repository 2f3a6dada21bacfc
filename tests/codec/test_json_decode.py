"""JSON in: values, numbers, text that is not Unicode, duplicates, the words of every error, depth."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec.json_decode import decode_canonical_json, decode_json, decode_verbatim_json
from registry.codec.json_encode import encode_json
from registry.codec.json_scan import scan
from registry.codec.model import Decoded, DecodeError, JsonNumberError, JsonSyntaxError
from registry.codec.stored import decode_metadata
from tests.codec.strategies import JSON_VALUES


@pytest.mark.parametrize(
    "data, expected",
    [
        pytest.param(b'{"a":[1,true,null,"x"]}', {"a": [1, True, None, "x"]}, id="compact"),
        pytest.param(b' { "a" : [ 1 , { } , [ ] ] } \n', {"a": [1, {}, []]}, id="blanks"),
        pytest.param(b'{"a": 1, "b": {"c": 2}}', {"a": 1, "b": {"c": 2}}, id="blanks after colons"),
        pytest.param(b"9223372036854775807", 9223372036854775807, id="int64 maximum"),
        pytest.param(b"-9223372036854775808", -9223372036854775808, id="int64 minimum"),
        pytest.param(b"9223372036854775808", 9223372036854775808.0, id="above int64"),
        pytest.param(b'{"a":18446744073709551615}', {"a": 18446744073709551615.0}, id="uint64"),
        pytest.param(b"[123456789012345678901234567890]", [1.2345678901234568e29], id="far above int64"),
        pytest.param(b"-0", 0, id="minus nought"),
        pytest.param(b"1.0", 1.0, id="a whole float stays a float"),
        pytest.param(b"1e3", 1000.0, id="exponent"),
        pytest.param(b"1E+2", 100.0, id="capital exponent"),
        pytest.param(b"1e-400", 0.0, id="below float64"),
        pytest.param(b'"\\u0000"', "\0", id="escaped NUL"),
        pytest.param(b'"\\ud83d\\ude00\\/\\b"', "\U0001f600/\b", id="escapes"),
        pytest.param(b'"\\ud800"', "\ufffd", id="half a pair"),
        pytest.param(b'"\\udc00x"', "\ufffdx", id="the other half"),
        pytest.param(b'"\\ud83d\\u0041"', "\ufffdA", id="half a pair before a letter"),
        pytest.param(b'"\\ud83d\\ud83d\\ude00"', "\ufffd\U0001f600", id="half a pair before a pair"),
        pytest.param(b'"\xff"', "\ufffd", id="no UTF-8"),
        pytest.param(b'"\xe2\x82"', "\ufffd\ufffd", id="cut UTF-8, one for each byte"),
        pytest.param(b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd", id="surrogate in UTF-8"),
        pytest.param(b'{"\xff":1}', {"\ufffd": 1}, id="no UTF-8 in a key"),
        pytest.param(b'"' + b"a\xff" * 100_000 + b'"', "a\ufffd" * 100_000, id="no UTF-8 a hundred thousand times"),
        pytest.param(b'"\x7f"', "\x7f", id="DEL"),
    ],
)
def test_values(data: bytes, expected: Any) -> None:
    decoded = decode_json(data)
    assert decoded.value == expected
    assert type(decoded.value) is type(expected)
    assert decoded.duplicates == []
    assert scan(data).value == expected


@pytest.mark.parametrize(
    "data, value, duplicates",
    [
        pytest.param('{"a":1,"a":2}', {"a": 2}, ["a"], id="last wins"),
        pytest.param('{"n":1,"n":2,"n":3}', {"n": 3}, ["n"], id="thrice is reported once"),
        pytest.param(
            '{"spec":{"free":{"a":1},"free":{"b":2}}}',
            {"spec": {"free": {"b": 2}}},
            ["spec.free"],
            id="replaced, not merged",
        ),
        pytest.param('{"l":[{"k":1},{"k":1,"k":2}]}', {"l": [{"k": 1}, {"k": 2}]}, ["l[1].k"], id="list item"),
        pytest.param('[[{"a":1,"a":2}]]', [[{"a": 2}]], ["[0][0].a"], id="lists at the root"),
        pytest.param(
            '{"a":{"x":1,"x":2},"b":{"y":1,"y":2},"a":3}',
            {"a": 3, "b": {"y": 2}},
            ["a.x", "b.y", "a"],
            id="document order",
        ),
        pytest.param('{"a":1,"\\u0061":2}', {"a": 2}, ["a"], id="escaped otherwise"),
        pytest.param('{"a":1,"A":2}', {"a": 1, "A": 2}, [], id="case counts"),
        pytest.param('{"a.b":{"c":1,"c":2}}', {"a.b": {"c": 2}}, ["a.b.c"], id="dot in a key"),
        pytest.param('{"":1,"":2}', {"": 2}, [""], id="empty key"),
        pytest.param('{"a" :1,"b":1,"b":2}', {"a": 1, "b": 2}, ["b"], id="blank before a colon"),
    ],
)
def test_duplicates(data: str, value: Any, duplicates: list[str]) -> None:
    decoded = decode_json(data.encode())
    assert decoded.value == value
    assert decoded.duplicates == decoded.strict_errors() == [f'duplicate field "{path}"' for path in duplicates]


def test_duplicates_are_bounded() -> None:
    data = "{" + ",".join(f'"k{i}":1,"k{i}":2' for i in range(200)) + "}"
    assert len(decode_json(data.encode()).duplicates) == 100


@pytest.mark.parametrize(
    "data, message",
    [
        pytest.param(b"", "unexpected end of JSON input", id="empty"),
        pytest.param(b" \n ", "unexpected end of JSON input", id="blanks only"),
        pytest.param(b'{"a":1', "unexpected end of JSON input", id="open object"),
        pytest.param(b'{"a"', "unexpected end of JSON input", id="open key"),
        pytest.param(b"[1,", "unexpected end of JSON input", id="open array"),
        pytest.param(b'"a', "unexpected end of JSON input", id="open string"),
        pytest.param(b'"a\\', "unexpected end of JSON input", id="open escape"),
        pytest.param(b'"\\u12', "unexpected end of JSON input", id="open unicode escape"),
        pytest.param(b"tru", "unexpected end of JSON input", id="open literal"),
        pytest.param(b"-", "unexpected end of JSON input", id="open number"),
        pytest.param(b"5.", "unexpected end of JSON input", id="open fraction"),
        pytest.param(b"1e+", "unexpected end of JSON input", id="open exponent"),
        pytest.param(
            b'{"a":1,}', "invalid character '}' looking for beginning of object key string", id="comma in object"
        ),
        pytest.param(b"{a:1}", "invalid character 'a' looking for beginning of object key string", id="bare key"),
        pytest.param(
            b"{'a':1}", "invalid character '\\'' looking for beginning of object key string", id="single quotes"
        ),
        pytest.param(b"{,}", "invalid character ',' looking for beginning of object key string", id="comma at first"),
        pytest.param(b'{"a" "b"}', "invalid character '\"' after object key", id="no colon"),
        pytest.param(b'{"a":1 "b":2}', "invalid character '\"' after object key:value pair", id="no comma"),
        pytest.param(b'{"i":01}', "invalid character '1' after object key:value pair", id="leading nought"),
        pytest.param(b'{"i":0x10}', "invalid character 'x' after object key:value pair", id="hexadecimal"),
        pytest.param(b"[1 2]", "invalid character '2' after array element", id="no comma in array"),
        pytest.param(b"[1,]", "invalid character ']' looking for beginning of value", id="comma in array"),
        pytest.param(b'{"a":}', "invalid character '}' looking for beginning of value", id="no value"),
        pytest.param(b"True", "invalid character 'T' looking for beginning of value", id="Python's true"),
        pytest.param(b"NaN", "invalid character 'N' looking for beginning of value", id="NaN"),
        pytest.param(b"[Infinity]", "invalid character 'I' looking for beginning of value", id="Infinity"),
        pytest.param(b"[-Infinity]", "invalid character 'I' in numeric literal", id="minus Infinity"),
        pytest.param(b"+1", "invalid character '+' looking for beginning of value", id="plus"),
        pytest.param(b".5", "invalid character '.' looking for beginning of value", id="point first"),
        pytest.param(b"[5.]", "invalid character ']' in numeric literal", id="point last"),
        pytest.param(b"[1e]", "invalid character ']' in numeric literal", id="empty exponent"),
        pytest.param(b"[-]", "invalid character ']' in numeric literal", id="minus alone"),
        pytest.param(b"nope", "invalid character 'o' in literal null (expecting 'u')", id="bad literal"),
        pytest.param(b"{} x", "invalid character 'x' after top-level value", id="text behind"),
        pytest.param(b"{}{}", "invalid character '{' after top-level value", id="second object"),
        pytest.param(
            b"\xef\xbb\xbf{}", "invalid character '\\ufeff' looking for beginning of value", id="byte order mark"
        ),
        pytest.param(b"\xff", "invalid character '\\xff' looking for beginning of value", id="no UTF-8"),
        pytest.param("[é]".encode(), "invalid character 'é' looking for beginning of value", id="letter"),
        pytest.param(b'"a\nb"', "invalid character '\\n' in string", id="newline in string"),
        pytest.param(b'"a\tb"', "invalid character '\\t' in string", id="tab in string"),
        pytest.param(b'"a\x00b"', "invalid character '\\x00' in string", id="NUL in string"),
        pytest.param(b'"\\x41"', "invalid escape sequence `\\x` in string", id="bad escape"),
        pytest.param(b'"\\u12"}}}', 'invalid escape sequence `\\u12"}` in string', id="short unicode escape"),
        pytest.param(b'"\\u 1234"', 'invalid escape sequence "\\\\u 123" in string', id="escape with a blank"),
        pytest.param(
            '"\\é"'.encode(), r'invalid escape sequence "\\\xc3" in string', id="escape of a character of two bytes"
        ),
        pytest.param(b'"\\\x80"', r'invalid escape sequence "\\\x80" in string', id="escape of no character"),
        pytest.param(
            '"\\u1é23"'.encode(), r"invalid escape sequence `\u1é2` in string", id="six bytes, not six characters"
        ),
        pytest.param(
            '"\\u12é€"'.encode(), r"invalid escape sequence `\u12é` in string", id="six bytes end with a character"
        ),
    ],
)
def test_syntax_errors(data: bytes, message: str) -> None:
    with pytest.raises(JsonSyntaxError) as raised:
        decode_json(data)
    assert str(raised.value) == message


@pytest.mark.slow
@pytest.mark.parametrize("end", [b"", b'"}', b'","k":1}', b'\\x"}'], ids=["cut", "right", "duplicate", "bad escape"])
def test_decoding_many_escapes_is_linear(end: bytes) -> None:
    """3 million took the exact scanner two seconds."""
    data = b'{"k":"' + b'\\"' * 3_000_000 + end
    started = time.process_time()
    with contextlib.suppress(DecodeError):
        decode_json(data)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"a":' + b"9" * 2_000_000 + b"}", id="digits"),
        pytest.param(b'{"a":1e' + b"9" * 2_000_000 + b"}", id="exponent"),
        pytest.param(b'{"a":[1,' + b"9" * 2_000_000 + b"]}", id="digits in a list"),
    ],
)
def test_long_numbers_are_read_once(data: bytes) -> None:
    started = time.process_time()
    with contextlib.suppress(DecodeError):
        decode_json(data)
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize("blanks", [b"\n" * 1_000_000, b" \n" * 500_000, b"\r\n  " * 250_000])
@pytest.mark.parametrize("text", [b'{"a":1%s}', b'{%s"a":1}', b'{"a":%s1}'])
def test_many_line_breaks_in_json_that_is_sent_as_yaml(blanks: bytes, text: bytes) -> None:
    """It was looked for a colon behind each of them: in C code, for hours."""
    started = time.process_time()
    assert decode_canonical_json(text % blanks) == Decoded({"a": 1})
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "data, is_yaml",
    [
        (b'{"a":1}', True),
        (b'{"a" :\n1}', True),
        (b'{\n "a": 1\n}', True),
        (b'{"a"\n:1}', False),
        (b'{"a" \n :1}', False),
        (b'{"a"\r\n  :1}', False),
        (b'{"a"  \r:1}', False),
    ],
)
def test_yaml_has_no_line_break_before_a_colon(data: bytes, is_yaml: bool) -> None:
    assert (decode_canonical_json(data) is not None) == is_yaml


def test_number_beyond_float64_is_reported_after_the_syntax() -> None:
    with pytest.raises(JsonNumberError) as raised:
        decode_json(b'{"kind":"W","n":1e400}')
    assert str(raised.value) == "json: cannot unmarshal number 1e400 into Go value of type float64"
    assert raised.value.decoded.value == {"kind": "W", "n": 0.0}
    with pytest.raises(JsonSyntaxError):
        decode_json(b'{"n":1e400')


@pytest.mark.parametrize("depth, fits", [(900, True), (5000, True), (10000, True), (10001, False), (100000, False)])
def test_depth(depth: int, fits: bool) -> None:
    data = b"[" * depth + b"]" * depth
    if fits:
        assert encode_json(decode_json(data).value) == data
    else:
        with pytest.raises(JsonSyntaxError, match=r"\Aexceeded max depth\Z"):
            decode_json(data)


@pytest.mark.parametrize("inner", [b"[[],1]", b"[{},1]", b'{"a":[],"b":1}', b"[1,[]]", b'{"a":1,"b":{}}'])
def test_depth_counts_empty_containers(inner: bytes) -> None:
    assert decode_json(b"[" * 9998 + inner + b"]" * 9998).duplicates == []
    with pytest.raises(JsonSyntaxError, match="exceeded max depth"):
        decode_json(b"[" * 9999 + inner + b"]" * 9999)


@pytest.fixture
def recursion_limit_of_others() -> Iterator[None]:
    """As hypothesis leaves it while it runs: the bound may not come from the interpreter."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 5000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("recursion_limit_of_others")
def test_depth_of_objects_can_be_bounded_lower() -> None:
    assert decode_json(b'{"a":' * 1500 + b"1" + b"}" * 1500, max_depth=1500).duplicates == []
    with pytest.raises(JsonSyntaxError):
        decode_json(b'{"a":' * 1501 + b"1" + b"}" * 1501, max_depth=1500)


@pytest.mark.parametrize(
    "data, taken",
    [
        pytest.param(b'{"a":{"b":[1,2.5,"x"]}}', True, id="compact"),
        pytest.param(b'{"a":1}\n', True, id="newline at the end"),
        pytest.param(b'{"a": 1, "b": [1]}', True, id="blanks"),
        pytest.param(b'{\n  "a": {\n    "b": []\n  }\n}\n', True, id="indented"),
        pytest.param(b'{"a": "\xc3\xa9"}', True, id="letters beyond ASCII"),
        pytest.param(b'{\t"a":1}', False, id="a tab"),
        pytest.param(b'{"a"\n :1}', False, id="a line break before a colon"),
        pytest.param(b'{"a":"\x7f"}', False, id="a control character"),
        pytest.param(b'{"a":"\xc2\x85"}', False, id="a line break of YAML"),
        pytest.param(b'{"a":"\xe2\x80\xa8"}', False, id="a separator of lines"),
        pytest.param(b'{"a":"\xef\xbb\xbf"}', False, id="a byte order mark"),
        pytest.param(b'{"a": 1, "a": 1}', False, id="duplicate among blanks"),
        pytest.param(b'{"a": 1.0}', False, id="whole float among blanks"),
        pytest.param(b'{"a":1,"a":1}', False, id="duplicate"),
        pytest.param(b'{"a":1.0}', False, id="whole float"),
        pytest.param(b'{"a":1e2}', False, id="exponent"),
        pytest.param(b"a: 1", False, id="YAML"),
        pytest.param(b'{"a":9223372036854775808}', False, id="long integer"),
    ],
)
def test_canonical(data: bytes, taken: bool) -> None:
    decoded = decode_canonical_json(data)
    assert (decoded is not None) is taken
    if decoded is not None:
        assert decoded.value == json.loads(data)


@given(JSON_VALUES)
def test_everything_that_json_encodes_is_decoded(value: Any) -> None:
    for data in (json.dumps(value), json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        encoded = data.encode()
        assert decode_json(encoded).value == value
        assert scan(encoded).value == value


@given(st.binary(max_size=60) | st.text('{}[]",:\\u0123.eE+-tfn \n').map(str.encode))
def test_the_decoders_agree_on_arbitrary_bytes(data: bytes) -> None:
    assert _outcome(decode_json, data) == _outcome(scan, data)


def _outcome(read: Any, data: bytes) -> Any:
    try:
        decoded = read(data)
    except DecodeError as error:
        return str(error)
    return repr(decoded.value), decoded.duplicates


@pytest.mark.parametrize(
    "body, expected",
    [
        pytest.param('"name":"a"},"spec":{"b":1}}', {"name": "a"}, id="an object"),
        pytest.param('"name":"a"}}', {"name": "a"}, id="without more"),
        pytest.param(
            '"labels":{"}":"\\"}"},"name":"\u00e9"},"spec":[]}', {"labels": {"}": '"}'}, "name": "\u00e9"}, id="braces"
        ),
        pytest.param('"name":"a"},"spec":"not decoded', {"name": "a"}, id="what follows is not decoded"),
    ],
)
def test_the_metadata_of_a_body(body: str, expected: dict[str, Any]) -> None:
    assert decode_metadata(body) == expected


def test_metadata_of_any_length() -> None:
    metadata = {"labels": {f"l{i}": "é" for i in range(60_000)}, "name": "a"}
    body = json.dumps(metadata, ensure_ascii=False)[1:] + ',"spec":{}}'
    assert decode_metadata(body) == metadata


def test_metadata_of_any_depth() -> None:
    depth = 5_000
    body = '"managedFields":' + "[" * depth + "]" * depth + '},"spec":{}}'
    value = decode_metadata(body)["managedFields"]
    for _ in range(depth - 1):
        [value] = value
    assert value == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(rb'{"a":"\ud800","b":"x\uDFFFy"}', id="half"),
        pytest.param(rb'["\ud83d\ude00","\ud83d\ud83d\ude00","\ude00\ud83d"]', id="pairs"),
        pytest.param(rb'{"\ud800":"\\ud800","c":"\\\ud800"}', id="backslashes"),
        pytest.param(rb'"\ud800\u0041"', id="another character"),
    ],
)
def test_half_surrogates_are_replaced_in_verbatim_values_too(data: bytes) -> None:
    assert decode_verbatim_json(data) == decode_json(data).value
