"""Field selectors. Grammar and messages follow apimachinery pkg/fields/selector.go."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from registry.api.selectors.requirements import FIELD_PREFIX, MAX_REQUIREMENTS, SelectorError, check_length, too_many
from registry.codec.go_text import go_quote
from registry.store.types import Requirement, SelectorOperator

NAME, NAMESPACE = "metadata.name", "metadata.namespace"
# The longest selector that a list is authorized by: a tenth of a millisecond.
MAX_AUTHORIZED: Final = 4_096


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """`metadata.name!=a` is FieldTerm("metadata.name", False, "a")."""

    field: str
    equal: bool
    value: str

    def requirement(self) -> Requirement:
        """Returns the requirement for a selectable field, whose value is stored with the labels of a row."""
        return Requirement(
            FIELD_PREFIX + self.field, SelectorOperator.IN if self.equal else SelectorOperator.NOT_IN, (self.value,)
        )


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
            raise SelectorError(f'{go_quote(term.field)} is not a known field selector: only "{NAME}", "{NAMESPACE}"')
        if not known:
            raise SelectorError(f"field label not supported: {term.field}")
    return terms


def field_terms(text: str) -> list[FieldTerm]:
    """Returns the terms in sorted order, with any fields. Raises SelectorError."""
    check_length(text)
    terms = []
    for part in sorted(_split(text)):
        if not part:
            continue
        match = _TERM.match(part)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        term = FieldTerm(match[1], match[2] != "!=", _unescape(match[3]))
        if term.field or term.value:  # a bare operator selects everything, as in the original
            terms.append(term)
    return terms


def name_of_selector(text: str) -> str:
    """Returns the name that a field selector requires, by which a list is authorized as of that object; else "".

    Follows apiserver pkg/endpoints/request/requestinfo.go: ignores names that a path cannot contain. A long selector
    requires none: every request is parsed for it, before its client is known.
    """
    if len(text) > MAX_AUTHORIZED:
        return ""
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
            raise too_many()
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
