"""The opinion of cel-python, another implementation of CEL, on a rule.

It knows the language and its standard functions, but neither Kubernetes' libraries nor types from a schema; if it
cannot evaluate a rule, it says so. A rule on which the two disagree deserves a human look.
"""

from __future__ import annotations

from typing import Any, Final

import celpy
from celpy import celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError
from lark.exceptions import LarkError

from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import EvalError, ListValue, MapValue, Uint, Value
from registry.cel.rules.expressions import OLD_SELF, SELF
from registry.cel.rules.inspection import RuleEvaluation

_MAX_TEXT: Final = 160


class SecondOpinion:
    def __init__(self) -> None:
        self._environment = celpy.Environment()

    def of_text(self, rule: str) -> str:
        """Returns 'can be parsed', or why not."""
        try:
            self._environment.compile(rule)
        except (CELParseError, LarkError, RecursionError) as error:
            return f"cannot be parsed: {_line(error)}"
        return "can be parsed"

    def of_evaluation(self, evaluation: RuleEvaluation) -> str:
        """Returns 'agrees', 'disagrees: true', or why it cannot say."""
        try:
            program = self._environment.program(self._environment.compile(evaluation.rule.source))
            result = program.evaluate(_variables(evaluation))
        except (CELParseError, CELEvalError, LarkError, RecursionError) as error:
            return f"cannot say: {_line(error)}"
        except (EvalError, ValueError, TypeError, LookupError, ArithmeticError) as error:
            return f"cannot say: {_line(error)}"
        holds = bool(result)
        return "agrees" if holds is not bool(evaluation.errors) else f"disagrees: {str(holds).lower()}"


def _variables(evaluation: RuleEvaluation) -> dict[str, Any]:
    view = evaluation.node.view()
    variables = {SELF: _to_celpy(view.convert(evaluation.value))}
    if evaluation.old is not None:
        variables[OLD_SELF] = _to_celpy(view.convert(evaluation.old))
    return variables


def _to_celpy(value: Value) -> Any:
    """Converts a value to cel-python's type. Raises ValueError if there is none."""
    match value:
        case None:
            return None
        case bool():
            return celtypes.BoolType(value)
        case Uint():
            return celtypes.UintType(value)
        case int():
            return celtypes.IntType(value)
        case float():
            return celtypes.DoubleType(value)
        case str():
            return celtypes.StringType(value)
        case bytes():
            return celtypes.BytesType(value)
        case Timestamp():
            return celtypes.TimestampType(value.utc_text())
        case Duration():
            return celtypes.DurationType(value.text())
        case list() | ListValue():
            return celtypes.ListType([_to_celpy(item) for item in _elements(value)])
        case MapValue():
            return celtypes.MapType({_to_celpy(key): _to_celpy(value.find(key)) for key in value.all_keys()})
        case _:
            raise ValueError("cel-python has no such values")


def _elements(value: list[Value] | ListValue) -> list[Value]:
    return value.elements() if isinstance(value, ListValue) else value


def _line(error: BaseException) -> str:
    """Returns the first line, without the names of Python's classes."""
    text = str(error.args[0] if error.args else error).strip().splitlines() or [""]
    return text[0].partition(" (in activation")[0][:_MAX_TEXT] or "it gives no reason"
