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
# Possessive: a thousand blanks before a parenthesis would be divided in every way, for seconds. Values are stripped.
_TERM: Final = re.compile(r"\s*+query\.registry/([^\s=!(),]++)(?:\s*+==?+([^(),]*+)|\s++in\s*+\(([^)]*+)\)\s*+)")


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
    terms: dict[str, list[str]] = {}
    rest, matches = separate(selector, PREFIX, _TERM, "a reserved key is followed by = and a value")
    for match in matches:
        key, value, values = match.groups()
        if key not in KEYS:
            raise ReservedError(
                f'"{PREFIX}{key}" is not a reserved key; these are {", ".join(PREFIX + k for k in KEYS)}'
            )
        if key in terms:
            raise ReservedError(f'"{PREFIX}{key}" is given twice')
        terms[key] = [one.strip() for one in values.split(",")] if values is not None else [value.strip()]
        if key != "order-by" and len(terms[key]) > 1:
            raise ReservedError(f'"{PREFIX}{key}" has one value')
    return Reserved(
        rest,
        ",".join(re.sub(r"_(desc|asc)$", r" \1", field) for field in terms.get("order-by", ())),
        _single(terms, "offset"),
        _single(terms, "count"),
        " && ".join(f"({term})" for term in _filters(terms)),
    )


def separate(selector: str, prefix: str, pattern: re.Pattern[str], rule: str) -> tuple[str, list[re.Match[str]]]:
    """Returns a label selector without the terms whose keys have `prefix`, and the matches of these with `pattern`.

    Raises ReservedError, with `rule`, for one that does not match.
    """
    rest: list[str] = []
    terms: list[re.Match[str]] = []
    for part in _TERMS.findall(selector):
        if prefix not in part.partition("=")[0].partition("(")[0]:
            rest.append(part)
            continue
        match = pattern.fullmatch(part) if len(part) <= _MAX_LENGTH else None
        if match is None:
            raise ReservedError(f'"{part.strip()[:200]}": {rule}')
        terms.append(match)
    return ",".join(rest), terms


def _single(terms: dict[str, list[str]], key: str) -> str:
    return terms[key][0] if key in terms else ""


def _filters(terms: dict[str, list[str]]) -> list[str]:
    filters = []
    if part := _single(terms, "name-contains"):
        filters.append(f"object.metadata.name.contains({json.dumps(part)})")
    for key, operator in (("since", ">="), ("before", "<")):
        if text := _single(terms, key):
            filters.append(f'object.metadata.creationTimestamp {operator} timestamp("{_moment(key, text)}")')
    return filters


def _moment(key: str, text: str) -> str:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ReservedError(f'"{PREFIX}{key}": "{text[:100]}" is neither a date nor a time as in RFC 3339') from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.isoformat()
