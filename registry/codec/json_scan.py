"""The exact JSON scanner: errors with encoding/json's texts, duplicate keys with their paths, any depth up to a limit.

About thirty times slower than the C scanners; json_decode uses it only for what those do not accept. It keeps its own
stack, so that no input can exhaust Python's.

Follows encoding/json of Go 1.25 and later (whose scanner is jsontext), in kube-apiserver's mode.
"""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed leaves it out
from typing import Any

from registry.codec.go_text import go_quote, quote_rune
from registry.codec.json_pieces import decode_utf8
from registry.codec.model import MAX_DEPTH, MAX_STRICT_ERRORS, Decoded, JsonNumberError, JsonSyntaxError

# Maximum characters of a duplicate field's path: a hostile body may have a very long key above many of them.
_MAX_PATH = 10_000

# Possessive, like the others below, so that what is long is read once: 3 million digits without a comma took half a
# second, in which no other thread ran.
_BLANKS = re.compile(r"[ \t\r\n]*+")
# The valid prefix of a string; possessive, so that a long one is scanned once.
_GOOD_PART = re.compile(r'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][-+]?[0-9]++)?")
# The usual content of containers, matched at once: a scalar without escapes, or an empty container, up to the comma.
_SIMPLE = (
    r'(?:"([^"\\\x00-\x1f]*+)"|(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+)'
    r"|(true|false|null|\{\}|\[\]))[ \t\r\n]*+,"
)
_SIMPLE_ITEM = re.compile(r"[ \t\r\n]*+" + _SIMPLE)
_SIMPLE_MEMBER = re.compile(r'[ \t\r\n]*+"([^"\\\x00-\x1f]*+)"[ \t\r\n]*+:[ \t\r\n]*+' + _SIMPLE)
_CUT_HEX = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z")
_UNDECODABLE = re.compile("[\udc80-\udcff]")
# These, and unpaired escaped surrogates: neither is a character.
_SURROGATE = re.compile("[\ud800-\udfff]")
# A substitution of this many characters takes some milliseconds, during which no other thread runs.
_PIECE = 1 << 14
# An escape has six characters at most: a match that ends closer to the end of its piece may have been cut by it.
_ESCAPE = 6
# What an error quotes between double quotation marks, although it is printable.
_QUOTED = re.compile("[ `\ufffd]")
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_WORDS = {"true": True, "false": False, "null": None}
_LITERALS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}

# A step is a member that cannot be skimmed or the end of a container, and takes about 5 µs: a second in total.
# Ordinary bodies are decoded by C scanners; any other one with this many steps was probably made to be expensive.
MAX_SCANNED = 200_000
TOO_COSTLY = (
    f"more than {MAX_SCANNED} values in a text that is not plain JSON: a key is given twice, a text is not "
    "Unicode, or the syntax is wrong"
)

_UNEXPECTED_END = "unexpected end of JSON input"
_VALUE = "looking for beginning of value"
_KEY = "looking for beginning of object key string"


def _replace_surrogates(text: str) -> str:
    """Replaces each surrogate by U+FFFD, in pieces, so that other threads run between them."""
    if len(text) <= _PIECE:
        return _SURROGATE.sub("\ufffd", text)
    return "".join(_SURROGATE.sub("\ufffd", text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))


def _end_of_good_part(text: str, start: int) -> int:
    """Returns where the valid prefix of a string ends, matched in pieces, so that other threads run between them."""
    while True:
        end = min(start + _PIECE, len(text))
        match = _GOOD_PART.match(text, start, end)
        assert match is not None
        if match.end() <= end - _ESCAPE or end == len(text):
            return match.end()
        start = match.end()


def scan(data: bytes, max_depth: int = MAX_DEPTH) -> Decoded:
    return _Scanner(data, max_depth).run()


def patch_syntax_error(data: bytes) -> str | None:
    """Returns why `data` is not JSON, as sigs.k8s.io/json reports it, which kube-apiserver decodes patches with.

    It is a fork of the former encoding/json: it names bytes instead of characters, and where they are in more detail.
    """
    try:
        _PatchScanner(data, MAX_DEPTH).run()
    except JsonSyntaxError as error:
        return str(error)
    except JsonNumberError:
        pass  # well formed
    return None


class _Scanner:
    """One body. Invariant: `containers` and `steps` describe the path from the root to the value being read."""

    def __init__(self, data: bytes, max_depth: int) -> None:
        # Each byte that is not UTF-8 becomes a lone surrogate here, and U+FFFD in a string.
        self.text = decode_utf8(data, "surrogateescape")
        self.is_utf8 = self.text.isascii() or _UNDECODABLE.search(self.text) is None
        self.position = 0
        self.max_depth = max_depth
        self.containers: list[Any] = []
        self.steps: list[str | int] = []  # the key or the index of the value being read in each container
        self.duplicates: dict[str, None] = {}
        self.number_out_of_range = ""

    def run(self) -> Decoded:
        self.skip_blanks()
        result = self.value()
        containers = self.containers
        steps = 0
        while containers:
            steps += 1
            if steps > MAX_SCANNED:
                raise JsonSyntaxError(TOO_COSTLY)
            finished = self.next_member()
            if finished is not None and not containers:
                result = finished
        self.skip_blanks()
        if self.position < len(self.text):
            raise self.syntax_error("after top-level value")
        decoded = Decoded(result, list(self.duplicates))
        if self.number_out_of_range:
            raise JsonNumberError(self.number_out_of_range, decoded)
        return decoded

    # --- structure

    def next_member(self) -> Any:
        """Scans on in the innermost container; when it closes, pops and returns it."""
        container = self.containers[-1]
        closed = self.object_member(container) if isinstance(container, dict) else self.array_item(container)
        if not closed:
            return None
        self.containers.pop()
        self.steps.pop()
        return container

    def object_member(self, container: dict[str, Any]) -> bool:
        self.skip_blanks()
        character = self.peek()
        if self.steps[-1] != "" or container:  # not directly after the opening brace
            if character == "}":
                self.position += 1
                return True
            if character != ",":
                raise self.syntax_error("after object key:value pair")
            self.position += 1
            self.skip_blanks()
            character = self.peek()
        elif character == "}":
            self.position += 1
            return True
        if self.may_skim() and self.simple_members(container):
            self.skip_blanks()
            character = self.peek()
        if character != '"':
            raise self.syntax_error(_KEY)
        key = self.string()
        self.steps[-1] = key
        if key in container:
            self.note_duplicate()
        self.skip_blanks()
        if self.peek() != ":":
            raise self.syntax_error("after object key")
        self.position += 1
        self.skip_blanks()
        container[key] = self.value()
        return False

    def array_item(self, container: list[Any]) -> bool:
        self.skip_blanks()
        character = self.peek()
        if container:
            if character == "]":
                self.position += 1
                return True
            if character != ",":
                raise self.syntax_error("after array element")
            self.position += 1
        elif character == "]":
            self.position += 1
            return True
        if self.may_skim():
            self.simple_items(container)
        self.skip_blanks()
        self.steps[-1] = len(container)
        container.append(None)  # reserves its index, which the paths of duplicates below contain
        container[-1] = self.value()
        return False

    def may_skim(self) -> bool:
        return self.is_utf8 and len(self.containers) < self.max_depth

    def simple_items(self, container: list[Any]) -> None:
        """Consumes items while they are simple and followed by a comma, so that another item must follow."""
        match, text, position = _SIMPLE_ITEM.match, self.text, self.position
        while (token := match(text, position)) is not None:
            container.append(self.simple(token, 1))
            position = token.end()
        self.position = position

    def simple_members(self, container: dict[str, Any]) -> bool:
        """The same for an object; returns whether there were any."""
        match, text, position = _SIMPLE_MEMBER.match, self.text, self.position
        while (token := match(text, position)) is not None:
            key = token[1]
            if key in container:
                self.steps[-1] = key
                self.note_duplicate()
            container[key] = self.simple(token, 2)
            position = token.end()
        is_read = position != self.position
        self.position = position
        return is_read

    def simple(self, token: re.Match[str], first: int) -> Any:
        which = token.lastindex
        if which == first:
            return token[first]
        if which == first + 1:
            return self.to_number(token[first + 1])
        word = token[first + 2]
        return {} if word == "{}" else [] if word == "[]" else _WORDS[word]

    def open(self, container: Any, step: str | int) -> Any:
        if len(self.containers) >= self.max_depth:
            raise JsonSyntaxError("exceeded max depth")
        self.position += 1
        self.containers.append(container)
        self.steps.append(step)
        return container

    def note_duplicate(self) -> None:
        if len(self.duplicates) >= MAX_STRICT_ERRORS:
            return
        path = ""
        for step in self.steps:
            path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
            if len(path) > _MAX_PATH:
                path = path[:_MAX_PATH] + "..."
                break
        self.duplicates[f"duplicate field {go_quote(path)}"] = None

    # --- values

    def value(self) -> Any:
        character = self.peek()
        if character == '"':
            return self.string()
        if character == "{":
            return self.open({}, "")
        if character == "[":
            return self.open([], 0)
        if character in _LITERALS:
            return self.literal(*_LITERALS[character])
        if character == "-" or "0" <= character <= "9":
            return self.number()
        raise self.syntax_error(_VALUE)

    def literal(self, word: str, value: bool | None) -> bool | None:
        for expected in word:
            if self.peek() != expected:
                raise self.syntax_error(f"in literal {word} (expecting '{expected}')")
            self.position += 1
        return value

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.position)
        if match is None:
            self.position += 1  # the minus sign
            self.peek()
            raise self.syntax_error("in numeric literal")
        self.position = match.end()
        self.refuse_cut_number(match)
        return self.to_number(match.group())

    def to_number(self, literal: str) -> int | float:
        if len(literal) <= 20 and literal.lstrip("-").isdigit():
            integer = int(literal)
            if -(1 << 63) <= integer < 1 << 63:
                return integer
        number = float(literal)
        if number in (float("inf"), float("-inf")):
            self.number_out_of_range = self.number_out_of_range or literal
            return 0.0
        return number

    def refuse_cut_number(self, match: re.Match[str]) -> None:
        """Rejects `5.` and `5e`, of which only the 5 matches, by the characters that follow."""
        following = self.text[self.position : self.position + 1]
        if following == "." and match[1] is None and match[2] is None:
            self.position += 1
        elif following in ("e", "E") and match[2] is None:
            self.position += 1
            if self.text[self.position : self.position + 1] in ("+", "-"):
                self.position += 1
        else:
            return
        self.peek()
        raise self.syntax_error("in numeric literal")

    def string(self) -> str:
        """Decodes a string at C speed, however many escapes it has."""
        start = self.position + 1
        self.position = _end_of_good_part(self.text, start)
        character = self.peek()
        if character == "\\":
            raise self.escape_error()
        if character != '"':
            raise self.syntax_error("in string")
        value = self.text[start : self.position]
        self.position += 1
        if "\\" in value:
            value, _ = scanstring(self.text, start)
        return _replace_surrogates(value)

    def escape_error(self) -> JsonSyntaxError:
        """The error of an invalid escape."""
        letter = self.text[self.position + 1 : self.position + 2]
        if not letter or _CUT_HEX.match(self.text, self.position):
            return JsonSyntaxError(_UNEXPECTED_END)
        return self.bad_escape(6 if letter == "u" else 2)

    # --- characters and errors

    def skip_blanks(self) -> None:
        match = _BLANKS.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

    def peek(self) -> str:
        try:
            return self.text[self.position]
        except IndexError:
            raise JsonSyntaxError(_UNEXPECTED_END) from None

    def syntax_error(self, where: str) -> JsonSyntaxError:
        return JsonSyntaxError(f"invalid character {quote_rune(self.peek())} {where}")

    def bad_escape(self, length: int) -> JsonSyntaxError:
        # Go cuts bytes, not characters.
        encoded = self.text[self.position : self.position + length].encode("utf-8", "surrogateescape")
        sequence = encoded[:length].decode("utf-8", "surrogateescape")
        plain = sequence.isprintable() and not _QUOTED.search(sequence)
        quoted = f"`{sequence}`" if plain else go_quote(sequence)
        return JsonSyntaxError(f"invalid escape sequence {quoted} in string")


class _PatchScanner(_Scanner):
    """A scanner with the error texts of sigs.k8s.io/json."""

    def syntax_error(self, where: str) -> JsonSyntaxError:
        self.peek()
        where = self.place(where)
        first = self.text[self.position].encode("utf-8", "surrogateescape")[:1]
        return JsonSyntaxError(f"invalid character {quote_rune(first.decode('latin-1'))} {where}")

    def place(self, where: str) -> str:
        if where == "in string":
            return "in string literal"
        before = self.text[self.position - 1]
        if where == "in numeric literal" and before == ".":
            return "after decimal point in numeric literal"
        if where == "in numeric literal" and (before in "eE" or self.text[self.position - 2] in "eE"):
            return "in exponent of numeric literal"
        return where

    def bad_escape(self, length: int) -> JsonSyntaxError:
        self.position += 1
        if length == 2:
            return self.syntax_error("in string escape code")
        self.position += 1
        while self.peek() in _HEX_DIGITS:
            self.position += 1
        return self.syntax_error("in \\u hexadecimal character escape")
