"""YAML in: what scalars mean, duplicates and where they stand, merges, anchors, errors with their lines, bounds."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.codec import yaml_decode
from registry.codec.model import Decoded, DecodeError, YamlError
from registry.codec.yaml_decode import MAX_YAML_DEPTH, decode_yaml
from tests.codec.strategies import INTEGERS, json_values


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param("", None, id="nothing"),
        pytest.param("# nothing\n", None, id="a comment"),
        pytest.param("---\n", None, id="a marker"),
        pytest.param("just text\n", "just text", id="text"),
        pytest.param("- a\n- b: 1\n", ["a", {"b": 1}], id="list"),
        pytest.param("---\n# c\na: {b: [c, 'd']}\n", {"a": {"b": ["c", "d"]}}, id="flow"),
        pytest.param("a: 1\n---\na: 2\n", {"a": 1}, id="first document only"),
        pytest.param("a: 1\n---\nb: [", {"a": 1}, id="errors behind it do not count"),
        pytest.param("a: 1\n...\n", {"a": 1}, id="end marker"),
        pytest.param(
            "a: |\n  one\n  two\nb: >-\n one\n two\n", {"a": "one\ntwo\n", "b": "one two"}, id="block scalars"
        ),
        pytest.param("%YAML 1.1\n---\na: 1\n", {"a": 1}, id="directive"),
        pytest.param('{"a":{"b":[1,null]}}', {"a": {"b": [1, None]}}, id="JSON"),
        pytest.param('{"a":1.0,"b":"\\/"}', {"a": 1, "b": "/"}, id="JSON as YAML reads it"),
        pytest.param("a: &x [1, 2]\nb: *x\n", {"a": [1, 2], "b": [1, 2]}, id="alias"),
        pytest.param("&a a: &b {c: &c 1}\nd: *a\ne: *c\n", {"a": {"c": 1}, "d": "a", "e": 1}, id="aliases of scalars"),
        pytest.param("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}, id="an anchor again"),
        pytest.param("a: &b {x: 1}\nc: {<<: *b, z: 2}\n", {"a": {"x": 1}, "c": {"x": 1, "z": 2}}, id="merge"),
        pytest.param(
            "a: &a {x: 1}\nb: &b {z: 3}\nc: {<<: [*a, *b]}\n",
            {"a": {"x": 1}, "b": {"z": 3}, "c": {"x": 1, "z": 3}},
            id="merge of several",
        ),
        pytest.param("c: {<<: {x: 1}}\n", {"c": {"x": 1}}, id="merge of a map in place"),
        pytest.param("c: {'<<': {x: 1}}\n", {"c": {"<<": {"x": 1}}}, id="quoted merge key"),
        pytest.param(
            "{1: one, true: yes, 2.5: x, 1e3: w, .inf: z}",
            {"1": "one", "true": True, "2.5": "x", "1000": "w", ".inf": "z"},
            id="keys become text",
        ),
        pytest.param("{y: 1, 'n': 2, off: 3}", {"true": 1, "n": 2, "false": 3}, id="boolean keys"),
        pytest.param("2020-01-01: 2020-01-02\n", {"2020-01-01": "2020-01-02"}, id="dates"),
    ],
)
def test_documents(text: str, expected: Any) -> None:
    decoded = decode_yaml(text.encode())
    assert decoded.value == expected
    assert decoded.duplicates == []


def test_whole_floats_keep_their_type() -> None:
    value = decode_yaml(b"{a: 1.0, b: 1e3, c: 2.5, d: 9223372036854775808, e: -0.0, f: 1e21}").value
    assert [type(v) for v in value.values()] == [int, int, float, float, int, float]
    assert value == {"a": 1, "b": 1000, "c": 2.5, "d": 2.0**63, "e": 0, "f": 1e21}


def test_aliased_values_are_copied() -> None:
    value = decode_yaml(b"a: &x {k: [1]}\nb: *x\nc: {<<: *x}\n").value
    value["a"]["k"].append(2)
    assert value["b"] == value["c"] == {"k": [1]}


@pytest.mark.parametrize(
    "text, value, duplicates",
    [
        pytest.param("a: 1\nb: 2\na: 3\n", {"a": 3, "b": 2}, ['line 3: key "a" already set in map'], id="text key"),
        pytest.param(
            "a: 1\na:\n  b: 1\n", {"a": {"b": 1}}, ['line 3: key "a" already set in map'], id="the line of the value"
        ),
        pytest.param(
            "a: 1\na: 2\na: 3\n",
            {"a": 3},
            ['line 2: key "a" already set in map', 'line 3: key "a" already set in map'],
            id="each time",
        ),
        pytest.param(
            "{y: 1, n: 2, Y: 3, off: 4}",
            {"true": 3, "false": 4},
            ["line 1: key true already set in map", "line 1: key false already set in map"],
            id="booleans",
        ),
        pytest.param(
            "{1: a, 1: b, 2.5: c, 2.5: d}",
            {"1": "b", "2.5": "d"},
            ["line 1: key 1 already set in map", "line 1: key 2.5 already set in map"],
            id="numbers",
        ),
        pytest.param(
            "a: &b {w: 1}\nc:\n  <<: *b\n  w: 3\n",
            {"a": {"w": 1}, "c": {"w": 3}},
            ['line 4: key "w" already set in map'],
            id="over a merged one",
        ),
        pytest.param(
            "a: &a {w: 1}\nb: &b {w: 2}\nc: {<<: [*a, *b]}\n",
            {"a": {"w": 1}, "b": {"w": 2}, "c": {"w": 1}},
            ['line 1: key "w" already set in map'],
            id="merge of several, earlier first",
        ),
        pytest.param(
            "a: &b {w: 1}\nc:\n  w: 3\n  <<: *b\n",
            {"a": {"w": 1}, "c": {"w": 1}},
            ['line 1: key "w" already set in map'],
            id="merged over one",
        ),
        pytest.param(
            "a: {x: 1, x: 2}\na: 1\n",
            {"a": 1},
            ['line 1: key "x" already set in map', 'line 2: key "a" already set in map'],
            id="document order",
        ),
        pytest.param(
            '"say \\"a\\"": 1\n"say \\"a\\"": 2\n',
            {'say "a"': 2},
            ['line 2: key "say \\"a\\"" already set in map'],
            id="quoted as Go does",
        ),
    ],
)
def test_duplicates(text: str, value: Any, duplicates: list[str]) -> None:
    decoded = decode_yaml(text.encode())
    assert decoded.value == value
    assert decoded.duplicates == duplicates
    assert decoded.strict_errors() == ["yaml: unmarshal errors:\n  " + "\n  ".join(duplicates)]


@pytest.mark.parametrize(
    "data, message",
    [
        pytest.param(
            b"kind: W\nmetadata:\n\tname: x\n", "yaml: line 3: found character that cannot start any token", id="tab"
        ),
        pytest.param(b"\tx", "yaml: found character that cannot start any token", id="tab in the first line"),
        pytest.param(b"a: 1\nb: 2\nc: {d: e\n", "yaml: line 3: did not find expected ',' or '}'", id="open map"),
        pytest.param(b"a: [\n", "yaml: line 1: did not find expected node content", id="open list"),
        pytest.param(b"a: b: c", "yaml: mapping values are not allowed in this context", id="two colons"),
        pytest.param(
            b"a: 1\nb: c: d\n", "yaml: line 2: mapping values are not allowed in this context", id="two colons below"
        ),
        pytest.param(b"a: 'x", "yaml: found unexpected end of stream", id="open quote"),
        pytest.param(b'a: "\\ud83d"', "yaml: found invalid Unicode character escape code", id="half a pair"),
        pytest.param(b"a: \xff", "yaml: invalid leading UTF-8 octet", id="no UTF-8"),
        pytest.param(b"a: \x07", "yaml: control characters are not allowed", id="control character"),
        pytest.param(b"a: *x", "yaml: unknown anchor 'x' referenced", id="unknown anchor"),
        pytest.param(b"&a [*a]", "yaml: anchor 'a' value contains itself", id="anchor in itself"),
        pytest.param(b"a: &a {<<: *a}", "yaml: anchor 'a' value contains itself", id="merged into itself"),
        pytest.param(
            b"{<<: 1}", "yaml: map merge requires map or sequence of maps as the value", id="merge of a number"
        ),
        pytest.param(
            b"{<<: [1]}", "yaml: map merge requires map or sequence of maps as the value", id="merge of numbers"
        ),
        pytest.param(b"f: .inf", "json: unsupported value: +Inf", id="infinity"),
        pytest.param(b"f: -.inf", "json: unsupported value: -Inf", id="minus infinity"),
        pytest.param(b"f: .nan", "json: unsupported value: NaN", id="not a number"),
        pytest.param(b"a: !!int x", "yaml: cannot decode !!str `x` as a !!int", id="wrong tag"),
        pytest.param(b"a: !!binary '*'", "yaml: !!binary value contains invalid base64 data", id="bad base64"),
        pytest.param(b"? [a, 1]\n: 1", 'yaml: invalid map key: []interface {}{"a", 1}', id="list as a key"),
        pytest.param(b"~: 1", "unsupported map key of type: %!s(<nil>), key: <nil>", id="null as a key"),
    ],
)
def test_errors(data: bytes, message: str) -> None:
    with pytest.raises(YamlError) as raised:
        decode_yaml(data)
    assert str(raised.value) == message


def _bomb() -> str:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x]"]
    for last, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{','.join(['*' + last] * 9)}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text, message",
    [
        pytest.param(_bomb(), "yaml: document contains excessive aliasing", id="aliases of aliases"),
        pytest.param(
            "a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 10_000 + "]",
            "yaml: document contains excessive aliasing",
            id="long text many times",
        ),
        pytest.param("[" * 1_000_000, "yaml: exceeded max depth", id="flow depth"),
        pytest.param('{"a":' * 250_000 + "1" + "}" * 250_000, "yaml: exceeded max depth", id="depth of JSON"),
        pytest.param(
            "".join(f"{' ' * i}a:\n" for i in range(MAX_YAML_DEPTH + 1)), "yaml: exceeded max depth", id="block depth"
        ),
        pytest.param(
            "\n".join(
                [
                    "p: [" + "x," * 60_000 + "]",
                    "a0: &a0 [x]",
                    *(f"a{i + 1}: &a{i + 1} [*a{i}]" for i in range(MAX_YAML_DEPTH)),
                ]
            ),
            "yaml: exceeded max depth",
            id="depth by aliases",
        ),
        *(
            pytest.param(
                before + "".join(f"%TAG !e{i}! tag:x,2000:{end}" for i in range(100_000)) + "---\n{}",
                "yaml: the directives or tags of the document are too long",
                id=f"directives {name}",
            )
            for name, before, end in (
                ("by lines", "", "\n"),
                ("by line breaks of Unicode", "# \u00c5 \u2026\u0085", "\u0085"),
                ("after blanks and comments", "\ufeff# a\r\n\t\u2028 # b\r", "\r"),
            )
        ),
        pytest.param(
            "%TAG ! " + "a" * 100_000 + "\n---\n[" + "!b 1," * 100_000 + "]",
            "yaml: the directives or tags of the document are too long",
            id="a long prefix",
        ),
        pytest.param(
            "%TAG ! " + "a" * 900 + "\n---\n[" + "!b 1," * 50_000 + "!b []," * 50_000 + "]",
            "yaml: the directives or tags of the document are too long",
            id="a prefix many times",
        ),
    ],
)
def test_bounds(text: str, message: str) -> None:
    started = time.process_time()
    with pytest.raises(YamlError) as raised:
        decode_yaml(text.encode())
    assert str(raised.value) == message
    assert time.process_time() - started < 20


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_directives_are_bounded_in_every_encoding(encoding: str) -> None:
    with pytest.raises(YamlError, match="the directives or tags of the document are too long"):
        decode_yaml(("".join(f"%TAG !e{i}! x\n" for i in range(1000)) + "---\n{}").encode(encoding))
    assert decode_yaml("%YAML 1.1\n%TAG !e! tag:yaml.org,2002:\n---\n{a: !e!str 1}".encode(encoding)).value == {
        "a": "1"
    }


def test_percent_signs_after_the_directives_are_text() -> None:
    text = "a: |\n" + "  %TAG\n" * 1000
    assert decode_yaml(text.encode()).value == {"a": "%TAG\n" * 1000}


@pytest.mark.slow
def test_flow_collections_are_limited_in_width_and_depth() -> None:
    started = time.process_time()
    with pytest.raises(YamlError, match="exceeded max depth"):
        decode_yaml(b"[" * (MAX_YAML_DEPTH - 1) + b"a," * 1_000_000)
    assert time.process_time() - started < 30


def test_greatest_depth() -> None:
    value = decode_yaml(b"[" * MAX_YAML_DEPTH + b"]" * MAX_YAML_DEPTH).value
    depth = 0
    while value:
        value, depth = value[0], depth + 1
    assert depth == MAX_YAML_DEPTH - 1


@given(st.binary(max_size=60) | st.text("{}[]\"',:-?&*!|>%@ \n\tab1.~<").map(str.encode))
def test_arbitrary_bytes_decode_or_raise(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        assert decode_yaml(data).duplicates is not None


# Letters that JSON and YAML treat in different ways, beside ordinary ones.
_TEXT = st.text('ab:#-%,{}[]"\\/<& \n\t\x7f\x85\u2028\ufeffé😀', max_size=8)
_LAYOUTS: list[dict[str, Any]] = [
    {"separators": (",", ":")},
    {},
    {"indent": 2},
    {"indent": "\t"},
    {"separators": (" ,", ":\n")},
    {"separators": (",", "\n:")},
]


@given(
    st.dictionaries(_TEXT, json_values(st.none() | st.booleans() | INTEGERS | st.just(1.5) | _TEXT), max_size=4),
    st.sampled_from(_LAYOUTS),
    st.booleans(),
)
def test_json_decodes_to_the_same_value_as_yaml(
    value: dict[str, Any], layout: dict[str, Any], ascii_only: bool
) -> None:
    """What is read by the short way, through the reader of JSON, is what the long way gives."""
    data = json.dumps(value, ensure_ascii=ascii_only, **layout).encode()
    assert _outcome(data) == _outcome(b" " + data)  # a blank before it: taken for YAML


def _outcome(data: bytes) -> Any:
    try:
        decoded: Decoded = yaml_decode.decode_yaml(data)
    except DecodeError:
        return "refused"
    return decoded.value, decoded.duplicates
