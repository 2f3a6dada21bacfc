"""Label keys that are parameters of a query, for clients that send a label selector and nothing else, as kubectl does.

    kubectl get backups -l 'team=storage,query.registry/order-by in (spec.keep_desc, metadata.name)'

They are taken out of the selector before it is matched. Their values are taken as they stand, so they may have
characters that label values have not.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "query.registry/"
KEYS: Final = ("order-by", "offset", "count", "name-contains", "since", "before")
_MAX_LENGTH: Final = 1000
# Matches terms between commas outside parentheses.
_TERMS: Final = re.compile(r"(?:[^,(]|\([^)]*\)?)+")
_TERM: Final = re.compile(r"\s*query\.registry/([^\s=!(),]+)\s*(?:==?\s*([^(),]*?)|\s+in\s*\(([^)]*)\))\s*", re.DOTALL)


class ReservedError(ValueError):
    """The text says what is wrong with a reserved key, for the client."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """The selector without reserved keys, and their query parameters; `filter` is in CEL."""

    selector: str
    order_by: str = ""
    offset: str = ""
    count: str = ""
    filter: str = ""


def split_reserved(selector: str) -> Reserved:
    """Splits a selector. Raises ReservedError."""
    given: dict[str, list[str]] = {}
    rest, matches = separate(selector, PREFIX, _TERM, "a reserved key is followed by = and a value")
    for match in matches:
        key, value, values = match.groups()
        if key not in KEYS:
            raise ReservedError(
                f'"{PREFIX}{key}" is not a reserved key; these are {", ".join(PREFIX + k for k in KEYS)}'
            )
        if key in given:
            raise ReservedError(f'"{PREFIX}{key}" is given twice')
        given[key] = [one.strip() for one in values.split(",")] if values is not None else [value.strip()]
        if key != "order-by" and len(given[key]) > 1:
            raise ReservedError(f'"{PREFIX}{key}" has one value')
    return Reserved(
        rest,
        ",".join(re.sub(r"_(desc|asc)$", r" \1", field) for field in given.get("order-by", ())),
        _one(given, "offset"),
        _one(given, "count"),
        " && ".join(f"({term})" for term in _filters(given)),
    )


def separate(selector: str, prefix: str, pattern: re.Pattern[str], rule: str) -> tuple[str, list[re.Match[str]]]:
    """Returns a label selector without the terms whose keys have `prefix`, and the matches of these with `pattern`.

    Raises ReservedError, with `rule`, for one that does not match.
    """
    rest: list[str] = []
    found: list[re.Match[str]] = []
    for part in _TERMS.findall(selector):
        if prefix not in part.partition("=")[0].partition("(")[0]:
            rest.append(part)
            continue
        match = pattern.fullmatch(part) if len(part) <= _MAX_LENGTH else None
        if match is None:
            raise ReservedError(f'"{part.strip()[:200]}": {rule}')
        found.append(match)
    return ",".join(rest), found


def _one(given: dict[str, list[str]], key: str) -> str:
    return given[key][0] if key in given else ""


def _filters(given: dict[str, list[str]]) -> list[str]:
    found = []
    if part := _one(given, "name-contains"):
        found.append(f"object.metadata.name.contains({json.dumps(part)})")
    for key, operator in (("since", ">="), ("before", "<")):
        if text := _one(given, key):
            found.append(f'object.metadata.creationTimestamp {operator} timestamp("{_moment(key, text)}")')
    return found


def _moment(key: str, text: str) -> str:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ReservedError(f'"{PREFIX}{key}": "{text[:100]}" is neither a date nor a time as in RFC 3339') from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    return found.isoformat()
