"""The simple tests of the CEL specification: reading google/cel-spec's `tests/simple/testdata/*.textproto`.

Only what needs no protobuf messages is turned into cases; the rest is counted as not applicable. The files are not ours
to keep: they are read from where a checkout of the specification is (see `folder`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.cel.common import types
from registry.cel.common.maps import Map
from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.types import Type
from registry.cel.common.values import TypeValue as TypeValue
from registry.cel.common.values import Uint, Value

Message = dict[str, list[Any]]  # each field with all its values, scalars or Messages

# Suites of libraries that Kubernetes does not have, or that are about messages alone.
LEFT_OUT = {
    "bindings_ext",
    "block_ext",
    "encoders_ext",
    "enums",
    "math_ext",
    "network_ext",
    "proto2",
    "proto2_ext",
    "proto3",
    "unknowns",
    "wrappers",
}


def folder() -> Path | None:
    """Where the specification is: $CEL_SPEC, or `shared/cel-spec` beside the checkout; None when it is nowhere."""
    beside = Path(__file__).parents[3] / "shared" / "cel-spec"
    for root in (os.environ.get("CEL_SPEC"), beside):
        if root and (Path(root) / "tests/simple/testdata").is_dir():
            return Path(root) / "tests/simple/testdata"
    return None


_MESSAGES = re.compile(r"\bproto[23]\b|TestAllTypes|google\.protobuf\.(?!Timestamp|Duration)|GlobalEnum|cel\.expr|`")


class NotApplicableError(Exception):
    """The case needs messages, or something else that JSON and Kubernetes do not have."""


@dataclass(frozen=True)
class Case:
    """`expected` is a value, or None with `fails` when the expression must fail."""

    name: str
    expression: str
    variables: dict[str, Type]
    bindings: dict[str, Value]
    expected: Value
    fails: bool


def cases(suite: Path) -> Iterator[Case | str]:
    """The cases of one file; a name stands for a case that does not apply."""
    document = parse_text(suite.read_text())
    for section in document["section"]:
        for test in section.get("test", []):
            name = f"{suite.stem}/{section['name'][0]}/{_text(test['name'][0])}"
            try:
                yield _case(name, test)
            except NotApplicableError:
                yield name


def _case(name: str, test: Message) -> Case:
    if any(key in test for key in ("container", "disable_macros", "unknown", "any_unknowns", "check_only")):
        raise NotApplicableError
    expression = _text(test["expr"][0])
    if _MESSAGES.search(expression):
        raise NotApplicableError
    variables = {}
    for declaration in test.get("type_env", []):
        if "ident" not in declaration:
            raise NotApplicableError
        variables[_text(declaration["name"][0])] = _type(declaration["ident"][0]["type"][0])
    bindings = {
        _text(entry["key"][0]): _value(entry["value"][0]["value"][0])
        for entry in test.get("bindings", [])
        if "value" in entry["value"][0]
    }
    if "eval_error" in test or "any_eval_errors" in test:
        return Case(name, expression, variables, bindings, None, True)
    if "typed_result" in test:
        result = test["typed_result"][0].get("result")
        if result is None:
            raise NotApplicableError
        return Case(name, expression, variables, bindings, _value(result[0]), False)
    return Case(name, expression, variables, bindings, _value(test["value"][0]) if "value" in test else True, False)


_PRIMITIVES = {
    "BOOL": types.BOOL,
    "INT64": types.INT,
    "UINT64": types.UINT,
    "DOUBLE": types.DOUBLE,
    "STRING": types.STRING,
    "BYTES": types.BYTES,
}


def _type(message: Message) -> Type:
    if "primitive" in message:
        return _PRIMITIVES[message["primitive"][0]]
    if "list_type" in message:
        return types.list_of(_type(message["list_type"][0]["elem_type"][0]))
    if "map_type" in message:
        entry = message["map_type"][0]
        return types.map_of(_type(entry["key_type"][0]), _type(entry["value_type"][0]))
    if "dyn" in message:
        return types.DYN
    if "well_known" in message and message["well_known"][0] in ("TIMESTAMP", "DURATION"):
        return types.TIMESTAMP if message["well_known"][0] == "TIMESTAMP" else types.DURATION
    raise NotApplicableError


def _value(message: Message) -> Value:
    kind, values = next(iter(message.items()))
    content = values[0]
    match kind:
        case "int64_value":
            return int(content)
        case "uint64_value":
            return Uint(int(content))
        case "double_value":
            return float(content)
        case "bool_value":
            return content == "true"
        case "string_value":
            return _text(content)
        case "bytes_value":
            return content.encode("latin-1")
        case "null_value":
            return None
        case "type_value":
            return TypeValue(_text(content))
        case "list_value":
            return [_value(item) for item in content.get("values", [])]
        case "map_value":
            return Map.of([(_value(e["key"][0]), _value(e["value"][0])) for e in content.get("entries", [])])
        case "object_value":
            return _object(content)
    raise NotApplicableError


def _object(message: Message) -> Value:
    for name, content in message.items():
        nanoseconds = int(content[0].get("seconds", ["0"])[0]) * 10**9 + int(content[0].get("nanos", ["0"])[0])
        if name.endswith("google.protobuf.Timestamp]"):
            return Timestamp(nanoseconds)
        if name.endswith("google.protobuf.Duration]"):
            return Duration(nanoseconds)
    raise NotApplicableError


# --- the text format of protocol buffers

_TOKEN = re.compile(
    r"""\s*(?:\#[^\n]*\s*)*
                    ((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')    # a string
                    |\[[^\]"']*/[^\]]*\]                         # the name of an extension
                    |[{}<>:,;\[\]]
                    |[^\s{}<>:,;\[\]"'#]+)""",
    re.VERBOSE,
)


def parse_text(text: str) -> Message:
    tokens = [match[1] for match in _TOKEN.finditer(text.rstrip())]
    message, end = _message(tokens, 0, "")
    assert end == len(tokens)
    return message


def _message(tokens: list[str], position: int, closing: str) -> tuple[Message, int]:
    message: Message = {}
    while position < len(tokens) and tokens[position] != closing:
        if tokens[position] in ",;":
            position += 1
            continue
        name = tokens[position]
        position += 1
        if tokens[position] == ":":
            position += 1
        if tokens[position] == "[":
            position += 1
            while tokens[position] != "]":
                value, position = _scalar_or_message(tokens, position)
                message.setdefault(name, []).append(value)
                if tokens[position] == ",":
                    position += 1
            position += 1
            continue
        value, position = _scalar_or_message(tokens, position)
        message.setdefault(name, []).append(value)
    return message, position + 1 if closing else position


def _scalar_or_message(tokens: list[str], position: int) -> tuple[Any, int]:
    token = tokens[position]
    if token in "{<":
        return _message(tokens, position + 1, "}" if token == "{" else ">")
    if token[0] not in "\"'":
        return token, position + 1
    parts = []
    while position < len(tokens) and tokens[position][0] in "\"'":
        parts.append(tokens[position][1:-1])
        position += 1
    return _unescape("".join(parts)), position


_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def _unescape(text: str) -> str:
    """The bytes of a string, one character a byte."""

    def replace(match: re.Match[str]) -> str:
        body = match[1]
        if body[0] in "xX":
            return chr(int(body[1:], 16))
        if body[0] in "01234567":
            return chr(int(body, 8))
        if body[0] in "uU" and len(body) > 1:
            return chr(int(body[1:], 16)).encode().decode("latin-1")
        return _SIMPLE.get(body, body)

    return _ESCAPE.sub(replace, text.encode().decode("latin-1"))


def _text(content: str) -> str:
    return content.encode("latin-1").decode()
