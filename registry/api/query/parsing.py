"""Parses the parameters of a query by the schema of the requested version. Raises 400 for invalid ones."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from registry.api.errors import bad_request
from registry.api.list_options import ListOptions
from registry.api.query.filters import hidden_paths, parse_filter, visible
from registry.api.request import ResourceRequest
from registry.api.served import Served
from registry.api.verbs.selection import Selection, list_revision, parse_selection
from registry.query.constraints import Constraints, Points, constraints_of
from registry.query.encoding import MAX_ENTRY, encode
from registry.query.fields import FieldKind, Path, QueryField, query_schema, resolve
from registry.query.indexes import is_hidden, selects_any_field
from registry.query.language import Filter
from registry.query.ordering import Order, OrderError, parse_order
from registry.query.planner import without_keys
from registry.query.tokens import Token, TokenError, decode_token, digest
from registry.store.types import ObjectKey

COUNTS: Final = ("", "exact", "estimated")
MAX_OFFSET: Final = 10_000
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)


@dataclass(slots=True)
class Spent:
    """What a query has examined, and the processor time of its evaluations; shared by all reads of one query."""

    objects: int = 0
    bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ListQuery:
    """`order` None: none was requested. `at`, `token`, `limit`: where the page begins, and its length."""

    selection: Selection
    filter: Filter | None
    constraints: Constraints
    order: Order | None
    hidden: tuple[Path, ...]
    now: datetime.datetime
    digest: str
    at: int | None
    token: Token | None
    limit: int
    offset: int
    count: str
    spent: Spent = field(default_factory=Spent)

    @property
    def request(self) -> ResourceRequest:
        return self.selection.request

    @property
    def position(self) -> tuple[bytes, ObjectKey] | None:
        """The position after which the page begins."""
        return None if self.token is None else (self.token.position, ObjectKey(self.token.key))

    def matches(self, obj: Mapping[str, Any]) -> bool:
        """Whether the filter matches. Raises FilterTooExpensive."""
        return self.filter is None or self.filter.matches(self.visible(obj), self.now)

    def visible(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        return visible(obj, self.hidden)


def is_query(request: ResourceRequest, options: ListOptions) -> bool:
    """Whether a list has parameters of a query, or a field selector that may need an index."""
    if options.filter or options.order_by or options.offset or options.count:
        return True
    return bool(options.field_selector) and selects_any_field(request.served.definition)


def of_state(options: ListOptions) -> ListOptions:
    """Returns the options of the list with which a watch begins."""
    return ListOptions(
        label_selector=options.label_selector, field_selector=options.field_selector, filter=options.filter
    )


def parse_query(request: ResourceRequest, options: ListOptions) -> ListQuery:
    served = request.served
    plain = replace(options, filter="", order_by="", offset=0, count="")
    selection = parse_selection(request, plain)
    hidden = hidden_paths(request)
    wanted = parse_filter(request, options.filter, hidden) if options.filter else None
    which = digest(
        served.api_version, request.namespace, request.name, options.filter, options.order_by, options.label_selector,
        options.field_selector,
    )  # fmt: skip
    token = parse_token(options, which)
    order = parse_order_of(served, token.order if token is not None else options.order_by or None, hidden)
    now = request.context.now
    revision = list_revision(options.resource_version)
    at = token.revision if token is not None else (revision if options.is_exact and revision else None)
    return ListQuery(
        selection,
        wanted,
        _with_terms(constraints_of(wanted, now) if wanted is not None else Constraints((), True), selection),
        order,
        hidden,
        now,
        which,
        at,
        token,
        options.limit,
        options.offset,
        options.count,
    )


def parse_token(options: ListOptions, which: str) -> Token | None:
    """Returns where the page begins, by a token of the same query (`which`); None for the first page. Raises 400, also
    for counts and offsets that are not served."""
    if options.count not in COUNTS:
        raise bad_request(f'count must be exact or estimated, not "{options.count[:100]}"')
    if options.offset > MAX_OFFSET:
        raise bad_request(f"offset must not be more than {MAX_OFFSET}: go on with continue")
    if not options.continue_:
        return None
    try:
        token = decode_token(options.continue_, which)
    except TokenError as error:
        raise bad_request(f"invalid continue token: {error}") from error
    if options.resource_version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    if options.offset:
        raise bad_request("offset is not allowed when using continue")
    return token


def _with_terms(constraints: Constraints, selection: Selection) -> Constraints:
    """Adds the constraints of the field selector's terms, which are tested in any case."""
    root = query_schema(selection.request.served.version.schema().structural)
    terms: list[Points] = []
    for term in selection.fields.terms:
        field = resolve(root, tuple(term.field.split(".")))
        value = field_constant(field, term.value) if term.equal else None
        if value is not None and not any(one.field.path == field.path for one in constraints.per_field):
            terms.append(Points(field, (encode(field.kind, value),)))
    return constraints._replace(per_field=(*constraints.per_field, *terms))


def field_constant(field: QueryField, text: str) -> str | int | bool | None:
    """Returns the only value with the text of a field selector; None if there are several, or none of the type."""
    match field.kind:
        case FieldKind.STRING:
            return text if 0 < len(text) <= MAX_ENTRY // 8 else None  # an absent field has the empty text, too
        case FieldKind.INTEGER:
            number = int(text) if _INTEGER.fullmatch(text) else None
            return number if number is not None and str(number) == text else None
        case FieldKind.BOOLEAN:
            return {"true": True, "false": False}.get(text)
    return None


def parse_order_of(served: Served, text: str | None, hidden: Sequence[Path]) -> Order | None:
    if text is None:
        return None
    try:
        order = parse_order(text, served.version.schema().structural) if text else ()
    except OrderError as error:
        raise bad_request(str(error)) from error
    for term in order:
        if is_hidden(term.field.path, hidden):
            raise bad_request(f'orderBy: "{term.field.text}" is sensitive and cannot be queried')
    return without_keys(order, namespaced=served.namespaced)
