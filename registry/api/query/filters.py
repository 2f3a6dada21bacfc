"""Filters over objects of a request: parsed by its version's schema, and evaluated without what is sensitive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from registry.api.errors import bad_request
from registry.api.request import ResourceRequest
from registry.codec.stored import decode_stored
from registry.query.fields import Path, path_text
from registry.query.indexes import is_hidden
from registry.query.language import Filter, FilterError, FilterTooExpensive, compile_filter
from registry.query.paths import paths_of
from registry.reporting.redaction import without
from registry.store.reporting.model import LAST_APPLIED

TOO_EXPENSIVE: Final = "filter: evaluating it on the objects costs more than a query may: simplify it, or select less"
# Of what is encrypted at rest nothing but metadata can be looked into; values in annotations may be copies.
_OPEN: Final = frozenset({"apiVersion", "kind", "metadata"})


def parse_filter(request: ResourceRequest, text: str, hidden: Sequence[Path]) -> Filter:
    """Of the version that the request asks for. 400 where it is wrong, or names what is hidden."""
    try:
        found = compile_filter(text, request.served.version.schema().structural, request.served.indexes.search_fields)
    except FilterError as error:
        raise bad_request(f"filter: {error}") from error
    for path in paths_of(found):
        if is_hidden(path, hidden):
            raise bad_request(f'filter: "{path_text(path)}" is sensitive and cannot be queried')
    return found


def text_test(request: ResourceRequest, text: str, *, watches: bool) -> Callable[[str], bool]:
    """A test of the JSON of objects, which raises 400 where the filter costs too much."""
    hidden = hidden_paths(request)
    found = parse_filter(request, text, hidden)
    if watches and found.uses_now:
        raise bad_request("filter: a watch cannot use now, for objects would come and go without a change")
    now = request.context.now

    def matches(body: str) -> bool:
        try:
            return found.matches(visible(decode_stored(body), hidden), now)
        except FilterTooExpensive as error:
            raise bad_request(TOO_EXPENSIVE) from error

    return matches


def hidden_paths(request: ResourceRequest) -> tuple[Path, ...]:
    """What no filter and no order sees, so that nobody finds it out by asking."""
    served = request.served
    if request.backend.store.indexing.seals(served.resource_name):
        names = [name for name in served.version.schema().structural.properties if name not in _OPEN]
        return (*((name,) for name in names), ("metadata", "annotations"))
    return served.sensitive


def visible(obj: Mapping[str, Any], hidden: Sequence[Path]) -> Mapping[str, Any]:
    """The object without what is hidden, nor kubectl's copy of it."""
    if not hidden:
        return obj
    return without(without(obj, hidden), (("metadata", "annotations", LAST_APPLIED),))
