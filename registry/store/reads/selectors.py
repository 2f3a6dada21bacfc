"""Selector requirements as SQL over a column of labels.

The column holds '<tenant>/<resource>/<key>=<value>' and is NULL where there are no labels. An equality or `in` becomes
`&&`, which the GIN index supports; the others filter rows found otherwise. For a field (`f:spec.color`) an absent value
equals the empty text, so a term on the empty text also checks whether the field is absent.

Two fields are not labels: `f:metadata.name` and `f:metadata.namespace` are read from the object's key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, LiteralString

from registry.store.encoding import label_element, label_prefix, storable
from registry.store.errors import Unstorable
from registry.store.types import Requirement, ResourceName, SelectorOperator, TenantId

FIELD_PREFIX: Final = "f:"

# Values that are read as numbers: the range of int64. Others match no comparison.
_INTEGER_PATTERN: Final = "^[+-]?[0-9]{1,19}$"


class Predicate:
    """A condition parameterized by two columns, `sql("o.labels", "o.key")`, and the values that it binds."""

    __slots__ = ("_terms", "values")

    def __init__(self) -> None:
        self._terms: list[LiteralString] = []
        self.values: dict[str, Any] = {}

    def sql(self, labels: LiteralString, key: LiteralString) -> LiteralString:
        if not self._terms:
            return "true"
        return " AND ".join([term.replace("<labels>", labels).replace("<key>", key) for term in self._terms])

    def bind(self, value: Any) -> LiteralString:
        # Names are taken from a fixed list, so nothing from outside gets into the text.
        name: LiteralString = _NAMES[len(self.values)]
        self.values[name] = value
        return "%(" + name + ")s"

    def add(self, term: LiteralString) -> None:
        self._terms.append("(" + term + ")")


# A selector has a handful of terms. The parsers reject requests with more than this many of labels, or of fields. Two
# values per term.
MAX_TERMS: Final = 1000
_NAMES: Final[tuple[LiteralString, ...]] = tuple([f"s{i}" for i in range(2 * MAX_TERMS)])


def predicate(tenant: TenantId, resource: ResourceName, requirements: Sequence[Requirement]) -> Predicate:
    result = Predicate()
    prefix = label_prefix(tenant, resource)
    if len(requirements) > MAX_TERMS:
        raise Unstorable(f"a selector of more than {MAX_TERMS} terms")
    for requirement in requirements:
        column = _KEY_FIELDS.get(requirement.key)
        if column is not None:
            _on_key(result, column, requirement)
        else:
            _on_labels(result, prefix, requirement)
    return result


# The name is what follows the slash of a key, the namespace what precedes it.
_KEY_FIELDS: Final[dict[str, LiteralString]] = {
    "f:metadata.name": "split_part(<key>, '/', -1)",
    "f:metadata.namespace": "CASE WHEN strpos(<key>, '/') > 0 THEN split_part(<key>, '/', 1) ELSE '' END",
}


def _on_key(result: Predicate, column: LiteralString, requirement: Requirement) -> None:
    values = [storable(value) for value in requirement.values]
    match requirement.match:
        case SelectorOperator.IN:
            result.add(column + " = ANY (" + result.bind(values) + "::text[])")
        case SelectorOperator.NOT_IN:
            result.add(column + " <> ALL (" + result.bind(values) + "::text[])")
        case SelectorOperator.EXISTS:
            result.add(column + " <> ''")
        case SelectorOperator.DOES_NOT_EXIST:
            result.add(column + " = ''")
        case SelectorOperator.GREATER_THAN | SelectorOperator.LESS_THAN:
            # Fields have no order, and no client can ask for one.
            result.add("false")


def _on_labels(result: Predicate, prefix: str, requirement: Requirement) -> None:
    start = prefix + storable(requirement.key) + "="
    elements = [prefix + label_element(f"{requirement.key}={value}") for value in requirement.values]
    or_absent = requirement.key.startswith(FIELD_PREFIX) and "" in requirement.values
    match requirement.match:
        case SelectorOperator.IN:
            term = "<labels> && " + result.bind(elements) + "::text[]"
            if or_absent:
                term = term + " OR NOT " + _exists(result, start)
            result.add(term)
        case SelectorOperator.NOT_IN:
            term = "(<labels> && " + result.bind(elements) + "::text[]) IS NOT TRUE"
            if or_absent:
                term = term + " AND " + _exists(result, start)
            result.add(term)
        case SelectorOperator.EXISTS:
            result.add(_exists(result, start))
        case SelectorOperator.DOES_NOT_EXIST:
            result.add("NOT " + _exists(result, start))
        case SelectorOperator.GREATER_THAN:
            _compare(result, start, ">", requirement)
        case SelectorOperator.LESS_THAN:
            _compare(result, start, "<", requirement)


def _exists(result: Predicate, start: str) -> LiteralString:
    return "EXISTS (SELECT 1 FROM unnest(<labels>) AS l WHERE starts_with(l, " + result.bind(start) + "::text))"


def _compare(result: Predicate, start: str, operator: LiteralString, requirement: Requirement) -> None:
    try:
        bound = int(requirement.values[0])
    except (ValueError, IndexError):
        result.add("false")
        return
    element = result.bind(start) + "::text"
    result.add(
        "EXISTS (SELECT 1 FROM unnest(<labels>) AS l WHERE starts_with(l, " + element + ") AND CASE WHEN"
        " substr(l, length(" + element + ") + 1) ~ '" + _INTEGER_PATTERN + "'"
        " THEN substr(l, length(" + element + ") + 1)::numeric " + operator + " " + result.bind(bound) + "::numeric"
        " ELSE false END)"
    )
