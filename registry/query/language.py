"""Filters: CEL over `object`, with `now`, checked against the schema of the requested version.

An object matches if the expression is true for it. It does not match if the expression is false, nor if the evaluation
fails, as `object.spec.size > 3` does for an object without a size: use has() where that matters.

`object.search("words")` is true for an object whose declared fields have the words (text.py). Its argument is a
constant: each search becomes a variable of the program, whose value is computed first.

An evaluation may cost as much as a validation rule; beyond that the whole query is rejected, so that no list is
incomplete.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from registry.budget import BudgetExceeded
from registry.cel.checker.checked import Checked
from registry.cel.checker.checker import check
from registry.cel.checker.schema_types import declare
from registry.cel.common import types
from registry.cel.common.escaping import unescape
from registry.cel.common.times import Timestamp
from registry.cel.common.types import Type
from registry.cel.common.values import CostExceeded, EvalError, evaluation_budget
from registry.cel.ext.table import PER_CALL_LIMIT
from registry.cel.interpreter.code import COST
from registry.cel.interpreter.compile import Program, compile_program
from registry.cel.interpreter.constants import program_error
from registry.cel.interpreter.views import view_of
from registry.cel.rules.literals import literal_issues
from registry.cel.syntax import ast
from registry.cel.syntax.ast import Call, Comprehension, Expr, Ident, Literal, Select
from registry.cel.syntax.errors import Issue, display
from registry.cel.syntax.parser import Parsed, parse
from registry.query.fields import Path, query_schema
from registry.query.text import Search, SearchError, parse_search, texts_of
from registry.schema.model import Structural

OBJECT: Final = "object"
NOW: Final = "now"
# The most characters of a filter. Users do not write longer ones, and checking them takes long.
MAX_LENGTH: Final = 10_000
_MAX_CACHED: Final = 2000
MAX_SEARCHES: Final = 8


class FilterError(ValueError):
    """The filter is invalid; the text says what and where, for the client."""


class FilterTooExpensive(Exception):
    """Evaluating the filter exceeds its cost limit."""


class Filter:
    """A checked filter. `root` is the schema that it was checked against."""

    __slots__ = ("_program", "checked", "root", "search_fields", "searches", "text", "uses_now")

    def __init__(
        self, text: str, checked: Checked, root: Structural, searches: Sequence[Search], search_fields: Sequence[Path]
    ) -> None:
        self.text = text
        self.checked = checked
        self.root = root
        self.searches = searches
        self.search_fields = search_fields
        self.uses_now = any(isinstance(node, ast.Ident) and node.name.lstrip(".") == NOW for node in checked.nodes())
        self._program: Program = compile_program(
            checked, {OBJECT: view_of(root), NOW: None, **{variable_of(i): None for i in range(len(searches))}}
        )

    def matches(self, obj: Mapping[str, Any], now: datetime.datetime) -> bool:
        """Evaluates the filter on `obj`, as served at the version of the schema. Raises FilterTooExpensive."""
        moment = timestamp_of(now)
        texts = texts_of(obj, self.search_fields) if self.searches else ()
        hits = [search.matches(texts) for search in self.searches]
        return is_true(self._program, obj, moment, *hits)


def is_true(program: Program, *values: Any) -> bool:
    """Runs a condition within its cost limits; an error counts as false. Raises FilterTooExpensive."""
    for exact in (False, True):
        used = program.exact() if exact else program
        frame = used.frame(*values)
        try:
            with evaluation_budget():
                holds = used.run(frame) is True
        except (EvalError, RecursionError):
            holds = False
        except CostExceeded:
            continue
        except BudgetExceeded as error:
            raise FilterTooExpensive from error
        if frame[COST] <= PER_CALL_LIMIT:
            return holds
    raise FilterTooExpensive


def timestamp_of(now: datetime.datetime) -> Timestamp:
    seconds = int(now.timestamp())
    return Timestamp(seconds * 1_000_000_000 + now.microsecond * 1000)


def variable_of(number: int) -> str:
    """Returns the variable that stands for a search; no identifier of a client has this form."""
    return f"@search{number}"


def search_of(wanted: Filter, name: str) -> Search | None:
    """Returns the search that a variable stands for."""
    return next((one for number, one in enumerate(wanted.searches) if name == variable_of(number)), None)


def compile_filter(text: str, schema: Structural, search_fields: tuple[Path, ...] = ()) -> Filter:
    """Compiles a filter over objects of a version with this schema. Raises FilterError."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter is longer than {MAX_LENGTH} characters")
    root = query_schema(schema)
    return (_cached if len(text) <= _MAX_CACHED else _compile)(text, root, search_fields)


def _compile(text: str, root: Structural, search_fields: tuple[Path, ...]) -> Filter:
    declared = declare(root, name="object")
    assert declared is not None, "an object always has a type"
    try:
        parsed, searches = _without_searches(parse(text), search_fields)
        names = {variable_of(number): types.BOOL for number in range(len(searches))}
        checked = check_condition("filter", parsed, {OBJECT: declared.type, **names})
        return Filter(text, checked, root, searches, search_fields)
    except RecursionError as error:
        raise FilterError("the filter is nested too deeply") from error


def check_condition(what: str, parsed: Parsed, names: Mapping[str, Type]) -> Checked:
    """Checks an expression of type bool over `names` and `now`. Raises FilterError."""
    checked = check(parsed, {**names, NOW: types.TIMESTAMP})
    issues = checked.issues or literal_issues(checked)
    if issues:
        raise FilterError(display(checked.parsed.source, issues))
    if checked.result not in (types.BOOL, types.DYN):
        raise FilterError(f"the {what} must evaluate to bool, not to {checked.result}")
    if (fault := program_error(checked)) is not None:
        raise FilterError(fault)
    return checked


def _without_searches(parsed: Parsed, fields: Sequence[Path]) -> tuple[Parsed, list[Search]]:
    """Returns the tree with a variable for each search. Raises FilterError."""
    searches: list[Search] = []

    def variable(node: Expr) -> Expr:
        if not isinstance(node, Call) or node.function != "search" or node.target is None:
            return node
        target, argument = node.target, node.args[0] if len(node.args) == 1 else None
        if not isinstance(target, Ident) or target.name.lstrip(".") != OBJECT:
            return node  # the checker reports it
        if not isinstance(argument, Literal) or not isinstance(argument.value, str):
            raise _fault(parsed, node, "search takes one constant string")
        if not fields:
            message = 'the definition declares no fields to be searched: query.registry/search: "spec.text"'
            raise _fault(parsed, node, message)
        if len(searches) == MAX_SEARCHES:
            raise _fault(parsed, node, f"more than {MAX_SEARCHES} searches")
        try:
            searches.append(parse_search(argument.value))
        except SearchError as error:
            raise _fault(parsed, argument, f"search: {error}") from error
        return Ident(node.id, node.offset, variable_of(len(searches) - 1))

    nodes = [] if parsed.root is None else list(ast.walk(parsed.root))
    hidden = any(isinstance(node, Comprehension) and OBJECT in (node.iter_var, node.iter_var2) for node in nodes)
    if parsed.root is None or hidden or not any(isinstance(node, Call) and node.function == "search" for node in nodes):
        return parsed, []
    return replace(parsed, root=ast.rewrite(parsed.root, variable)), searches


def _fault(parsed: Parsed, node: Expr, message: str) -> FilterError:
    return FilterError(display(parsed.source, [Issue(node.offset, message)]))


_cached = lru_cache(maxsize=512)(_compile)


# -- paths, to check them for hidden fields
def paths_of(wanted: Filter) -> Iterator[Path]:
    """Returns each chain of fields that starts at the object. Hidden fields reached through variables are not included:
    evaluation does not see them either."""
    return _paths_below(wanted.checked, OBJECT)


def _paths_below(checked: Checked, variable: str) -> Iterator[Path]:
    return filter(None, (path_below(node, variable) for node in ast.walk(checked.root)))


def path_below(node: Expr, variable: str) -> Path | None:
    """Returns the chain of fields of `variable.a.b`; () for the variable, None for anything else."""
    match node:
        case Ident(name=name):
            return () if name.lstrip(".") == variable else None
        case Select(operand=operand, field=field):
            path = path_below(operand, variable)
            return None if path is None else (*path, unescape(field) or field)
        case Call(function=ast.INDEX | ast.OPT_INDEX | ast.OPT_SELECT, args=(operand, key)):
            path = path_below(operand, variable)
            if path is None:
                return None
            # An element of an array stands for the array.
            return (*path, key.value) if isinstance(key, Literal) and isinstance(key.value, str) else path
    return None


# -- conditions over several objects: `having` on rows, and joins on pairs
ROW: Final = "row"
JOINED: Final = "joined"


class Condition:
    """A checked condition over the variables of `roots`, and `now`. Raises FilterError for an invalid one.

    It holds if it is true; it does not hold if it is false or cannot be evaluated.
    """

    def __init__(self, text: str, roots: Mapping[str, Structural]) -> None:
        if len(text) > MAX_LENGTH:
            raise FilterError(f"the expression is longer than {MAX_LENGTH} characters")
        declared = {name: declare(root, name=name) for name, root in roots.items()}
        names = {name: one.type for name, one in declared.items() if one is not None}
        try:
            self._checked = checked = check_condition("expression", parse(text), names)
            self._program = compile_program(checked, {**{n: view_of(root) for n, root in roots.items()}, NOW: None})
        except RecursionError as error:
            raise FilterError("the expression is nested too deeply") from error

    def paths(self, variable: str) -> Iterator[Path]:
        """Returns each chain of fields that starts at a variable."""
        return _paths_below(self._checked, variable)

    def holds(self, now: datetime.datetime, *objects: Mapping[str, Any]) -> bool:
        """Evaluates the condition; `objects` in the order of the variables. Raises FilterTooExpensive."""
        return is_true(self._program, *objects, timestamp_of(now))
