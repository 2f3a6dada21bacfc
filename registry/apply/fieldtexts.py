"""Path elements as texts: encoding, decoding of clients' fieldsV1, ordering, and printing in messages.

Follows structured-merge-diff fieldpath/{element,serialize,serialize-pe}.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from registry.apply.fieldsets import FieldSet, union
from registry.codec.go_text import go_json, go_number, go_quote
from registry.codec.sorting import sorted_by
from registry.schema.field import MAX_PATH, below
from registry.schema.model import Json

MAX_DEPTH = 200  # of clients' fieldsV1; deeper than any type of types.py

_PLAIN = re.compile(r"[ !#-%'-;=?-\[\]-~]*")  # characters that JSON and Go's HTML-safe JSON do not escape


def paths(fields: FieldSet) -> Iterator[tuple[str, ...]]:
    """The members in kube-apiserver's order: the members of a node, then those below each of its children."""
    stack: list[tuple[tuple[str, ...], FieldSet]] = [((), fields)]
    while stack:
        prefix, node = stack.pop()
        elements = sorted_by([name for name in node if name != "."], _rank)
        for element in elements:
            child = node[element]
            if not child or "." in child:
                yield (*prefix, element)
        stack.extend(((*prefix, element), node[element]) for element in reversed(elements) if node[element])


def _rank(element: str) -> tuple[Any, ...]:
    """Names come first, then keys, set items and indexes; numbers are ordered as numbers. Nested tuples would take
    several times as long to compare."""
    kind, text = element[0], element[2:]
    if kind == "f":
        return 0, text
    if kind == "i":
        return 3, int(text)
    value = json.loads(text)
    if kind == "v":
        return 2, *_value_rank(value)
    return 1, *(part for name in sorted(value) for part in (name, *_value_rank(value[name])))


def _value_rank(value: Json) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, (int, float)):
        return 0, value
    if isinstance(value, str):
        return 1, value
    return 3, go_json(value)


def path_text(path: tuple[str, ...]) -> str:
    """`("f:spec", "f:ports", 'k:{"port":80,"proto":"tcp"}')` gives `.spec.ports[port=80,proto="tcp"]`.

    A path beyond MAX_PATH is cut, for there may be an error about each of thousands of fields below a long name.
    """
    text = ""
    for element in path:
        text = below(text, element_text(element))
    return text


def element_text(element: str) -> str:
    kind, text = element[0], element[2 : MAX_PATH + 3]
    if len(element) > MAX_PATH:  # cut before it is decoded, which would take long
        return f".{text}" if kind == "f" else f"[{text}]"
    if kind == "f":
        return f".{text}"
    if kind == "k":
        return "[" + ",".join(f"{name}={value_text(value)}" for name, value in sorted(json.loads(text).items())) + "]"
    if kind == "v":
        return f"[={value_text(json.loads(text))}]"
    return f"[{text}]"


def value_text(value: Json) -> str:
    """A value inside a path, as kube-apiserver prints it."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return go_number(value)
    if isinstance(value, list):
        return "[" + ",".join(value_text(item) for item in value) + "]"
    return "".join(f"{name}={value_text(member)}" for name, member in sorted(value.items()))


def json_text(value: Json) -> str:
    """A scalar in an element: `"http"`, `80`."""
    kind = type(value)
    if kind is str:
        return _short_text(value) if len(value) <= _SHORT else _text(value)
    return str(value) if kind is int else go_json(value)


def _text(value: str) -> str:
    """Texts that need no escapes, nearly all, bypass the JSON encoder."""
    return f'"{value}"' if _PLAIN.fullmatch(value) else go_json(value)


# The keys of items repeat from object to object, and an apply needs each several times.
_SHORT = 40
_short_text = lru_cache(maxsize=4096)(_text)


class UnreadableFields(Exception):
    """A client's fieldsV1 is not a set of fields."""


def read(fields: Json, depth: int = 0) -> FieldSet:
    """The canonical set of a client's fieldsV1; unknown kinds of elements are dropped, as upstream."""
    if fields is None:
        return {}
    if not isinstance(fields, dict) or depth > MAX_DEPTH:
        raise UnreadableFields
    result: FieldSet = {}
    member = False
    for name, node in fields.items():
        if name == ".":
            member = True
            continue
        element = _canonical(name)
        if element is not None:
            child = read(node, depth + 1)
            if element in result:
                child = union({element: result[element]}, {element: child})[element]
            result[element] = child
    if member and result and depth > 0:
        result["."] = {}
    return result


def _canonical(element: str) -> str | None:
    if len(element) < 2 or element[1] != ":":
        raise UnreadableFields
    kind, text = element[0], element[2:]
    if kind == "f":
        return element
    if kind == "i":
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
            raise UnreadableFields
        return f"i:{int(text)}"
    if kind not in "kv":
        return None
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise UnreadableFields from None
    if kind == "k" and not isinstance(value, dict):
        raise UnreadableFields
    # Keys and set items are scalars; a document here would be repeated in every message.
    if any(isinstance(part, (dict, list)) for part in (value.values() if kind == "k" else (value,))):
        raise UnreadableFields
    return f"{kind}:{go_json(value)}"


def _no_number(name: str) -> None:
    """Python parses NaN and Infinity; JSON has neither."""
    raise ValueError(name)
