"""Filters: CEL over `object`, with `now`, checked against the schema of the version that is asked for.

An object matches when the expression is true of it. It does not match when the expression is false, nor when evaluating
it fails, as `object.spec.size > 3` does of an object without a size: use has() where that matters.

An evaluation may cost what a validation rule may; beyond that the whole query is refused, so that no list is
incomplete.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from registry.budget import BudgetExceeded
from registry.cel.checker.checker import Checked, check
from registry.cel.checker.schema_types import declare
from registry.cel.common import types
from registry.cel.common.times import Timestamp
from registry.cel.common.values import CostExceeded, EvalError, evaluation_budget
from registry.cel.ext.table import PER_CALL_LIMIT
from registry.cel.interpreter.code import COST
from registry.cel.interpreter.compile import Program, compile_program
from registry.cel.interpreter.constants import program_error
from registry.cel.interpreter.views import view_of
from registry.cel.rules.literals import literal_issues
from registry.cel.syntax import ast
from registry.cel.syntax.errors import display
from registry.cel.syntax.parser import parse
from registry.query.fields import query_schema
from registry.schema.model import Structural

OBJECT: Final = "object"
NOW: Final = "now"
# Characters of a filter. Longer ones than this are not written by people, and checking them takes long.
MAX_LENGTH: Final = 10_000
_MAX_CACHED: Final = 2000


class FilterError(ValueError):
    """The filter is wrong; the text says what and where, for the client."""


class FilterTooExpensive(Exception):
    """Evaluating the filter costs more than it may."""


class Filter:
    """A checked filter. `root` is the schema that it was checked by."""

    __slots__ = ("_program", "checked", "root", "text", "uses_now")

    def __init__(self, text: str, checked: Checked, root: Structural) -> None:
        self.text = text
        self.checked = checked
        self.root = root
        self.uses_now = any(isinstance(node, ast.Ident) and node.name.lstrip(".") == NOW for node in checked.nodes())
        self._program: Program = compile_program(checked, {OBJECT: view_of(root), NOW: None})

    def matches(self, obj: Mapping[str, Any], now: datetime.datetime) -> bool:
        """Raises FilterTooExpensive. `obj` is an object as it is served, at the version of the schema."""
        moment = timestamp_of(now)
        for exact in (False, True):
            program = self._program.exact() if exact else self._program
            frame = program.frame(obj, moment)
            try:
                with evaluation_budget():
                    holds = program.run(frame) is True
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


def compile_filter(text: str, schema: Structural) -> Filter:
    """Of a filter over objects of a version with this schema. Raises FilterError."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter is longer than {MAX_LENGTH} characters")
    root = query_schema(schema)
    return _cached(text, root) if len(text) <= _MAX_CACHED else _compile(text, root)


def _compile(text: str, root: Structural) -> Filter:
    declared = declare(root, name="object")
    assert declared is not None, "an object always has a type"
    try:
        checked = check(parse(text), {OBJECT: declared.type, NOW: types.TIMESTAMP})
        issues = checked.issues or literal_issues(checked)
        if issues:
            raise FilterError(display(checked.parsed.source, issues))
        if checked.result not in (types.BOOL, types.DYN):
            raise FilterError(f"the filter must evaluate to bool, not to {checked.result}")
        fault = program_error(checked)
        if fault is not None:
            raise FilterError(fault)
        return Filter(text, checked, root)
    except RecursionError as error:
        raise FilterError("the filter is nested too deeply") from error


_cached = lru_cache(maxsize=512)(_compile)
