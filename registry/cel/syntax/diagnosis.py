"""Reports the syntax errors of a text that does not parse, as cel-go's generated parser does.

cel-go's messages are those of ANTLR's runtime, which repairs the text while parsing: it deletes or inserts a single
token if that helps, and otherwise skips to a token at which some active rule can continue. This module therefore parses
a text that parser.py has rejected once more, rule by rule like the generated code, with the same sets of expected
tokens and the same recovery strategy, and collects the errors. It builds no tree.

The rules of the grammar are here, the parsing and recovery in recovery.py.

Follows cel-go parser/gen/CEL.g4 at v0.26, as ANTLR generates code from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from registry.cel.syntax.errors import Issue
from registry.cel.syntax.recovery import END, ONLY_END, GiveUp, Kinds, Mismatch, NoAlternative, Reader, Rule, kinds

_LITERALS: Final = kinds("INT", "UINT", "FLOAT", "STRING", "BYTES", "true", "false", "null")
_MEMBER: Final = _LITERALS | kinds("[", "{", "(", ".", "-", "ID")
_EXPR: Final = _MEMBER | kinds("!")
_NAME: Final = kinds("ID", "ESC")
_RELATIONS: Final = kinds("==", "!=", "in", "<", "<=", ">=", ">")
_PRODUCTS: Final = kinds("*", "/", "%")
_SUMS: Final = kinds("+", "-")
_AFTER_RELATION: Final = _RELATIONS | ONLY_END
_AFTER_CALC: Final = _PRODUCTS | _SUMS | ONLY_END
_AFTER_MEMBER: Final = kinds(".", "[", END)
_AFTER_ELEMENT: Final = kinds(",", END)


def syntax_errors(text: str) -> tuple[Issue, ...]:
    """The syntax errors of `text`; none if it is valid."""
    reader = Reader(text)
    try:
        reader.run(_start(reader))
    except GiveUp:
        pass
    return tuple(reader.issues)


def _recovering(rule: Callable[[Reader], Rule]) -> Callable[[Reader], Rule]:
    """A rule that recovers from its errors, as generated code does at the end of each."""

    @functools.wraps(rule)
    def run(reader: Reader) -> Rule:
        try:
            yield from rule(reader)
        except (Mismatch, NoAlternative) as fault:
            reader.recover(fault)

    return run


@_recovering
def _start(reader: Reader) -> Rule:
    yield _expr(reader), kinds("EOF")
    reader.match("EOF", ONLY_END, "start")


def _expr(reader: Reader) -> Rule:
    reader.enter("expr")
    try:
        yield _logic(reader, "||"), kinds("?", END)
        if reader.kind == "?":
            reader.match("?", _EXPR, "expr ?")
            yield _logic(reader, "||"), kinds(":")
            reader.match(":", _EXPR, "expr :")
            yield _expr(reader), ONLY_END
    except (Mismatch, NoAlternative) as fault:
        reader.recover(fault)
    reader.leave("expr")


def _logic(reader: Reader, operator: str) -> Rule:
    """conditionalOr and conditionalAnd. They never fail, since any token may follow an operand."""
    follow = kinds(operator, END)
    while True:
        yield (_logic(reader, "&&") if operator == "||" else _relation(reader)), follow
        if reader.kind != operator:
            return
        reader.match(operator, _EXPR, operator)


def _relation(reader: Reader, right: bool = False) -> Rule:
    """A right operand does not include the relations that follow, which associate to the left."""
    reader.enter("relation")
    levels = 1
    yield _calc(reader, 0), _AFTER_RELATION
    while not right and reader.kind in _RELATIONS:
        reader.enter("relation")
        levels += 1
        reader.match(reader.kind, _EXPR, "relation")
        yield _relation(reader, True), _AFTER_RELATION
    reader.leave("relation", levels)


def _calc(reader: Reader, precedence: int) -> Rule:
    reader.enter("calc")
    levels = 1
    yield _unary(reader), _AFTER_CALC
    while True:
        kind = reader.kind
        if kind in _PRODUCTS and precedence <= 2:
            tighter = 3
        elif kind in _SUMS and precedence <= 1:
            tighter = 2
        else:
            break
        reader.enter("calc")
        levels += 1
        reader.match(kind, _EXPR, "calc")
        yield _calc(reader, tighter), _AFTER_CALC
    reader.leave("calc", levels)


@_recovering
def _unary(reader: Reader) -> Rule:
    reader.sync(_EXPR, "unary")
    kind = reader.kind
    if kind == "!":
        while True:
            reader.match("!", _EXPR, "unary !")
            reader.sync_loop(_EXPR)
            if reader.kind != "!":
                break
    elif kind == "-" and reader.ahead(1) not in ("INT", "FLOAT"):
        _require(reader, "unary", _MEMBER)
        while True:
            reader.match("-", _MEMBER, "unary -")
            reader.sync_loop(_MEMBER)
            if reader.kind != "-":
                break
            _require(reader, "unary -", _MEMBER)
    elif kind not in _EXPR:
        raise NoAlternative("unary", reader.position, reader.position)
    yield _member(reader), ONLY_END


def _require(reader: Reader, state: str, expected: Kinds) -> None:
    """Checks the token after the current one, where choosing an alternative takes two. Raises NoAlternative."""
    if reader.ahead(1) not in expected:
        end = min(reader.position + 1, len(reader.kinds) - 1)
        raise NoAlternative(state, reader.position, end)


def _member(reader: Reader) -> Rule:
    reader.enter("member")
    levels = 1
    try:
        yield _primary(reader), _AFTER_MEMBER
        while reader.kind in (".", "["):
            if reader.kind == ".":
                _require(reader, "member .", kinds("?", "ID", "ESC"))
            reader.enter("member")
            levels += 1
            if reader.kind == "[":
                reader.match("[", _EXPR, "member [")
                yield from _optional(reader, _EXPR, "member [?")
                yield _expr(reader), kinds("]")
                reader.match("]", _AFTER_MEMBER, "member ]")
            elif reader.ahead(1) == "ID" and reader.ahead(2) == "(":
                reader.match(".", kinds("ID"), "member .")
                reader.match("ID", kinds("("), "member name")
                yield from _arguments(reader, _AFTER_MEMBER, "member")
            else:
                reader.match(".", _NAME, "member .")
                yield from _optional(reader, _NAME, "member .?")
                yield _name(reader), _AFTER_MEMBER
    except (Mismatch, NoAlternative) as fault:
        reader.recover(fault)
    reader.leave("member", levels)


def _optional(reader: Reader, behind: Kinds, state: str) -> Rule:
    """An optional `?`; part of the enclosing rule."""
    reader.sync(behind | kinds("?"), state)
    if reader.kind == "?":
        reader.match("?", behind, state)
    yield from ()


def _arguments(reader: Reader, after: Kinds, state: str) -> Rule:
    """`(a, b)`; part of the enclosing rule."""
    reader.match("(", _EXPR | kinds(")"), f"{state} (")
    reader.sync(_EXPR | kinds(")"), f"{state} arguments")
    if reader.kind in _EXPR:
        yield _expr_list(reader), kinds(")")
    reader.match(")", after, f"{state} )")


def _expr_list(reader: Reader) -> Rule:
    while True:
        yield _expr(reader), _AFTER_ELEMENT
        if reader.kind != ",":
            return
        reader.match(",", _EXPR, "exprList")


@_recovering
def _name(reader: Reader) -> Rule:
    reader.sync(_NAME, "escapeIdent")
    if reader.kind not in _NAME:
        raise NoAlternative("escapeIdent", reader.position, reader.position)
    reader.match(reader.kind, ONLY_END, "escapeIdent")
    yield from ()


@_recovering
def _primary(reader: Reader) -> Rule:
    reader.sync(_MEMBER, "primary")
    kind = reader.kind
    if kind == ".":
        _require(reader, "primary", kinds("ID"))
    if kind == "." or kind == "ID":
        yield from _identifier_or_call(reader)
    elif kind == "(":
        reader.match("(", _EXPR, "primary (")
        yield _expr(reader), kinds(")")
        reader.match(")", ONLY_END, "primary nested")
    elif kind == "[":
        reader.match("[", _EXPR | kinds("?", ",", "]"), "primary [")
        yield from _elements(reader, _list_init, _EXPR | kinds("?"), "]")
    elif kind == "{":
        reader.match("{", _EXPR | kinds("?", ",", "}"), "primary {")
        yield from _elements(reader, _map_init, _EXPR | kinds("?"), "}")
    elif kind in _MEMBER:
        yield _literal(reader), ONLY_END
    else:
        raise NoAlternative("primary", reader.position, reader.position)


def _identifier_or_call(reader: Reader) -> Rule:
    """An identifier, a call or a message; part of primary."""
    if reader.kind == ".":
        reader.match(".", kinds("ID"), "primary .")
    at = reader.position + 1
    while reader.kinds[at] == "." and reader.kinds[at + 1] == "ID":
        at += 2
    if reader.kinds[at] == "{":
        while reader.position < at:
            reader.match(reader.kind, kinds("ID", ".", "{"), "primary message")
        reader.match("{", _NAME | kinds("?", ",", "}"), "primary message {")
        yield from _elements(reader, _field_init, _NAME | kinds("?"), "}")
        return
    reader.match("ID", ONLY_END, "primary name")
    if reader.kind == "(":
        yield from _arguments(reader, ONLY_END, "primary")


def _elements(reader: Reader, rule: Callable[[Reader], Rule], first: Kinds, closing: str) -> Rule:
    """The contents of a list, map or message and the closing token; part of primary."""
    ends = kinds(",", closing)
    reader.sync(first | ends, f"primary elements {closing}")
    if reader.kind in first:
        yield rule(reader), ends
    reader.sync(ends, f"primary , {closing}")
    if reader.kind == ",":
        reader.match(",", kinds(closing), "primary ,")
    reader.match(closing, ONLY_END, f"primary {closing}")


def _more(reader: Reader, first: Kinds) -> bool:
    """Whether another element follows; the last element may also be followed by a comma."""
    if reader.kind != "," or reader.ahead(1) not in first:
        return False
    reader.match(",", first, "list ,")
    return True


def _list_init(reader: Reader) -> Rule:
    first = _EXPR | kinds("?")
    yield _opt_expr(reader), _AFTER_ELEMENT
    while _more(reader, first):
        yield _opt_expr(reader), _AFTER_ELEMENT


@_recovering
def _map_init(reader: Reader) -> Rule:
    first = _EXPR | kinds("?")
    while True:
        yield _opt_expr(reader), kinds(":")
        reader.match(":", _EXPR, "mapInitializerList")
        yield _expr(reader), _AFTER_ELEMENT
        if not _more(reader, first):
            return


@_recovering
def _field_init(reader: Reader) -> Rule:
    while True:
        yield _opt_field(reader), kinds(":")
        reader.match(":", _EXPR, "fieldInitializerList")
        yield _expr(reader), _AFTER_ELEMENT
        if not _more(reader, _NAME | kinds("?")):
            return


@_recovering
def _opt_field(reader: Reader) -> Rule:
    yield from _optional(reader, _NAME, "optField")
    yield _name(reader), ONLY_END


@_recovering
def _opt_expr(reader: Reader) -> Rule:
    yield from _optional(reader, _EXPR, "optExpr")
    yield _expr(reader), ONLY_END


@_recovering
def _literal(reader: Reader) -> Rule:
    if reader.kind == "-":
        _require(reader, "literal", kinds("INT", "FLOAT"))
        reader.match("-", kinds("INT", "FLOAT"), "literal")
    reader.match(reader.kind, ONLY_END, "literal")
    yield from ()
