"""Conditions over several objects: `having` on rows, and joins on pairs. CEL, checked as filters are.

A condition holds if it is true; it does not hold if it is false or cannot be evaluated.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final

from registry.cel.checker.schema_types import declare
from registry.cel.interpreter.compile import compile_program
from registry.cel.interpreter.views import view_of
from registry.cel.syntax import ast
from registry.cel.syntax.parser import parse
from registry.query.fields import Path
from registry.query.language import MAX_LENGTH, NOW, FilterError, check_condition, is_true, timestamp_of
from registry.query.paths import path_below
from registry.schema.model import Structural

ROW: Final = "row"
JOINED: Final = "joined"


class Condition:
    """A checked condition over the variables of `roots`, and `now`. Raises FilterError for an invalid one."""

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
        """Yields each chain of fields that starts at a variable."""
        for node in ast.walk(self._checked.root):
            if path := path_below(node, variable):
                yield path

    def holds(self, now: datetime.datetime, *objects: Mapping[str, Any]) -> bool:
        """Evaluates the condition; `objects` in the order of the variables. Raises FilterTooExpensive."""
        return is_true(self._program, *objects, timestamp_of(now))
