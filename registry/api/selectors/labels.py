"""Label selectors. Grammar and messages follow apimachinery pkg/labels/selector.go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from registry.api.selectors.requirements import (
    MAX_REQUIREMENTS,
    MAX_VALUES,
    SelectorError,
    check_length,
    integer,
    too_many,
    value_test,
)
from registry.schema import names
from registry.schema.field import FieldError, invalid
from registry.store.types import Requirement, SelectorOperator


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All of the requirements must hold; without any, everything is selected."""

    requirements: tuple[Requirement, ...]
    matches: Callable[[Mapping[str, str]], bool]


def parse_label_selector(text: str) -> LabelSelector:
    """Parses a label selector. Raises SelectorError. `matches` takes the labels of an object."""
    if not text:
        return _EVERYTHING
    check_length(text)
    return _parse_short(text) if len(text) <= _SHORT else _parse(text)


# Clients repeat the same selectors; the length bounds the memory of the cache.
_SHORT = 256


@lru_cache(512)
def _parse_short(text: str) -> LabelSelector:
    return _parse(text)


def _parse(text: str) -> LabelSelector:
    requirements = tuple(sorted(_SelectorParser(text).requirements(), key=lambda requirement: requirement.key))
    return LabelSelector(requirements, _labels_test(requirements))


def _labels_test(requirements: Sequence[Requirement]) -> Callable[[Mapping[str, str]], bool]:
    """Returns a test of labels, which is made when it is first used: lists and watches test rows, not labels."""
    tests: list[Callable[[Mapping[str, str]], bool]] = []

    def matches(labels: Mapping[str, str]) -> bool:
        if not tests:
            tests.extend([_label_test(requirement) for requirement in requirements])
        return all(test(labels) for test in tests)

    return matches


_EVERYTHING = LabelSelector((), lambda labels: True)

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|\Z)")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_END = ""
_OPERATORS = {
    "in": SelectorOperator.IN,
    "=": SelectorOperator.IN,
    "==": SelectorOperator.IN,
    "notin": SelectorOperator.NOT_IN,
    "!=": SelectorOperator.NOT_IN,
    ">": SelectorOperator.GREATER_THAN,
    "<": SelectorOperator.LESS_THAN,
}


class _SelectorParser:
    """Tokens are texts; the end is an empty one. `in` and `notin` are words except in the place of an operator."""

    def __init__(self, text: str) -> None:
        # For the reference's lexer, a NUL is the end of the text.
        self.tokens = _tokens(text.partition("\0")[0])
        self.next = next(self.tokens)

    def peek(self) -> str:
        return self.next

    def take(self) -> str:
        token = self.next
        self.next = next(self.tokens, _END)
        return token

    def requirements(self) -> Iterator[Requirement]:
        count = 0
        while self.peek() != _END:
            count += 1
            if count > MAX_REQUIREMENTS:
                raise too_many()
            if not _starts_requirement(self.peek()):
                raise SelectorError(f"found '{self.peek()}', expected: !, identifier, or 'end of string'")
            try:
                requirement = self.requirement()
            except _Unparsable as error:
                raise SelectorError(f"unable to parse requirement: {error}") from error
            yield requirement
            following = self.take()
            if following == _END:
                return
            if following != ",":
                raise SelectorError(f"found '{following}', expected: ',' or 'end of string'")
            if not _starts_requirement(self.peek()):
                raise SelectorError(f"found '{self.peek()}', expected: identifier after ','")

    def requirement(self) -> Requirement:
        absent = self.peek() == "!"
        if absent:
            self.take()
        key = self.take()
        if not _is_word(key):
            raise _Unparsable(f"found '{key}', expected: identifier")
        if messages := names.label_key(key):
            raise _Unparsable(invalid("<nil>", key, "; ".join(messages)).message())
        if absent:
            return Requirement(key, SelectorOperator.DOES_NOT_EXIST)
        if self.peek() in (_END, ","):
            return Requirement(key, SelectorOperator.EXISTS)
        operator = self.take()
        if operator not in _OPERATORS:
            raise _Unparsable(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self.value_set() if operator in ("in", "notin") else self.exact_value()
        return _check(Requirement(key, _OPERATORS[operator], tuple(sorted(values))))

    def exact_value(self) -> set[str]:
        if self.peek() in (_END, ","):
            return {""}
        value = self.take()
        if not _is_word(value):
            raise _Unparsable(f"found '{value}', expected: identifier")
        return {value}

    def value_set(self) -> set[str]:
        opening = self.take()
        if opening != "(":
            raise _Unparsable(f"found '{opening}' expected: '('")
        first = self.peek()
        if first == ")":
            self.take()
            return {""}
        if not _is_word(first) and first != ",":
            raise _Unparsable(f"found '{first}', expected: ',', ')' or identifier")
        values = self.values()
        self.take()  # the closing parenthesis, at which values() has stopped
        return values

    def values(self) -> set[str]:
        values: set[str] = set()
        while True:
            token = self.take()
            if _is_word(token):
                values.add(token)
                if len(values) > MAX_VALUES:
                    raise _Unparsable(f"more than {MAX_VALUES} values")
                if self.peek() == ")":
                    return values
                if self.peek() != ",":
                    raise _Unparsable(f"found '{self.peek()}', expected: ',' or ')'")
            elif token == ",":
                if not values:
                    values.add("")
                if self.peek() in (")", ","):
                    values.add("")
                if self.peek() == ")":
                    return values
            else:
                raise _Unparsable(f"found '{token}', expected: ',', or identifier")


class _Unparsable(ValueError):
    """An error in one requirement."""


def _tokens(text: str) -> Iterator[str]:
    """Yields tokens; the last one is empty."""
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        assert match is not None
        yield match[1]
        position = match.end()
        if not match[1]:
            return


def _is_word(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


def _starts_requirement(token: str) -> bool:
    return token == "!" or _is_word(token)


def _check(requirement: Requirement) -> Requirement:
    errors: list[FieldError] = []
    if requirement.match in (SelectorOperator.GREATER_THAN, SelectorOperator.LESS_THAN):
        errors.extend(
            invalid(f"values[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for i, value in enumerate(requirement.values)
            if integer(value) is None
        )
    for i, value in enumerate(requirement.values):
        if messages := names.label_value(value):
            errors.append(invalid(f"values[{i}][{requirement.key}]", value, "; ".join(messages)))
    if errors:
        texts = list(dict.fromkeys(error.message() for error in errors))
        raise _Unparsable(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return requirement


def _label_test(requirement: Requirement) -> Callable[[Mapping[str, str]], bool]:
    key = requirement.key
    test = value_test(requirement, requirement.values)
    return lambda labels: test(labels.get(key))
