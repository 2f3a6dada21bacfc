"""CEL expressions of rules: `self` is the whole object at its source version, or the element that contains the field.

The cost of an evaluation is bounded at run time, not by an estimate: the size of `string(1)` has no useful bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from registry.budget import BudgetExceeded, spend
from registry.cel.checker.checked import Checked
from registry.cel.checker.checker import check
from registry.cel.checker.schema_types import Declared, declare
from registry.cel.common import types
from registry.cel.common.types import Type, TypeKind
from registry.cel.common.values import CostExceeded, EvalError, ListValue, MapValue, Optional
from registry.cel.ext.table import PER_CALL_LIMIT
from registry.cel.interpreter.code import COST
from registry.cel.interpreter.compile import compile_program
from registry.cel.interpreter.constants import program_error
from registry.cel.interpreter.schema_values import Preserved
from registry.cel.interpreter.views import view_of
from registry.cel.rules.literals import literal_issues
from registry.cel.syntax import ast
from registry.cel.syntax.errors import display
from registry.cel.syntax.parser import parse
from registry.codec.json_size import VALUE_UNITS, charge_json
from registry.conversion.declarative.paths import STAR, Path
from registry.schema.model import Structural
from registry.schema.pruning import META_FIELDS

Json = Any


class ConversionExpression(NamedTuple):
    """A compiled expression. Values are decoded JSON, or NOTHING.

    `value` evaluates it on a whole object. `evaluate_charged` evaluates it on one of several elements that share one
    cost limit: it takes the cost of the preceding ones and returns the new total. Both spend from the budget of the
    conversion (evaluation_budget).
    """

    value: Callable[[Json], Json]
    evaluate_charged: Callable[[Json, int], tuple[Json, int]]


NOTHING: Final = object()
_DEPTH: Final = 64
_SCALARS: Final = frozenset((str, bool, int, float))


class ExpressionError(ValueError):
    """An expression cannot be used or has no value; the text says why."""


def check_expression(text: str, schema: Structural, *, is_root: bool = True) -> tuple[Checked, dict[str, Json]]:
    """The checked tree, and the schema of its value ({} where that is only known at run time)."""
    declared = declare(schema, resource_root=is_root)
    if declared is None:
        raise ExpressionError("the schema says nothing of what is to be looked at")
    try:
        return _check(text, declared)
    except RecursionError as error:
        raise ExpressionError("compilation failed: max recursion depth exceeded") from error


def _check(text: str, declared: Declared) -> tuple[Checked, dict[str, Json]]:
    checked = check(parse(text), {"self": declared.type})
    issues = checked.issues or literal_issues(checked)
    if issues:
        raise ExpressionError(f"compilation failed: {display(checked.parsed.source, issues)}")
    error_text = program_error(checked)
    if error_text is not None:
        raise ExpressionError(f"program instantiation failed: {error_text}")
    result = checked.result
    return checked, schema_of(result.parameters[0] if types.is_optional(result) else result)


def element_at(schema: Structural, within: Path) -> Structural | None:
    """The schema of the elements at the path; None where there is none."""
    node: Structural | None = schema
    for step in within:
        if node is None:
            return None
        additional = node.additional_properties
        values = additional if isinstance(additional, Structural) else None
        node = (node.items or values) if step == STAR else node.properties.get(step, values)
    return node


def schema_of(of: Type) -> dict[str, Json]:
    """The schema of a CEL type: `list(string)` is an array of strings."""
    match of.kind:
        case TypeKind.STRING | TypeKind.TIMESTAMP | TypeKind.DURATION | TypeKind.BYTES:
            if of.kind is not TypeKind.STRING:
                raise ExpressionError(f"a value of type {of.text} must be made a string: string(...)")
            return {"type": "string"}
        case TypeKind.INT:
            return {"type": "integer"}
        case TypeKind.DOUBLE:
            return {"type": "number"}
        case TypeKind.BOOL:
            return {"type": "boolean"}
        case TypeKind.LIST:
            return {"type": "array", "items": schema_of(of.parameters[0])}
        case TypeKind.MAP:
            return {"type": "object", "additionalProperties": schema_of(of.parameters[1])}
        case TypeKind.STRUCT if of.fields is not None:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case TypeKind.DYN | TypeKind.NULL | TypeKind.PARAM:
            return {}
    raise ExpressionError(f"a value of type {of.text} has no form in JSON")


def reads_head_of(text: str, schema: Structural) -> bool:
    """Whether an expression on whole objects may read their apiVersion, kind or metadata."""
    checked, _ = check_expression(text, schema)
    beside = sum(
        isinstance(node, ast.Select) and _is_self(node.operand) and node.field not in META_FIELDS
        for node in checked.nodes()
    )
    return beside != sum(_is_self(node) for node in checked.nodes())


def _is_self(node: ast.Expr) -> bool:
    return isinstance(node, ast.Ident) and node.name.removeprefix(".") == "self"


def compile_expression(text: str, schema: Structural, *, is_root: bool = True) -> ConversionExpression:
    """Compiles an expression. Raises ExpressionError, as does its evaluation if it has no value."""
    checked, _ = check_expression(text, schema, is_root=is_root)
    program = compile_program(checked, {"self": view_of(schema, resource=is_root)})
    run, cost, spare = program.run, program.cost, program.spare

    def value(obj: Json) -> Json:
        try:
            result, _ = evaluate_bounded(obj)
            return _charged(result)
        except _FAILURES as error:
            raise _failure(error) from error

    def evaluate_charged(element: Json, spent: int) -> tuple[Json, int]:
        try:
            result, spends = evaluate_bounded(element)
            if spent + spends > PER_CALL_LIMIT:
                raise CostExceeded
            return _charged(result), spent + spends
        except _FAILURES as error:
            raise _failure(error) from error

    def evaluate_bounded(obj: Json) -> tuple[Any, int]:
        """The value and an upper bound of its cost; the actual cost where the bound exceeds the limit."""
        frame = [cost, obj, *spare]
        try:
            result = run(frame)
        except CostExceeded:
            return exactly(obj)
        return (result, frame[COST]) if frame[COST] <= PER_CALL_LIMIT else exactly(obj)

    def exactly(obj: Json) -> tuple[Any, int]:
        frame = program.exact().frame(obj)
        result, spends = program.exact().run(frame), frame[COST]
        if spends > PER_CALL_LIMIT:
            raise CostExceeded
        return result, spends

    return ConversionExpression(value, evaluate_charged)


_FAILURES: Final = (EvalError, RecursionError, BudgetExceeded)


def _failure(error: Exception) -> ExpressionError:
    if isinstance(error, BudgetExceeded):
        return ExpressionError("it costs more than an expression may")
    return ExpressionError(str(error) or "the value is nested too deeply")


def _charged(value: Any) -> Json:
    """The JSON of a value: in many elements or fields, the same text takes more room than in the expression."""
    kind = value.__class__
    if kind is str:
        spend(len(value))
    return value if kind in _SCALARS else json_of(value)


def json_of(value: Any, depth: int = 0) -> Json:
    """Converts a CEL value to JSON; raises EvalError where that is not possible, and BudgetExceeded."""
    if depth > _DEPTH:
        raise EvalError("the value is nested too deeply")
    kind = value.__class__
    spend(VALUE_UNITS + len(value) if kind is str else VALUE_UNITS)
    if kind is str or kind is bool or kind is int or kind is float:
        return value
    if kind is Optional:
        return json_of(value.get(), depth) if value.present else NOTHING
    if value is None:
        return NOTHING if depth == 0 else None
    if kind is Preserved:
        charge_json(value.value)
        return value.value
    if isinstance(value, list):
        return [json_of(v, depth + 1) for v in value]
    if isinstance(value, ListValue):
        return [json_of(v, depth + 1) for v in value.elements()]
    if isinstance(value, MapValue):
        keys = value.all_keys()
        if not all(isinstance(key, str) for key in keys):
            raise EvalError("the keys of a map must be strings")
        return {key: json_of(value.find(key), depth + 1) for key in keys}
    raise EvalError("the value has no form in JSON")
