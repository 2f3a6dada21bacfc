"""Filters over objects of a request: parsed by its version's schema, and evaluated without sensitive fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from registry.api.errors import bad_request
from registry.api.request import ResourceRequest
from registry.codec.stored import decode_stored
from registry.query.fields import Path, path_text
from registry.query.indexes import is_hidden
from registry.query.language import Filter, FilterError, FilterTooExpensive, compile_filter, paths_of
from registry.reporting.redaction import without
from registry.schema.pruning import META_FIELDS
from registry.store.reporting.model import LAST_APPLIED

TOO_EXPENSIVE: Final = "filter: evaluating it on the objects costs more than a query may: simplify it, or select less"


def parse_filter(request: ResourceRequest, text: str, hidden: Sequence[Path]) -> Filter:
    """Parses a filter for the requested version. Raises 400 if it is invalid, or names hidden fields."""
    try:
        served = request.served
        parsed = compile_filter(text, served.version.schema().structural, served.extraction.indexes.search_fields)
    except FilterError as error:
        raise bad_request(f"filter: {error}") from error
    for path in paths_of(parsed):
        if is_hidden(path, hidden):
            raise bad_request(f'filter: "{path_text(path)}" is sensitive and cannot be queried')
    return parsed


def text_test(request: ResourceRequest, text: str, *, watches: bool) -> Callable[[str], bool]:
    """Returns a test for the JSON of objects, which raises 400 if the filter costs too much."""
    hidden = hidden_paths(request)
    parsed = parse_filter(request, text, hidden)
    if watches and parsed.uses_now:
        raise bad_request("filter: a watch cannot use now, for objects would come and go without a change")
    now = request.context.now

    def matches(body: str) -> bool:
        try:
            return parsed.matches(visible(decode_stored(body), hidden), now)
        except FilterTooExpensive as error:
            raise bad_request(TOO_EXPENSIVE) from error

    return matches


def hidden_paths(request: ResourceRequest) -> tuple[Path, ...]:
    """Returns the fields that filters and orders cannot see, so that queries cannot reveal them."""
    served = request.served
    if request.backend.store.indexing.seals(served.resource_name):
        # In objects that are encrypted at rest only metadata can be queried; values of annotations may be copies.
        names = [name for name in served.version.schema().structural.properties if name not in META_FIELDS]
        return (*((name,) for name in names), ("metadata", "annotations"))
    return served.extraction.sensitive


def visible(obj: Mapping[str, Any], hidden: Sequence[Path]) -> Mapping[str, Any]:
    """Returns the object without hidden fields, and without kubectl's copy of them."""
    if not hidden:
        return obj
    return without(without(obj, hidden), (("metadata", "annotations", LAST_APPLIED),))
