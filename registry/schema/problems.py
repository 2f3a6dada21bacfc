"""The problems that a validation finds, by text, before the field of each is known."""

from __future__ import annotations

from dataclasses import dataclass, field

from registry.budget import MatchingExceeded
from registry.schema.field import OMIT_VALUE, FieldError, invalid


@dataclass(slots=True)
class Problem:
    """An error whose field is not known yet. `name` None: an error of the whole object (a combinator, a range)."""

    name: str | None
    error: FieldError

    def field_error(self, prefix: str | None) -> FieldError:
        error = self.error
        name = (self.name or "").removeprefix(".") if self.name != "." else ""
        if name:
            where = f"{prefix}.{name}" if prefix else name
        else:
            where = prefix or "<nil>"
        return FieldError(error.type, where, error.bad_value, error.detail)


class TextTooExpensive(MatchingExceeded):
    """A text could not be matched within its limit. Enclosing values cannot be decided either: it may be in a `not`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem


def too_expensive_to_match(path: str, pattern: str) -> Problem:
    what = f"'{pattern}'" if pattern else "the patterns of the schema"
    return Problem(path, invalid("", OMIT_VALUE, f"{path} in body is too expensive to match against {what}".lstrip()))


@dataclass(slots=True)
class Result:
    """Problems by text, and the number of checks that passed: of failed branches, the one with the most is reported."""

    problems: dict[str, Problem] = field(default_factory=dict)
    matches: int = 0

    def add(self, text: str, name: str | None, error: FieldError) -> None:
        self.problems.setdefault(text, Problem(name, error))

    def add_plain(self, text: str) -> None:
        self.add(text, None, invalid("", "", text))

    def merge(self, other: Result) -> None:
        for text, problem in other.problems.items():
            self.problems.setdefault(text, problem)
        self.matches += other.matches
