"""What the tests of evaluation share: from an expression to its value, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.cel.checker.checker import check
from registry.cel.checker.schema_types import declare
from registry.cel.common.types import Type
from registry.cel.common.values import EvalError, MapValue, Opaque, Optional, Uint, Value, elements, is_list
from registry.cel.interpreter.compile import Program, compile_program
from registry.cel.interpreter.view import View
from registry.cel.interpreter.views import view_of
from registry.cel.rules.expressions import OLD_SELF, SELF
from registry.cel.syntax.parser import parse
from registry.schema.model import Structural, from_json


def program(expression: str, variables: Mapping[str, tuple[Type, View | None]]) -> Program:
    """A program, compiled also when the checker refuses it: then types are found out at run time."""
    parsed = parse(expression)
    assert parsed.root is not None, parsed.issues
    checked = check(parsed, {name: type_ for name, (type_, _) in variables.items()})
    return compile_program(checked, {name: view for name, (_, view) in variables.items()})


def on_self(expression: str, schema: Mapping[str, Any] | Structural) -> Program:
    """A program with `self` and `oldSelf` of a schema."""
    structural = schema if isinstance(schema, Structural) else from_json(schema)
    declared = declare(structural)
    assert declared is not None
    view = view_of(structural)
    return program(expression, {SELF: (declared.type, view), OLD_SELF: (declared.type, view)})


def outcome(expression: str) -> str:
    """The value of an expression without variables, or `error: …`; both ways of counting must agree on it."""
    compiled = program(expression, {})
    fast, exact = outcome_of(compiled), outcome_of(compiled.exact())
    assert fast == exact
    return fast


def outcome_of(compiled: Program, *variables: Value) -> str:
    try:
        return literal_of(compiled.evaluate(*variables))
    except EvalError as error:
        return f"error: {error}"


def literal_of(value: Value) -> str:
    """A value as a CEL literal, unambiguous for the tests: 1u, 1.0, {"a": 1}."""
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) is Uint:
        return f"{int(value)}u"
    if is_list(value):
        return "[" + ", ".join(map(literal_of, elements(value))) + "]"
    if isinstance(value, MapValue):
        return "{" + ", ".join(f"{literal_of(key)}: {literal_of(value.find(key))}" for key in value.all_keys()) + "}"
    if type(value) is Optional:
        return f"optional({literal_of(value.get())})" if value.present else "none"
    if isinstance(value, Opaque) and value.has_text:
        return value.text()
    return repr(value)
