"""The label keys of clusterpedia as parameters of a query, for clients that were written for it.

    kubectl get backups -l 'search.clusterpedia.io/orderby in (namespace, created_at_desc)'

Opt-in, for a label of such a key would be a label elsewhere. What has no meaning here (clusters, owner-seniority) is an
error, as is SQL in a URL (whereSQL).

Follows clusterpedia-io/api clusterpedia/v1beta1 types.go and conversion.go.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from registry.query.reserved import ReservedError, separate

# Its keys begin with search.clusterpedia.io/ and internalstorage.clusterpedia.io/.
PREFIX: Final = ".clusterpedia.io/"
# As that of reserved.py.
_TERM: Final = re.compile(
    r"\s*+((?:search|internalstorage)\.clusterpedia\.io/[^\s=!(),]++)"
    r"(?:\s*+==?+([^(),]*+)|\s++in\s*+\(([^)]*+)\)\s*+)"
)
_FIELDS: Final = {
    "name": "metadata.name",
    "namespace": "metadata.namespace",
    "uid": "metadata.uid",
    "created_at": "metadata.creationTimestamp",
}
_DIRECTION: Final = re.compile(r"(.*?)[_ ](desc|asc)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Labels:
    """The selector without clusterpedia's keys, their conditions in CEL, and their query parameters."""

    selector: str
    filter: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def split(selector: str) -> Labels:
    """Splits a selector. Raises ReservedError."""
    filters: list[str] = []
    parameters: dict[str, str] = {}
    seen: set[str] = set()
    rest, matches = separate(selector, PREFIX, _TERM, "a key of clusterpedia is followed by = or in, and a value")
    for match in matches:
        key, value, several = match.groups()
        values = [one.strip() for one in (value if several is None else several).split(",")]
        if key in seen:
            raise ReservedError(f'"{key}" is given twice')
        seen.add(key)
        if key in _FILTERS:
            filters.append(_FILTERS[key](values))
        elif key in _PARAMETERS:
            name, expression_of = _PARAMETERS[key]
            if text := expression_of(values):
                parameters[name] = text
        else:
            raise ReservedError(
                f'"{key}" has no meaning here: these have, {", ".join(sorted((*_FILTERS, *_PARAMETERS)))}'
            )
    return Labels(rest, " && ".join(filters), parameters)


def _one(values: Sequence[str]) -> str:
    if len(values) != 1 or not values[0]:
        raise ReservedError(f'"{",".join(values)[:100]}" is not one value')
    return values[0]


def _order(values: Sequence[str]) -> str:
    terms = []
    for value in values:
        match = _DIRECTION.fullmatch(value)
        name, direction = (match[1], match[2].lower()) if match else (value, "asc")
        terms.append(_FIELDS.get(name, name) + (" desc" if direction == "desc" else ""))
    return ",".join(terms)


def _is_true(values: Sequence[str]) -> bool:
    return _one(values).lower() in ("true", "1", "t")


def _moment(values: Sequence[str]) -> str:
    """Parses RFC 3339, a date with or without a time of day, or seconds since 1970."""
    text = _one(values)
    try:
        if text.isascii() and text.isdigit():
            moment = datetime.datetime.fromtimestamp(int(text[:12]), datetime.UTC)
        else:
            moment = datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ReservedError(f'"{text[:100]}" is not a time') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return f'timestamp("{moment.isoformat()}")'


def _among(path: str) -> Callable[[Sequence[str]], str]:
    return lambda values: f"object.{path} in [{', '.join(map(json.dumps, values))}]"


def _owner(name: str) -> Callable[[Sequence[str]], str]:
    return lambda values: f"object.metadata.ownerReferences.exists(r, r.{name} == {json.dumps(_one(values))})"


_FILTERS: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "search.clusterpedia.io/names": _among("metadata.name"),
    "search.clusterpedia.io/namespaces": _among("metadata.namespace"),
    "search.clusterpedia.io/owner-uid": _owner("uid"),
    "search.clusterpedia.io/owner-name": _owner("name"),
    "search.clusterpedia.io/since": lambda values: f"object.metadata.creationTimestamp >= {_moment(values)}",
    "search.clusterpedia.io/before": lambda values: f"object.metadata.creationTimestamp < {_moment(values)}",
    "internalstorage.clusterpedia.io/fuzzy-name": lambda values: " && ".join(
        f"object.metadata.name.contains({json.dumps(value)})" for value in values
    ),
}
_PARAMETERS: Final[Mapping[str, tuple[str, Callable[[Sequence[str]], str]]]] = {
    "search.clusterpedia.io/orderby": ("orderBy", _order),
    "search.clusterpedia.io/offset": ("offset", _one),
    "search.clusterpedia.io/limit": ("limit", _one),
    "search.clusterpedia.io/with-remaining-count": ("count", lambda values: "exact" if _is_true(values) else ""),
    # A token is always returned if there is more.
    "search.clusterpedia.io/with-continue": ("", lambda values: ""),
}
