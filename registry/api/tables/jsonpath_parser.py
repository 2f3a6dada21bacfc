"""The parser of Kubernetes' JSONPath templates.

As lenient and as odd as the reference: `['a.b']` means `.a.b` (a dot in a key is written `a\\.b`), brackets end at the
first `]`, and quotes decide where a filter ends. Follows client-go util/jsonpath/parser.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Far beyond any real path. Bounds the work and the recursion, as nested parts are shorter than the whole.
MAX_PATH_LENGTH = 8192
_MAX_NESTING = 20

_DICT_KEY = re.compile(r"'([^']*)'\Z")
_SLICE = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?\Z")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)\Z")
_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_MAX_INDEX_DIGITS = 18


class JsonPathError(ValueError):
    """A path that cannot be parsed, or cannot be evaluated on a value."""


@dataclass(frozen=True, slots=True)
class ArrayNode:
    """`[a:b:c]`; `end` None is the length. `derived` says that a single index was given."""

    start: int
    end: int | None
    step: int
    derived: bool


@dataclass(frozen=True, slots=True)
class FilterNode:
    """`[?(left operator right)]`; the operator is `exists` if there is no comparison."""

    left: tuple[PathNode, ...]
    operator: str
    right: tuple[PathNode, ...]


@dataclass(frozen=True, slots=True)
class PathNode:
    """`kind` is field, wildcard, recursive, slice, filter, union, text, constant or identifier."""

    kind: str
    text: str = ""
    slice: ArrayNode | None = None
    filter: FilterNode | None = None
    branches: tuple[tuple[PathNode, ...], ...] = ()
    constant: int | float | bool = 0


def parse(template: str, nesting: int = 0) -> list[tuple[PathNode, ...]]:
    """Returns the actions `{...}` of a template, and the text between them as text nodes, in order."""
    if len(template) > MAX_PATH_LENGTH or nesting > _MAX_NESTING:
        raise JsonPathError("path too long")
    parts: list[tuple[PathNode, ...]] = []
    position = 0
    while position < len(template):
        opening = template.find("{", position)
        if opening != position:
            end = len(template) if opening < 0 else opening
            parts.append((PathNode("text", template[position:end]),))
            position = end
            continue
        action = _Action(template, opening + 1, nesting)
        parts.append(tuple(action.nodes()))
        position = action.position
    return parts


def _parse_action(text: str, nesting: int) -> tuple[PathNode, ...]:
    return parse(f"{{{text}}}", nesting + 1)[0]


class _Action:
    """The inside of one pair of braces; `position` is after what has been read."""

    def __init__(self, text: str, position: int, nesting: int) -> None:
        self.text = text
        self.position = position
        self.nesting = nesting

    def nodes(self) -> list[PathNode]:
        nodes: list[PathNode] = []
        while True:
            text, position = self.text, self.position
            if text.startswith("}", position):
                self.position += 1
                return nodes
            if text.startswith("[?(", position):
                nodes.append(self.filter())
            elif text.startswith("..", position):
                self.recursive(nodes)
            else:
                self.other(nodes)

    def other(self, nodes: list[PathNode]) -> None:
        character = self.next()
        if not character or character in "\r\n":
            raise JsonPathError("unclosed action")
        if character in " @$":
            return
        if character == "[":
            nodes.extend(self.brackets())
        elif character in "\"'":
            nodes.append(PathNode("text", self.quote(character)))
        elif character == ".":
            nodes.append(self.field())
        elif character in "+-" or character.isdigit():
            self.position -= 1
            nodes.append(self.number())
        elif character == "_" or character.isalpha():
            self.position -= 1
            nodes.append(self.identifier())
        else:
            raise JsonPathError(f"unrecognized character in action: U+{ord(character):04X} '{character}'")

    def next(self) -> str:
        character = self.text[self.position : self.position + 1]
        self.position += len(character)
        return character

    def recursive(self, nodes: list[PathNode]) -> None:
        if nodes and nodes[-1].kind == "recursive":
            raise JsonPathError("invalid multiple recursive descent")
        self.position += 2
        nodes.append(PathNode("recursive"))
        following = self.text[self.position : self.position + 1]
        if following == "_" or following.isalnum():
            nodes.append(self.field())

    def field(self) -> PathNode:
        """Reads up to a terminator without a backslash before it; removes backslashes."""
        start = self.position
        while (character := self.next()) and character not in _TERMINATORS:
            if character == "\\":
                self.next()
        if character:
            self.position -= 1
        name = self.text[start : self.position]
        return PathNode("wildcard") if name == "*" else PathNode("field", name.replace("\\", ""))

    def identifier(self) -> PathNode:
        start = self.position
        while (character := self.next()) and character not in _TERMINATORS:
            pass
        if character:
            self.position -= 1
        word = self.text[start : self.position]
        return (
            PathNode("constant", constant=word == "true") if word in ("true", "false") else PathNode("identifier", word)
        )

    def number(self) -> PathNode:
        start = self.position
        if self.text[start] in "+-":
            self.position += 1
        while (character := self.next()) and (character == "." or character.isdigit()):
            pass
        if character:
            self.position -= 1
        literal = self.text[start : self.position]
        try:
            integer = int(literal) if len(literal) <= _MAX_INDEX_DIGITS and "." not in literal else None
            return PathNode("constant", constant=float(literal) if integer is None else integer)
        except ValueError as error:
            raise JsonPathError(f"cannot parse number {literal}") from error

    def quote(self, quote: str) -> str:
        start = self.position
        while True:
            character = self.next()
            if not character or character == "\n":
                raise JsonPathError("unterminated quoted string")
            if character == quote and self.text[self.position - 2] != "\\":
                break
        return _unquote(self.text[start : self.position - 1], quote)

    def brackets(self) -> list[PathNode]:
        start = self.position
        end = self.text.find("]", start)
        if end < 0 or "\n" in self.text[start:end]:
            raise JsonPathError("unterminated array")
        self.position = end + 1
        inside = self.text[start:end]
        if inside == "*":
            inside = ":"
        parts = inside.split(",")
        if len(parts) > 1:
            branches = tuple(_parse_action(f"[{part.strip(' ')}]", self.nesting) for part in parts)
            return [PathNode("union", branches=branches)]
        key = _DICT_KEY.match(inside)
        if key is not None:
            return list(_parse_action(f".{key[1]}", self.nesting))
        return [PathNode("slice", slice=_slice(inside))]

    def filter(self) -> PathNode:
        start = self.position = self.position + 3
        quote, closed = "", False
        while True:
            character = self.next()
            if not character or character == "\n":
                raise JsonPathError("unterminated filter")
            if character in "\"'":
                if not quote:
                    quote = character
                elif character == quote and self.text[self.position - 2] != "\\":
                    closed = True
            elif character == ")" and bool(quote) == closed:
                break
        condition = self.text[start : self.position - 1]
        if self.next() != "]":
            raise JsonPathError("unclosed array expect ]")
        comparison = _COMPARISON.match(condition)
        if comparison is None:
            return PathNode("filter", filter=FilterNode(_parse_action(condition, self.nesting), "exists", ()))
        left, operator, right = comparison.groups()
        return PathNode(
            "filter", filter=FilterNode(_parse_action(left, self.nesting), operator, _parse_action(right, self.nesting))
        )


def _slice(text: str) -> ArrayNode:
    match = _SLICE.match(text)
    if match is None or any(len(part or "") > _MAX_INDEX_DIGITS for part in match.groups()):
        raise JsonPathError(f"invalid array index {text}")
    start = _index(match[1]) or 0
    step = _index((match[3] or ":")[1:])
    if match[2] is None:
        return ArrayNode(start, start + 1, 1 if step is None else step, derived=True)
    return ArrayNode(start, _index(match[2][1:]), 1 if step is None else step, derived=False)


def _index(text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise JsonPathError(f"array index {text} is not a number") from error


_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))|\\\Z", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}


def _unquote(text: str, quote: str) -> str:
    def literal(match: re.Match[str]) -> str:
        digits = match[1] or match[2] or match[3]
        code = int(digits, 16) if digits else int(match[4], 8) if match[4] else -1
        if code >= 0:
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                raise JsonPathError(f"unquote string {quote}{text}{quote} error invalid syntax")
            return chr(code)
        if match[5] == quote:
            return quote
        if match[5] not in _LETTERS:
            raise JsonPathError(f"unquote string {quote}{text}{quote} error invalid syntax")
        return _LETTERS[match[5]]

    return _ESCAPE.sub(literal, text) if "\\" in text else text
