"""The `registry cel` commands: reports on the rules of a definition."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import celpy
from celpy import celtypes
from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError
from lark.exceptions import LarkError

from registry.cel.checker.schema_types import Declared
from registry.cel.common.times import Duration, Timestamp
from registry.cel.common.values import EvalError, ListValue, MapValue, Uint, Value, elements
from registry.cel.ext.table import PER_CALL_LIMIT
from registry.cel.rules.check import RULE_COST_LIMIT, TOTAL_COST_LIMIT
from registry.cel.rules.expressions import OLD_SELF, SELF
from registry.cel.rules.inspection import CheckedRule, RuleEvaluation, inspect_object, inspect_schema
from registry.cel.rules.rules import OBJECT_BUDGET
from registry.cli.errors import CommandError
from registry.cli.manifests import documents_of, read_definition
from registry.cli.table import printable
from registry.definitions.compiled import compile_definition
from registry.definitions.model import Definition, Version
from registry.schema.field import FieldError

Object = dict[str, Any]

# Properties of `self` that are listed; the rest is counted.
_MAX_PROPERTIES: Final = 8


def run(typed: dict[str, Any]) -> int:
    opinion = None if typed["no_second_opinion"] else SecondOpinion()
    crd, errors = _definition(typed["file"])
    if typed["action"] == "check":
        return check(crd, errors, opinion)
    if errors:
        raise CommandError(
            f"the definition is refused: {_one_line(errors[0].message())} (`registry cel check` says more)"
        )
    old = None if typed["old"] is None else _single(typed["old"])
    return evaluate(compile_definition(crd), _single(typed["object"]), old, opinion)


def _definition(path: Path) -> tuple[Object, list[FieldError]]:
    documents = [document for document in documents_of(path) if document.get("kind") == "CustomResourceDefinition"]
    if len(documents) != 1:
        raise CommandError(f"there must be one CustomResourceDefinition in {path}, not {len(documents)}")
    return read_definition(documents[0])


def _single(path: Path) -> Object:
    documents = list(documents_of(path))
    if len(documents) != 1:
        raise CommandError(f"there must be one object in {path}, not {len(documents)}")
    return documents[0]


# -- check
def check(crd: Object, errors: list[FieldError], opinion: SecondOpinion | None) -> int:
    reported: set[tuple[str, str]] = set()
    for version in crd["spec"]["versions"]:
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            continue
        rules, total = inspect_schema(schema, "")
        print(f"{crd['metadata']['name']} {version['name']}")
        for rule in rules:
            _print_lines(_check_lines(rule, opinion))
            reported |= {(error.field.partition(".properties")[2], error.detail) for error in rule.errors}
        print(f"  all rules: estimated cost {total} of {TOTAL_COST_LIMIT}\n")
    for error in errors:
        if (error.field.partition(".properties")[2], error.detail) not in reported:
            print(f"refused: {printable(_one_line(error.message()))}", file=sys.stderr)
    return 1 if errors or reported else 0


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _check_lines(checked: CheckedRule, opinion: SecondOpinion | None) -> Iterator[str]:
    rule = checked.rule
    yield f"  {checked.path.lstrip('.')}: {_one_line(rule.rule)}"
    yield f"    self: {type_text(checked.declared)}"
    cost = checked.cost * checked.cardinality
    times = "" if checked.cardinality == 1 else f" ({checked.cost} each, at most {checked.cardinality} times)"
    if not any(error.field.endswith(".rule") and "cost" not in error.message() for error in checked.errors):
        yield f"    estimated cost: {min(cost, 2**64 - 1)} of {RULE_COST_LIMIT}{times}"
    for error in checked.errors:
        yield f"    refused: {_one_line(error.detail)}"
    if not checked.errors:
        yield "    accepted"
    if opinion is not None:
        yield f"    cel-python: {opinion.of_text(rule.rule)}"


def type_text(declared: Declared) -> str:
    """'int', 'list(string)', 'object {replicas: int, image: string, +2 more}'"""
    if declared.fields is None:
        return _short_type(declared)
    properties = [f"{name}: {_short_type(below)}" for name, below in list(declared.fields.items())[:_MAX_PROPERTIES]]
    more = len(declared.fields) - len(properties)
    return f"object {{{', '.join([*properties, *([f'+{more} more'] if more else [])])}}}"


def _short_type(declared: Declared) -> str:
    """Returns the type with `object` for every object type: their names are internal to the checker."""
    if declared.fields is not None:
        return "object"
    if declared.element is None:
        return declared.type.text
    return f"{'map(string, ' if declared.key is not None else 'list('}{_short_type(declared.element)})"


# -- eval
def evaluate(definition: Definition, obj: Object, old: Object | None, opinion: SecondOpinion | None) -> int:
    version = _version(definition, obj)
    for one in filter(None, (obj, old)):
        _prepare(version, one)
    evaluations, total = inspect_object(version.schema().structural, obj, old)
    for evaluation in evaluations:
        _print_lines(_evaluation_lines(evaluation, opinion))
    print(f"{len(evaluations)} evaluations: cost {total} of {OBJECT_BUDGET}")
    failed = [error for evaluation in evaluations for error in evaluation.errors]
    for error in failed:
        print(f"invalid: {printable(_one_line(error.message()))}", file=sys.stderr)
    return 1 if failed else 0


def _version(definition: Definition, obj: Object) -> Version:
    group, _, name = str(obj.get("apiVersion") or "").rpartition("/")
    if group != definition.group or obj.get("kind") != definition.names.kind or name not in definition.versions:
        raise CommandError(f"{obj.get('apiVersion')} {obj.get('kind')} is not of {definition.name} in any version")
    return definition.versions[name]


def _prepare(version: Version, obj: Object) -> None:
    """Prunes and defaults an object as a write does; schema errors come before any rule. Raises CommandError."""
    schema = version.schema()
    schema.prune_and_default(obj)
    errors = schema.validate(obj)
    if errors:
        raise CommandError(f"the object does not fit the schema: {printable(errors[0].message())}")


def _evaluation_lines(evaluation: RuleEvaluation, opinion: SecondOpinion | None) -> Iterator[str]:
    result = "does not hold" if evaluation.errors else "holds"
    yield f"{evaluation.path or '<root>'}: {_one_line(evaluation.rule.source)}"
    yield f"  {result}, cost {evaluation.cost} of {PER_CALL_LIMIT}"
    for error in evaluation.errors:
        yield f"  message: {error.detail}"
    if opinion is not None:
        yield f"  cel-python: {opinion.of_evaluation(evaluation)}"


def _print_lines(lines: Iterator[str]) -> None:
    for line in lines:
        print(printable(line))


# -- second opinion
_MAX_TEXT: Final = 160


class SecondOpinion:
    """The opinion of cel-python, another implementation of CEL, on a rule.

    It knows the language and its standard functions, but neither Kubernetes' libraries nor types from a schema; if it
    cannot evaluate a rule, it says so. A rule on which the two disagree deserves a human look.
    """

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
            return celtypes.ListType([_to_celpy(item) for item in elements(value)])
        case MapValue():
            return celtypes.MapType({_to_celpy(key): _to_celpy(value.find(key)) for key in value.all_keys()})
        case _:
            raise ValueError("cel-python has no such values")


def _line(error: BaseException) -> str:
    """Returns the first line, without the names of Python's classes."""
    text = str(error.args[0] if error.args else error).strip().splitlines() or [""]
    return text[0].partition(" (in activation")[0][:_MAX_TEXT] or "it gives no reason"
