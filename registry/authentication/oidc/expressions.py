"""The CEL expressions of an authentication configuration: on `claims`, or on the `user` mapped from them.

Follows apiserver pkg/authentication/cel/{compile,mapper}.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from registry.budget import BudgetExceeded
from registry.cel.checker.checked import Checked
from registry.cel.checker.checker import check
from registry.cel.checker.schema_types import declare
from registry.cel.common import types
from registry.cel.common.maps import Map
from registry.cel.common.values import EvalError, ListValue, Value, evaluation_budget
from registry.cel.interpreter.code import COST
from registry.cel.interpreter.compile import Program, compile_program
from registry.cel.interpreter.view import View
from registry.cel.interpreter.views import view_of
from registry.cel.syntax import ast
from registry.cel.syntax.errors import display
from registry.cel.syntax.parser import parse
from registry.schema.model import Structural

CLAIMS: Final = "claims"
USER: Final = "user"
# The cost limit of one expression (celconfig.PerCallLimit), and the maximum length of its text.
_LIMIT: Final = 1_000_000
MAX_LENGTH: Final = 10_000
_MAX_DEPTH: Final = 32

_TEXT: Final = Structural(type="string")
_TEXTS: Final = Structural(type="array", items=_TEXT)
_USER_SCHEMA: Final = Structural(
    type="object",
    properties={
        "username": _TEXT,
        "uid": _TEXT,
        "groups": _TEXTS,
        "extra": Structural(type="object", additional_properties=_TEXTS),
    },
)


class BadExpression(Exception):
    """The text does not compile; `str()` has the position."""


class ClaimFailed(Exception):
    """An expression has no value for these claims, or one of the wrong type."""


class ClaimExpression:
    """One compiled expression."""

    def __init__(self, text: str, variable: str, *, rule: bool) -> None:
        """`rule` requires the type bool. Raises BadExpression."""
        if len(text) > MAX_LENGTH:
            raise BadExpression(f"longer than {MAX_LENGTH} characters")
        self.text = text
        kind, view = _variable(variable)
        checked = check(parse(text), {variable: kind})
        if checked.issues:
            raise BadExpression(f"compilation failed: {display(checked.parsed.source, checked.issues)}")
        if rule and checked.result is not types.BOOL:
            raise BadExpression("must evaluate to bool")
        self._checked: Checked = checked
        self._program: Program = compile_program(checked, {variable: view})

    def uses_claim(self, name: str) -> bool:
        """Whether the expression reads `claims.name` or `claims.?name`."""
        return any(_selects(node, name) for node in self._checked.nodes())

    def evaluate(self, variable: Value) -> Value:
        """The value for `claims` or `user`. Raises Failed."""
        for program in (self._program, self._program.exact()):
            frame = program.frame(variable)
            try:
                with evaluation_budget():
                    value = program.run(frame)
            except BudgetExceeded:
                continue
            except (EvalError, RecursionError) as error:
                raise ClaimFailed(f"expression '{self.text}' resulted in error: {error}") from error
            if frame[COST] <= _LIMIT:
                return value
        raise ClaimFailed(
            f"expression '{self.text}' resulted in error: operation cancelled: actual cost limit exceeded"
        )

    def holds(self, variable: Value) -> bool:
        return self.evaluate(variable) is True


def _selects(node: ast.Expr, name: str) -> bool:
    match node:
        case ast.Select():
            operand, field = node.operand, node.field
        case ast.Call() if node.function == ast.OPT_SELECT and isinstance(node.args[1], ast.Literal):
            operand, field = node.args[0], str(node.args[1].value)
        case _:
            return False
    return field == name and isinstance(operand, ast.Ident) and operand.name == CLAIMS


def claims_value(claims: Mapping[str, Any]) -> Value:
    """The CEL value of decoded claims. Raises Failed if they are nested too deeply."""
    return _value(claims, 0)


def _value(value: Any, depth: int) -> Value:
    if depth > _MAX_DEPTH:
        raise ClaimFailed("the claims are nested too deeply")
    match value:
        case dict():
            return Map.of_strings({key: _value(v, depth + 1) for key, v in value.items()})
        case list():
            return [_value(v, depth + 1) for v in value]
        case _:
            return value


def text_list(value: Value) -> list[str]:
    """A text, a list of texts or null as a list; empty texts are dropped. Raises Failed."""
    texts = value.elements() if isinstance(value, ListValue) else value
    if texts is None or texts == "":
        return []
    if type(texts) is str:
        return [texts]
    if type(texts) is not list or not all(type(v) is str for v in texts):
        raise ClaimFailed("expression must return a string or a list of strings")
    return [v for v in texts if v]


def _variable(name: str) -> tuple[types.Type, View | None]:
    if name == CLAIMS:
        return types.map_of(types.STRING, types.DYN), None
    declared = declare(_USER_SCHEMA, name="kubernetes.UserInfo")
    assert declared is not None, "an object has a type"
    return declared.type, view_of(_USER_SCHEMA)
