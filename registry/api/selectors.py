"""Label and field selectors: from the text of a query to the requirements of the store.

    parse_label_selector("env in (dev, prod),!old").requirements
    (Requirement("env", Match.IN, ("dev", "prod")), Requirement("old", Match.DOES_NOT_EXIST))

The grammar and the messages of labels follow apimachinery pkg/labels/selector.go, those of fields
pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from registry.api.errors import StatusError
from registry.schema import names
from registry.schema.field import FieldError, invalid
from registry.store.types import Match, Requirement

NAME, NAMESPACE = "metadata.name", "metadata.namespace"
_FIELD_PREFIX = "f:"

# Limits on the requirements of one selector, the values of one requirement, and characters. Each requirement is a
# condition of the query and a test of each event; the reference is limited only by the length of a request.
MAX_REQUIREMENTS: Final = 500
_MAX_VALUES: Final = 20_000
_MAX_LENGTH: Final = 256 * 1024


class SelectorError(StatusError):
    """400: a selector that cannot be parsed, or that names a field that cannot be selected by."""

    def __init__(self, message: str) -> None:
        super().__init__(400, "BadRequest", message)


def _too_many() -> SelectorError:
    return SelectorError(f"the selector has more than {MAX_REQUIREMENTS} requirements")


def _check_length(text: str) -> None:
    if len(text) > _MAX_LENGTH:
        raise SelectorError(f"the selector is longer than {_MAX_LENGTH} characters")


# --- labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All of the requirements must hold; without any, everything is selected."""

    requirements: tuple[Requirement, ...]
    matches: Callable[[Mapping[str, str]], bool]


def parse_label_selector(text: str) -> LabelSelector:
    """Parses a label selector. Raises SelectorError. `matches` takes the labels of an object."""
    if not text:
        return _EVERYTHING
    _check_length(text)
    return _parse_short(text) if len(text) <= _SHORT else _parse(text)


# Clients repeat the same selectors; the length bounds the memory of the cache.
_SHORT = 256


@lru_cache(512)
def _parse_short(text: str) -> LabelSelector:
    return _parse(text)


def _parse(text: str) -> LabelSelector:
    requirements = tuple(sorted(_Parser(text).requirements(), key=lambda requirement: requirement.key))
    tests = [_label_test(requirement) for requirement in requirements]
    return LabelSelector(requirements, lambda labels: all(test(labels) for test in tests))


_EVERYTHING = LabelSelector((), lambda labels: True)

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+|\Z)")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_END = ""
_OPERATORS = {
    "in": Match.IN,
    "=": Match.IN,
    "==": Match.IN,
    "notin": Match.NOT_IN,
    "!=": Match.NOT_IN,
    ">": Match.GREATER_THAN,
    "<": Match.LESS_THAN,
}


class _Parser:
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
                raise _too_many()
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
            return Requirement(key, Match.DOES_NOT_EXIST)
        if self.peek() in (_END, ","):
            return Requirement(key, Match.EXISTS)
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
                if len(values) > _MAX_VALUES:
                    raise _Unparsable(f"more than {_MAX_VALUES} values")
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
    if requirement.match in (Match.GREATER_THAN, Match.LESS_THAN):
        errors.extend(
            invalid(f"values[{i}]", value, "for 'Gt', 'Lt' operators, the value must be an integer")
            for i, value in enumerate(requirement.values)
            if _integer(value) is None
        )
    for i, value in enumerate(requirement.values):
        if messages := names.label_value(value):
            errors.append(invalid(f"values[{i}][{requirement.key}]", value, "; ".join(messages)))
    if errors:
        texts = list(dict.fromkeys(error.message() for error in errors))
        raise _Unparsable(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return requirement


_INTEGER = re.compile(r"[-+]?[0-9]{1,40}\Z")


def _integer(text: str) -> int | None:
    """strconv.ParseInt(text, 10, 64)."""
    if not _INTEGER.match(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _label_test(requirement: Requirement) -> Callable[[Mapping[str, str]], bool]:
    key = requirement.key
    test = _value_test(requirement)
    return lambda labels: test(labels.get(key))


def _value_test(requirement: Requirement) -> Callable[[str | None], bool]:
    """Returns a test of a value, which is None if the key is absent."""
    values = frozenset(requirement.values)
    match requirement.match:
        case Match.IN:
            return lambda value: value in values
        case Match.NOT_IN:
            return lambda value: value not in values
        case Match.EXISTS:
            return lambda value: value is not None
        case Match.DOES_NOT_EXIST:
            return lambda value: value is None
    bound = _integer(requirement.values[0]) if requirement.values else None
    if bound is None:
        return lambda value: False
    wanted = 1 if requirement.match is Match.GREATER_THAN else -1

    def compare(value: str | None) -> bool:
        number = _integer(value) if value is not None else None
        return number is not None and (number - bound) * wanted > 0

    return compare


# --- fields


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """`metadata.name!=a` is FieldTerm("metadata.name", False, "a")."""

    field: str
    equal: bool
    value: str

    def requirement(self) -> Requirement:
        """Returns the requirement for a selectable field, whose value is stored with the labels of a row."""
        return Requirement(_FIELD_PREFIX + self.field, Match.IN if self.equal else Match.NOT_IN, (self.value,))


def parse_field_selector(
    text: str, *, namespaced: bool = True, selectable: Collection[str] = (), only_name_and_namespace: bool = False
) -> list[FieldTerm]:
    """Returns the terms in sorted order. Raises SelectorError.

    Selectable are names, namespaces (not of cluster-scoped custom resources: `namespaced`), and the fields in
    `selectable`. `only_name_and_namespace` words the refusal as most built-in kinds do.
    """
    terms = field_terms(text)
    for term in terms:
        known = term.field == NAME or (namespaced and term.field == NAMESPACE) or term.field in selectable
        if not known and only_name_and_namespace:
            raise SelectorError(f'"{term.field}" is not a known field selector: only "{NAME}", "{NAMESPACE}"')
        if not known:
            raise SelectorError(f"field label not supported: {term.field}")
    return terms


def field_terms(text: str) -> list[FieldTerm]:
    """Returns the terms in sorted order, with any fields. Raises SelectorError."""
    _check_length(text)
    terms = []
    for part in sorted(_split(text)):
        if not part:
            continue
        match = _TERM.match(part)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append(FieldTerm(match[1], match[2] != "!=", _unescape(match[3])))
    return terms


def name_of_selector(text: str) -> str:
    """Returns the name that a field selector requires, by which a list is authorized as of that object; else "".

    Follows apiserver pkg/endpoints/request/requestinfo.go: ignores names that a path cannot contain.
    """
    try:
        name = required_name(field_terms(text))
    except SelectorError:
        return ""  # it cannot be parsed
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def required_name(terms: Sequence[FieldTerm]) -> str:
    """Returns the first name that must match exactly; else ""."""
    return next((term.value for term in terms if term.field == NAME and term.equal), "")


_SEPARATED = re.compile(r"(?:\\.|[^\\,]|\\\Z)*", re.DOTALL)
# The first operator splits the term; `==` and `!=` take precedence over `=`.
_TERM = re.compile(r"(.*?)(!=|==|=)(.*)\Z", re.DOTALL)
_ESCAPED = re.compile(r"\\(.?)|([,=])", re.DOTALL)


def _split(text: str) -> list[str]:
    """Splits at commas without a backslash before them; keeps backslashes."""
    parts, position = [], 0
    while True:
        match = _SEPARATED.match(text, position)
        assert match is not None
        parts.append(match.group())
        if len(parts) > MAX_REQUIREMENTS:
            raise _too_many()
        position = match.end() + 1
        if match.end() >= len(text):
            return parts


def _unescape(value: str) -> str:
    if "\\" not in value and "=" not in value:
        return value

    def literal(match: re.Match[str]) -> str:
        if match[2] is not None:
            # The reference prints the code of the character.
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(match[2])}")
        if match[1] not in ("\\", ",", "=") or not match[1]:
            raise SelectorError(f"invalid field selector: invalid escape sequence: \\{match[1]}")
        return match[1]

    return _ESCAPED.sub(literal, value)


# --- rows and changes


def satisfies(requirements: Sequence[Requirement], labels: Sequence[str]) -> bool:
    """Whether all hold for the labels of a row or change: `key=value`, or `f:spec.color=red` for a field."""
    return all(_holds(requirement, labels) for requirement in requirements)


def _holds(requirement: Requirement, labels: Sequence[str]) -> bool:
    start = requirement.key + "="
    value: str | None = "" if start.startswith(_FIELD_PREFIX) else None
    for label in labels:
        if label.startswith(start):
            value = label[len(start) :]
            break
    match requirement.match:
        case Match.IN:
            return value in requirement.values
        case Match.NOT_IN:
            return value not in requirement.values
        case Match.EXISTS:
            return value is not None
        case Match.DOES_NOT_EXIST:
            return value is None
        case _:
            return _value_test(requirement)(value)
