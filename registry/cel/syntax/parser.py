"""Parses the text of an expression to its syntax tree.

A recursive descent over the grammar of cel-python's `cel.lark` and cel-go's `CEL.g4` (with optional syntax). Operator
precedence is kept on a stack, so that a level of nesting takes three Python frames at most. Macros are expanded during
parsing (macros.py). The parser stops at the first syntax error; diagnosis.py then parses the text again and reports all
syntax errors as cel-go's generated parser does. Other errors (a literal out of range, a bad macro argument) are
collected.

Written by hand after measuring: for `self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas` lark's
LALR parser on cel-python's grammar takes 570 µs without building this tree, and this module 40. The tests compare the
two.

Bounds: MAX_CODE_POINTS of text, MAX_DEPTH of nesting as cel-go counts it, MAX_HEIGHT of the tree, MAX_COPIES by macros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from registry.cel.common.escaping import RESERVED
from registry.cel.syntax import ast
from registry.cel.syntax.ast import (
    Call,
    Expr,
    FieldEntry,
    Ident,
    ListExpr,
    Literal,
    MapEntry,
    MapExpr,
    NodeKind,
    Select,
    Source,
    StructExpr,
)
from registry.cel.syntax.chains import MAX_DEPTH, PRECEDENCE, RECURSION, Chain, Depths, TooDeepError, check_height
from registry.cel.syntax.diagnosis import syntax_errors
from registry.cel.syntax.errors import NO_OFFSET, Issue
from registry.cel.syntax.lexer import TokenStream, tokenize
from registry.cel.syntax.literals import READERS, LiteralError
from registry.cel.syntax.macros import MACROS, Expander, MacroError, TooManyCopiesError
from registry.emulation import emulated

MAX_CODE_POINTS = 100_000  # cel-go's expressionSizeCodePointLimit
MAX_COPIES = 20_000  # of nodes: optMap copies its target, which doubles with each link of a chain

_NUMBERS = frozenset(("INT", "FLOAT"))
_MEMBERS = frozenset((".", "["))

_Entry = TypeVar("_Entry", MapEntry, FieldEntry)


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """`root` is None if there are `issues`; `size` is the approximate number of its nodes."""

    source: Source
    root: Expr | None
    issues: tuple[Issue, ...]
    size: int = 0


def parse(text: str) -> Parsed:
    """Parses `text` to a tree or to issues. Never raises."""
    source = Source.of(text)
    if len(text) > MAX_CODE_POINTS:
        size = f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_CODE_POINTS}"
        return Parsed(source, None, (Issue(NO_OFFSET, size),))
    tokens = tokenize(text)
    if tokens is None:
        return Parsed(source, None, _faults(text))
    parser = _Parser(tokens)
    try:
        root = parser.start()
    except _SyntaxFault:
        return Parsed(source, None, _faults(text))
    except TooDeepError as error:
        return Parsed(source, None, (Issue(NO_OFFSET, str(error)),))
    except (TooManyCopiesError, RecursionError):  # Or the caller has used up most of Python's stack.
        return Parsed(source, None, (Issue(NO_OFFSET, RECURSION),))
    if parser.issues:
        return Parsed(source, None, tuple(parser.issues))
    return Parsed(source, root, (), parser.macros.size)


def _faults(text: str) -> tuple[Issue, ...]:
    # The tests compare both parsers; if they differ nevertheless, the text is still rejected.
    return syntax_errors(text) or (Issue(NO_OFFSET, "Syntax error"),)


class _SyntaxFault(Exception):
    pass


class _Parser:
    """The state of one parse."""

    __slots__ = ("depths", "issues", "kinds", "macros", "offsets", "position", "texts")

    def __init__(self, tokens: TokenStream) -> None:
        self.kinds, self.texts, self.offsets = tokens
        self.position = 0
        self.issues: list[Issue] = []
        self.macros = Expander(MAX_COPIES)
        self.depths = Depths()

    def start(self) -> Expr:
        root = self.expression()
        if self.kinds[self.position] != "EOF":
            raise _SyntaxFault
        if len(self.kinds) > MAX_DEPTH // 2:
            check_height(root)
        return root

    def expression(self) -> Expr:
        """Operands and binary operators, or `condition ? chain : expression`.

        Ternaries nest to the right, so they are a loop: `pending` holds the conditions and values of incomplete ones.
        """
        kinds, offsets = self.kinds, self.offsets
        depth = self.depths.expr
        self.deeper_expression()
        chain = Chain(self.binary, self.depths, self.operand())
        pending: list[tuple[Expr, int, Expr]] = []
        condition: Expr | None = None  # of the ternary whose `:` has not been read yet
        question = 0
        while True:
            kind = kinds[self.position]
            if kind in PRECEDENCE:
                chain.operator(kind, offsets[self.position])
                self.position += 1
                chain.operands.append(self.operand())
                continue
            node = chain.end()
            if kind == "?" and condition is None:
                condition, question = node, offsets[self.position]
            elif condition is not None:
                if kind != ":":
                    raise _SyntaxFault
                pending.append((condition, question, node))
                condition = None
                self.deeper_expression()
            else:
                break
            self.position += 1
            chain = Chain(self.binary, self.depths, self.operand())
        for test, offset, value in reversed(pending):
            node = Call(self.macros.next_id(), offset, ast.CONDITIONAL, (test, value, node))
        self.depths.expr = depth
        return node

    def binary(self, offset: int, function: str, left: Expr, right: Expr) -> Expr:
        return Call(self.macros.next_id(), offset, function, (left, right))

    def deeper_expression(self) -> None:
        self.depths.expr += 1
        if self.depths.expr > MAX_DEPTH:
            raise TooDeepError(RECURSION)

    def operand(self) -> Expr:
        """Signs and a primary with its selections, indexes and calls.

        The primary is read here rather than in a function of its own, which saves a Python frame per level of nesting.
        """
        kinds, offsets = self.kinds, self.offsets
        next_id = self.macros.next_id
        sign, sign_offset, odd = kinds[self.position], offsets[self.position], False
        if sign in ("!", "-"):
            odd = self.signs(sign)
        depth = self.depths.member
        self.depths.member += 1

        kind, offset = kinds[self.position], offsets[self.position]
        node: Expr
        if kind == "ID" or (kind == "." and kinds[self.position + 1] == "ID"):
            name, name_offset = self.name()
            kind, opening = kinds[self.position], offsets[self.position]
            if kind == "(":
                self.position += 1
                known = len(self.issues)
                arguments, _ = self.sequence(")", False)
                if name is None:
                    del self.issues[known:]  # cel-go does not check the arguments of a reserved name.
                    node = self.error_node(name_offset)
                else:
                    node = self.call(opening, name, tuple(arguments), None)
            elif name is None:
                node = self.error_node(name_offset)
            elif kind == "{":
                self.position += 1
                fields = self.entries(self.field_entry, offsets[self.position])
                node = StructExpr(next_id(), opening, name, tuple(fields))
            else:
                node = Ident(next_id(), name_offset, name)
        elif kind == "(":
            self.position += 1
            node = self.expression()
            self.expect(")")
        elif kind == "[":
            self.position += 1
            elements, optional_indices = self.sequence("]", True)
            node = ListExpr(next_id(), offset, tuple(elements), optional_indices)
        elif kind == "{":
            self.position += 1
            node = MapExpr(next_id(), offset, tuple(self.entries(self.map_entry, offset)))
        else:
            node = self.literal(kind, offset)

        if kinds[self.position] in _MEMBERS:
            node = self.members(node)
        self.depths.member = depth
        if odd:
            node = Call(next_id(), sign_offset, ast.LOGICAL_NOT if sign == "!" else ast.NEGATE, (node,))
        return node

    def signs(self, sign: str) -> bool:
        """Reads a run of `!` or `-`, and returns whether it is odd. The `-` of a number belongs to the literal, so that
        the smallest int can be written."""
        start = self.position
        if sign == "-" and self.kinds[start + 1] in _NUMBERS:
            return False
        while self.kinds[self.position] == sign:
            self.position += 1
        return (self.position - start) % 2 == 1

    def members(self, node: Expr) -> Expr:
        """The selections, indexes and calls that follow `node`."""
        kinds, offsets = self.kinds, self.offsets
        next_id = self.macros.next_id
        while True:
            kind, offset = kinds[self.position], offsets[self.position]
            if kind not in _MEMBERS:
                return node
            self.position += 1
            self.deeper_member()
            optional = kinds[self.position] == "?"
            if optional:
                self.position += 1
            if kind == "[":
                key = self.expression()
                self.expect("]")
                node = Call(next_id(), offset, ast.OPT_INDEX if optional else ast.INDEX, (node, key))
                continue
            name_offset, simple = offsets[self.position], kinds[self.position] == "ID"
            member = self.member_name(name_offset)
            if optional:
                quoted = Literal(next_id(), name_offset, NodeKind.STRING, member)
                node = Call(next_id(), offset, ast.OPT_SELECT, (node, quoted))
            elif simple and kinds[self.position] == "(":
                opening = offsets[self.position]
                self.position += 1
                arguments, _ = self.sequence(")", False)
                node = self.call(opening, member, tuple(arguments), node)
            else:
                node = Select(next_id(), offset, node, member)

    def deeper_member(self) -> None:
        self.depths.member += 1
        if self.depths.member > MAX_DEPTH:
            raise TooDeepError(RECURSION)

    def member_name(self, offset: int) -> str:
        kind, text = self.kinds[self.position], self.texts[self.position]
        if kind == "ESC":
            if not emulated().is_1_37:  # cel-go 0.29 reads the escaped names of cel-spec
                self.issues.append(Issue(offset, "unsupported syntax: '`'"))
            text = text[1:-1]
        elif kind != "ID":
            raise _SyntaxFault
        self.position += 1
        return text

    def name(self) -> tuple[str | None, int]:
        """The name at the start of an identifier, a call or a message, with its leading dot; and its offset.

        Dots belong to the name only if a `{` follows: `a.b.C{}`. None means a reserved name.
        """
        kinds, texts = self.kinds, self.texts
        start = self.offsets[self.position]
        dot = ""
        if kinds[self.position] == ".":
            dot = "."
            self.position += 1
        at = ahead = self.position
        while kinds[ahead + 1] == "." and kinds[ahead + 2] == "ID":
            ahead += 2
        if kinds[ahead + 1] == "{":
            self.position = ahead + 1
            return dot + "".join(texts[at : ahead + 1]), start
        self.position += 1
        if texts[at] in RESERVED:
            self.issues.append(Issue(start, f"reserved identifier: {texts[at]}"))
            return None, start
        return dot + texts[at], self.offsets[at]

    def call(self, offset: int, function: str, arguments: tuple[Expr, ...], target: Expr | None) -> Expr:
        """A call, or the expansion of the macro with this name and number of arguments."""
        macro = MACROS.get((function, len(arguments), target is not None))
        if macro is not None:
            self.macros.offset = offset
            try:
                return macro(self.macros, target, arguments)
            except MacroError as error:
                self.issues.append(Issue(error.offset, error.message))
                return self.error_node(offset)
        return Call(self.macros.next_id(), offset, function, arguments, target)

    def error_node(self, offset: int) -> Expr:
        """The placeholder of an expression with an issue, which no macro accepts as an argument."""
        return Literal(self.macros.next_id(), offset, NodeKind.NULL, None)

    def sequence(self, closing: str, is_list: bool) -> tuple[list[Expr], frozenset[int]]:
        """Expressions up to `closing`. In a list each may be marked with `?`, and a trailing comma is allowed."""
        kinds = self.kinds
        elements: list[Expr] = []
        optional: set[int] = set()
        if is_list and kinds[self.position] == "," and kinds[self.position + 1] == closing:
            self.position += 1
        if kinds[self.position] == closing:
            self.position += 1
            return elements, frozenset()
        while True:
            if is_list and kinds[self.position] == "?":
                optional.add(len(elements))
                self.position += 1
            elements.append(self.expression())
            kind = kinds[self.position]
            self.position += 1
            if kind == closing:
                return elements, frozenset(optional)
            if kind != ",":
                raise _SyntaxFault
            if is_list and kinds[self.position] == closing:
                self.position += 1
                return elements, frozenset(optional)

    def entries(self, read: Callable[[bool, int], _Entry], offset: int) -> list[_Entry]:
        """Entries of a map or message up to `}`; a trailing comma is allowed."""
        kinds = self.kinds
        entries: list[_Entry] = []
        if kinds[self.position] == "," and kinds[self.position + 1] == "}":
            self.position += 1
        while kinds[self.position] != "}":
            optional = kinds[self.position] == "?"
            if optional:
                self.position += 1
            self.macros.next_id()  # it counts as a node
            entries.append(read(optional, offset))
            if kinds[self.position] == ",":
                self.position += 1
            elif kinds[self.position] != "}":
                raise _SyntaxFault
        self.position += 1
        return entries

    def map_entry(self, optional: bool, _: int) -> MapEntry:
        key = self.expression()
        colon = self.offsets[self.position]
        self.expect(":")
        return MapEntry(colon, key, self.expression(), optional)

    def field_entry(self, optional: bool, offset: int) -> FieldEntry:
        name = self.member_name(offset)
        colon = self.offsets[self.position]
        self.expect(":")
        return FieldEntry(colon, name, self.expression(), optional)

    def literal(self, kind: str, offset: int) -> Expr:
        text = self.texts[self.position]
        self.position += 1
        if kind == "-":
            kind = self.kinds[self.position]
            if kind not in _NUMBERS:
                raise _SyntaxFault
            text += self.texts[self.position]
            self.position += 1
        reader = READERS.get(kind)
        if reader is None:
            raise _SyntaxFault
        literal_kind, read = reader
        try:
            value = read(text)
        except LiteralError as error:
            self.issues.append(Issue(offset, str(error)))
            value = None
        return Literal(self.macros.next_id(), offset, literal_kind, value)

    def expect(self, kind: str) -> None:
        if self.kinds[self.position] != kind:
            raise _SyntaxFault
        self.position += 1
