"""Selector requirements as SQL over a column of labels.

The column holds '<tenant>/<resource>/<key>=<value>' and is NULL where there are no labels. An equality or `in` becomes
`&&`, which the GIN index supports; the others filter rows found otherwise. For a field (`f:spec.color`) an absent value
equals the empty text, so a term on the empty text also checks whether the field is absent.

Two fields are not labels: `f:metadata.name` and `f:metadata.namespace` are read from the object's key.

Each term reads all labels of an object, and `&&` compares each with each value. So of a long selector most terms become
one, which looks up each label in hashed arrays: the time grows with the labels and the values, not with their product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, LiteralString

from registry.codec.json_encode import encode_json_text
from registry.store.arrays import TextArray
from registry.store.encoding import label_element, label_prefix, storable
from registry.store.errors import Unstorable
from registry.store.types import Requirement, ResourceName, SelectorOperator, TenantId

FIELD_PREFIX: Final = "f:"

# Values that are read as numbers: the range of int64. Others match no comparison.
_INTEGER_PATTERN: Final = "^[+-]?[0-9]{1,19}$"
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

# The labels that have terms of their own, and the values of these. Selectors that people write have fewer.
_OWN_KEYS: Final = 4
_OWN_VALUES: Final = 64
_SHORT_VALUES: Final = 16

# The parsers reject requests with more than this many terms of labels, or of fields.
MAX_TERMS: Final = 1000


class Predicate:
    """A condition parameterized by two columns, `sql("o.labels", "o.key")`, and the values that it binds."""

    __slots__ = ("_terms", "is_long", "values")

    def __init__(self) -> None:
        self._terms: list[LiteralString] = []
        self.values: dict[str, Any] = {}
        # Whether it takes tens of milliseconds of PostgreSQL for an object that has tens of thousands of labels.
        self.is_long = False

    def sql(self, labels: LiteralString, key: LiteralString) -> LiteralString:
        if not self._terms:
            return "true"
        return " AND ".join([term.replace("<labels>", labels).replace("<key>", key) for term in self._terms])

    def bind(self, value: Any) -> LiteralString:
        # Names are taken from a fixed list, so nothing from outside gets into the text.
        name: LiteralString = _NAMES[len(self.values)]
        self.values[name] = value
        return "%(" + name + ")s"

    def texts(self, values: Iterable[str]) -> LiteralString:
        return self.bind(TextArray(list(values))) + "::text[]"

    def add(self, term: LiteralString) -> None:
        self._terms.append("(" + term + ")")


# At most eight values for a key of its own, two for each of the two fields, and thirteen for the common term.
_NAMES: Final[tuple[LiteralString, ...]] = tuple([f"s{i}" for i in range(8 * _OWN_KEYS + 4 + 13)])


def predicate(tenant: TenantId, resource: ResourceName, requirements: Sequence[Requirement]) -> Predicate:
    if len(requirements) > MAX_TERMS:
        raise Unstorable(f"a selector of more than {MAX_TERMS} terms")
    wanted: dict[str, _Wanted] = {}
    for requirement in requirements:
        wanted.setdefault(requirement.key, _Wanted(requirement.key)).restrict(requirement)
    result, prefix = Predicate(), label_prefix(tenant, resource)
    keys, values, rest = _OWN_KEYS, _OWN_VALUES, list[_Wanted]()
    for one in wanted.values():
        column = _KEY_FIELDS.get(one.key)
        if one.is_impossible:
            result.add("false")
        elif column is not None:
            _on_key(result, column, one)
        elif keys and one.size <= values:
            keys, values = keys - 1, values - one.size
            _on_labels(result, prefix, one)
        else:
            rest.append(one)
    if rest:
        _on_all_labels(result, prefix, rest)
    result.is_long = bool(rest) or _OWN_VALUES - values > _SHORT_VALUES
    return result


class _Wanted:
    """What all requirements of one key allow together. A field has a value always, perhaps the empty text."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.allowed: set[str] | None = None
        self.refused: set[str] = set()
        self.exists = False
        self.is_absent = False
        self.bounds: tuple[int, int] | None = None
        self.is_impossible = False

    def restrict(self, requirement: Requirement) -> None:
        match requirement.match:
            case SelectorOperator.IN:
                values = set(requirement.values)
                self.allowed = values if self.allowed is None else self.allowed & values
                self.is_impossible |= not self.allowed
            case SelectorOperator.NOT_IN:
                self.refused.update(requirement.values)
            case SelectorOperator.EXISTS:
                self.exists = True
            case SelectorOperator.DOES_NOT_EXIST:
                self.is_absent = True
            case SelectorOperator.GREATER_THAN | SelectorOperator.LESS_THAN:
                self._compare(requirement)

    def _compare(self, requirement: Requirement) -> None:
        least, most = self.bounds or (_LEAST, _MOST)
        try:
            bound = int(requirement.values[0])
        except (ValueError, IndexError):
            self.is_impossible = True
            return
        if requirement.match is SelectorOperator.GREATER_THAN:
            least = max(least, bound + 1)
        else:
            most = min(most, bound - 1)
        self.bounds = least, most
        self.is_impossible |= least > most

    @property
    def size(self) -> int:
        return len(self.allowed or ()) + len(self.refused)

    @property
    def allows_absent(self) -> bool:
        """Whether `allowed` includes the value of an absent field."""
        return self.key.startswith(FIELD_PREFIX) and self.allowed is not None and "" in self.allowed

    @property
    def requires_present(self) -> bool:
        """Whether the key must exist, since the value of an absent field is refused."""
        return self.exists or (self.key.startswith(FIELD_PREFIX) and "" in self.refused)

    def start(self, prefix: str) -> str:
        return prefix + storable(self.key) + "="

    def elements(self, prefix: str, values: set[str]) -> list[str]:
        return [prefix + label_element(f"{self.key}={value}") for value in values]


# The name is what follows the slash of a key, the namespace what precedes it.
_KEY_FIELDS: Final[dict[str, LiteralString]] = {
    "f:metadata.name": "split_part(<key>, '/', -1)",
    "f:metadata.namespace": "CASE WHEN strpos(<key>, '/') > 0 THEN split_part(<key>, '/', 1) ELSE '' END",
}


def _on_key(result: Predicate, column: LiteralString, wanted: _Wanted) -> None:
    if wanted.allowed is not None:
        result.add(column + " = ANY (" + result.texts(map(storable, wanted.allowed)) + ")")
    if wanted.refused:
        result.add(column + " <> ALL (" + result.texts(map(storable, wanted.refused)) + ")")
    if wanted.exists:
        result.add(column + " <> ''")
    if wanted.is_absent:
        result.add(column + " = ''")
    if wanted.bounds is not None:
        result.add("false")  # fields have no order, and no client can ask for one


def _on_labels(result: Predicate, prefix: str, wanted: _Wanted) -> None:
    """Adds terms for one key."""
    if wanted.allowed is not None:
        term = "<labels> && " + result.texts(wanted.elements(prefix, wanted.allowed))
        if wanted.allows_absent:
            term = term + " OR NOT " + _exists(result, wanted.start(prefix))
        result.add(term)
    if wanted.refused:
        result.add("(<labels> && " + result.texts(wanted.elements(prefix, wanted.refused)) + ") IS NOT TRUE")
    if wanted.requires_present:
        result.add(_exists(result, wanted.start(prefix)))
    if wanted.is_absent:
        result.add("NOT " + _exists(result, wanted.start(prefix)))
    if wanted.bounds is not None:
        start = result.bind(wanted.start(prefix)) + "::text"
        result.add(
            "EXISTS (SELECT 1 FROM unnest(<labels>) AS l WHERE starts_with(l, " + start + ") AND "
            + _is_between("substr(l, length(" + start + ") + 1)", _bounds(result, wanted.bounds)) + ")"
        )  # fmt: skip


def _exists(result: Predicate, start: str) -> LiteralString:
    return "EXISTS (SELECT 1 FROM unnest(<labels>) AS l WHERE starts_with(l, " + result.bind(start) + "::text))"


def _bounds(result: Predicate, bounds: tuple[int, int]) -> LiteralString:
    least, most = bounds
    return result.bind(least) + "::numeric AND " + result.bind(most) + "::numeric"


def _is_between(value: LiteralString, bounds: LiteralString) -> LiteralString:
    return (
        "CASE WHEN " + value + " ~ '" + _INTEGER_PATTERN + "' THEN " + value + "::numeric BETWEEN " + bounds
        + " ELSE false END"
    )  # fmt: skip


def _on_all_labels(result: Predicate, prefix: str, several: Sequence[_Wanted]) -> None:
    """Adds one term for many keys. An object has one label of a key at most, so that counting the labels suffices."""
    counts: list[LiteralString] = []

    def add(condition: LiteralString, expected: int) -> None:
        counts.append("count(*) FILTER (WHERE " + condition + ") = " + result.bind(expected) + "::bigint")

    def elements(ones: Sequence[_Wanted], values: Callable[[_Wanted], set[str]]) -> LiteralString:
        return result.texts([element for one in ones for element in one.elements(prefix, values(one))])

    def keys(ones: Sequence[_Wanted]) -> LiteralString:
        return _KEY + " = ANY (" + result.texts([prefix + storable(one.key) for one in ones]) + ")"

    required = [one for one in several if one.allowed is not None and not one.allows_absent]
    if required:
        add("l = ANY (" + elements(required, lambda one: one.allowed or set()) + ")", len(required))
    defaulted = [one for one in several if one.allows_absent]
    if defaulted:
        add(keys(defaulted) + " AND l <> ALL (" + elements(defaulted, lambda one: one.allowed or set()) + ")", 0)
    refusing = [one for one in several if one.refused]
    if refusing:
        add("l = ANY (" + elements(refusing, lambda one: one.refused) + ")", 0)
    present = [one for one in several if one.requires_present]
    if present:
        add(keys(present), len(present))
    absent = [one for one in several if one.is_absent]
    if absent:
        add(keys(absent), 0)
    compared = {prefix + storable(one.key): list(one.bounds) for one in several if one.bounds is not None}
    if compared:
        bounds = "(" + result.bind(encode_json_text(compared)) + "::jsonb -> " + _KEY + ")"
        add(_is_between(_VALUE, "(" + bounds + " ->> 0)::numeric AND (" + bounds + " ->> 1)::numeric"), len(compared))
    result.add("SELECT " + " AND ".join(counts) + " FROM unnest(<labels>) AS l")


_KEY: Final[LiteralString] = "split_part(l, '=', 1)"
_VALUE: Final[LiteralString] = "substr(l, strpos(l, '=') + 1)"
