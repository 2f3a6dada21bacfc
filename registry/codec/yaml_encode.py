"""Encodes plain values as kube-apiserver's YAML: sorted keys, two blanks, lists not indented, folded at 80 columns.

libyaml writes the text (Go's emitter is a translation of it). The styles are chosen here as in yaml.v2: multi-line
strings as literal blocks, strings that would be parsed as another type in double quotes. Values in OpenAPI documents
are written as by yaml.v3 from the nodes of a JSON document (`NODES`).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final

from yaml import events
from yaml._yaml import CEmitter

from registry.codec.go_text import go_float, go_g, whole_number
from registry.codec.yaml_scalar import is_timestamp, resolve_plain

_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z")
# Bounded because Python converts long integers slowly; keys almost always differ before that.
_DIGITS = re.compile(r"[0-9]{1,18}")
_NO_TAG = (True, True)
# Other versions of YAML read them as booleans.
_TEXTS_OF_V3 = frozenset("y Y yes Yes YES n N no No NO on On ON off Off OFF".split())


@dataclass(frozen=True, slots=True)
class Dialect:
    """`reads_as_text` says which strings need no quotes."""

    width: int
    sorted_keys: Callable[[dict[str, Any]], list[str]]
    number: Callable[[float], str]
    reads_as_text: Callable[[str], bool]


def encode_yaml(value: Any, dialect: Dialect | None = None) -> bytes:
    """`{"b": "1", "a": ["x"]}` gives `a:\\n- x\\nb: "1"\\n`."""
    dialect = dialect or YAML_V2
    stream = io.BytesIO()
    emitter = CEmitter(stream, encoding="utf-8", allow_unicode=True, width=dialect.width)
    emitter.emit(events.StreamStartEvent(encoding="utf-8"))
    emitter.emit(events.DocumentStartEvent(explicit=False))
    for event in _events(value, dialect):
        emitter.emit(event)
    emitter.emit(events.DocumentEndEvent(explicit=False))
    emitter.emit(events.StreamEndEvent())
    return stream.getvalue()


def _events(value: Any, dialect: Dialect) -> Iterator[events.Event]:
    """Depth first on a stack, so that any depth that JSON allows can be encoded."""
    stack: list[Iterator[Any]] = [iter((value,))]
    ends: list[events.Event] = []
    while stack:
        for member in stack[-1]:
            if isinstance(member, dict):
                yield events.MappingStartEvent(None, None, True, flow_style=not member)
                stack.append(_pairs(member, dialect))
                ends.append(events.MappingEndEvent())
                break
            if isinstance(member, list | tuple):
                yield events.SequenceStartEvent(None, None, True, flow_style=not member)
                stack.append(iter(member))
                ends.append(events.SequenceEndEvent())
                break
            yield _scalar(member, dialect)
        else:
            stack.pop()
            if ends:
                yield ends.pop()


def _pairs(value: dict[str, Any], dialect: Dialect) -> Iterator[Any]:
    for key in dialect.sorted_keys(value):
        yield key
        yield value[key]


def _scalar(value: Any, dialect: Dialect) -> events.Event:
    if isinstance(value, str):
        return _text(value, dialect)
    if value is None:
        text = "null"
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = dialect.number(value)
    else:
        text = str(value)
    return events.ScalarEvent(None, None, _NO_TAG, text, style="")


def _number(value: float) -> str:
    """A number after Go's conversion through JSON: whole ones below 2^64 are integers."""
    return str(whole_number(value)) if value.is_integer() and abs(value) < 1 << 64 else go_g(value)


def _text(value: str, dialect: Dialect) -> events.Event:
    if "\n" in value:
        style = "|"
    else:
        style = "" if dialect.reads_as_text(value) else '"'
    return events.ScalarEvent(None, None, _NO_TAG, value, style=style)


def _reads_as_text(value: str) -> bool:
    return isinstance(resolve_plain(value), str) and not is_timestamp(value) and not _SEXAGESIMAL.match(value)


def _reads_as_text_in_v3(value: str) -> bool:
    return value in _TEXTS_OF_V3 or (isinstance(resolve_plain(value), str) and not is_timestamp(value))


def _sorted_keys(value: dict[str, Any]) -> list[str]:
    if all(map(str.isalpha, value)):
        return sorted(value)
    return sorted(value, key=cmp_to_key(_compare))


def _compare(a: str, b: str) -> int:
    """The order of yaml.v2: digits before letters, and runs of digits by their value (`a2` before `a10`)."""
    if a == b:
        return 0
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), -1)
    if at < 0:
        return -1 if len(a) < len(b) else 1
    x, y = a[at], b[at]
    after_digit = at > 0 and a[at - 1].isdigit()
    if x.isalpha() and y.isalpha():
        less = x < y
    elif x.isalpha() or y.isalpha():
        less = x.isalpha() if after_digit else y.isalpha()
    else:
        less = _number_key(a, at, x, y) < _number_key(b, at, x, y)
    return -1 if less else 1


def _number_key(text: str, at: int, x: str, y: str) -> tuple[int, int, str]:
    """The number that starts at the difference, its length, and its first character."""
    digits = _DIGITS.match(text, at)
    run = digits.group() if digits is not None else ""
    before = text[:at]
    led = "0" in (x, y) and before[len(before.rstrip("0123456789")) :].strip("0") != ""
    return int(f"{int(led)}{run}"), len(run), text[at]


YAML_V2: Final = Dialect(80, _sorted_keys, _number, _reads_as_text)
NODES: Final = Dialect(-1, sorted, go_float, _reads_as_text_in_v3)
