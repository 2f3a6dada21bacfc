"""Resolution of JSON pointers in a document that is patched step by step.

The input document is never changed: a container is copied once, when it is first written into.
Follows findObject, partialDoc and partialArray of gopkg.in/evanphx/json-patch.v4 patch.go.
"""

from __future__ import annotations

import re

from registry.budget import spend
from registry.codec.go_text import go_quote
from registry.schema.model import Json

_INDEX = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class Pointed:
    """The document while operations run.

    `own` holds the containers that this patch has created, by id (the reference keeps an id from being reused). Only
    they are ever written to; each is reachable by one path only, since `copy` creates new ones that are not in it.
    """

    __slots__ = ("copied_bytes", "own", "root")

    def __init__(self, document: Json) -> None:
        self.root = document
        self.own: dict[int, Json] = {}
        self.copied_bytes = 0

    def find(self, pointer: str) -> tuple[Json, str] | None:
        """The container a pointer ends in, for reading, and the last segment; None where there is none."""
        segments = pointer.split("/")
        if len(segments) < 2:
            return None
        node = self.root
        for segment in segments[1:-1]:
            node = _child(node, _unescape(segment))
            if type(node) is not dict and type(node) is not list:
                return None
        if type(node) is not dict and type(node) is not list:
            return None
        return node, _unescape(segments[-1])

    def find_own(self, pointer: str) -> tuple[Json, str] | None:
        """The same for writing: each container on the path is this patch's own."""
        segments = pointer.split("/")
        if len(segments) < 2:
            return None
        if type(self.root) is not dict and type(self.root) is not list:
            return None
        node = self.root = self._own(self.root)
        for segment in segments[1:-1]:
            name = _unescape(segment)
            child = _child(node, name)
            if type(child) is not dict and type(child) is not list:
                return None
            owned = self._own(child)
            if owned is not child:
                if type(node) is dict:
                    node[name] = owned
                else:
                    node[int(name)] = owned
            node = owned
        return node, _unescape(segments[-1])

    def _own(self, container: Json) -> Json:
        if id(container) in self.own:
            return container
        spend(len(container) >> 3)
        copy = container.copy()
        self.own[id(copy)] = copy
        return copy


class BadIndex(Exception):
    """A segment that does not exist in its container."""


def _unescape(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~") if "~" in segment else segment


def _child(container: Json, name: str) -> Json:
    """The value at `name`, None where there is none; the reason does not matter."""
    if type(container) is dict:
        return container.get(name)
    try:
        return container[index(name, len(container))]
    except BadIndex:
        return None


def get(container: Json, name: str) -> Json:
    if type(container) is dict:
        return container.get(name)
    return container[index(name, len(container))]


def insert(container: Json, name: str, value: Json) -> None:
    if type(container) is dict:
        container[name] = value
    elif name == "-":
        container.append(value)
    else:
        if not _INDEX.fullmatch(name):
            raise BadIndex(f"value was not a proper array index: '{name}': {_not_a_number(name)}")
        # There is one more position than items: "-1" is the end.
        place = _in_range(int(name), len(container) + 1)
        _spend_for_moving(container, place)
        container.insert(place, value)


def delete(container: Json, name: str) -> None:
    if type(container) is list:
        place = index(name, len(container))
        _spend_for_moving(container, place)
        del container[place]
    elif name in container:
        del container[name]
    else:
        raise BadIndex(f"Unable to remove nonexistent key: {name}: missing value")


def _spend_for_moving(container: list[Json], place: int) -> None:
    """All items from a position on are moved in memory, some hundred in 0.1 µs."""
    spend((len(container) - place) >> 7)


def index(name: str, length: int) -> int:
    if not _INDEX.fullmatch(name):
        raise BadIndex(_not_a_number(name))
    return _in_range(int(name), length)


def _in_range(index: int, length: int) -> int:
    if not -length <= index < length:
        raise BadIndex(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _not_a_number(name: str) -> str:
    return f"strconv.Atoi: parsing {go_quote(name)}: invalid syntax"


def copy_value(value: Json, max_bytes: int) -> tuple[Json, int]:
    """A copy that shares no container with `value`, and its approximate size as JSON in bytes.

    Above `max_bytes` the copy is incomplete: the caller rejects it.
    """
    if type(value) is not dict and type(value) is not list:
        return value, _size(value)
    result: Json = type(value)()
    size = 2
    stack: list[tuple[Json, Json]] = [(value, result)]
    while stack:
        source, target = stack.pop()
        for key, member in source.items() if type(source) is dict else enumerate(source):
            size += 1 if type(key) is int else _size(key) + 2
            if type(member) is dict or type(member) is list:
                copy: Json = type(member)()
                size += 2
                stack.append((member, copy))
                member = copy
            else:
                size += _size(member)
            if type(target) is dict:
                target[key] = member
            else:
                target.append(member)
        if size > max_bytes:
            break
    return result, size


def _size(scalar: Json) -> int:
    return len(scalar.encode("utf-8", "surrogatepass")) + 2 if isinstance(scalar, str) else len(str(scalar))
