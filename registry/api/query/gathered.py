"""Orders, offsets and counts that no index supports: over several tenants, and of deleted objects.

All matches are gathered, up to the number of objects that a query may examine, sorted, and cut into pages. Each page
gathers again at the revision of the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from registry.api.errors import StatusError, bad_request
from registry.api.list_options import ListOptions
from registry.api.query.filters import hidden_paths, visible
from registry.api.query.parsing import parse_order_of, parse_token
from registry.api.query.reading import MAX_EXAMINED, MAX_EXAMINED_BYTES
from registry.api.request import ResourceRequest
from registry.query.fields import Path
from registry.query.ordering import Order, order_text, position
from registry.query.tokens import Token, TokenError, decode_token, digest, encode_token

ItemT = TypeVar("ItemT")

TOO_MANY: Final = f"the query would look into more than {MAX_EXAMINED} objects: select fewer by namespace or labels"


class Item(NamedTuple, Generic[ItemT]):
    """`position` is that of ordering.position; `key` distinguishes and orders items of one position."""

    position: bytes
    key: str
    value: ItemT


class GatheredPage(NamedTuple, Generic[ItemT]):
    """`total` is the number for the header; None unless requested."""

    values: Sequence[ItemT]
    token: str
    remaining: int | None
    total: int | None


@dataclass(frozen=True, slots=True)
class GatheredQuery:
    """`revision` is that of the previous page; None for the first page."""

    order: Order
    hidden: tuple[Path, ...]
    token: Token | None
    which: str
    limit: int
    offset: int
    count: str

    @property
    def revision(self) -> int | None:
        return None if self.token is None else self.token.revision

    def position(self, obj: Mapping[str, Any]) -> bytes:
        return position(self.order, visible(obj, self.hidden))

    def page(self, items: list[Item[ItemT]], revision: int) -> GatheredPage[ItemT]:
        """Returns a page of all matches, which can be in any order."""
        items.sort(key=lambda item: (item.position, item.key))
        total = len(items)
        if self.token is not None:
            after = (self.token.position, self.token.key)
            items = [item for item in items if (item.position, item.key) > after]
        items = items[self.offset :]
        listed = items[: self.limit] if self.limit else items
        remaining = len(items) - len(listed)
        token = ""
        if remaining and listed:
            last = listed[-1]
            token = encode_token(
                Token(self.which, revision, order_text(self.order), last.position, last.key, total - remaining, total)
            )
        return GatheredPage([item.value for item in listed], token, remaining or None, total if self.count else None)


def is_gathered(options: ListOptions) -> bool:
    """Whether a list has an order, an offset or a count, or continues such a list."""
    if options.order_by or options.offset or options.count:
        return True
    try:
        decode_token(options.continue_, "")
    except TokenError as error:
        return error.is_of_other_query
    return True


def parse_gathered(request: ResourceRequest, options: ListOptions, *where: object) -> GatheredQuery:
    """Parses the parameters; tokens are only valid for the same `where`."""
    which = digest(
        request.served.api_version, request.served.resource_name, request.namespace, options.filter, options.order_by,
        options.label_selector, options.field_selector, *where,
    )  # fmt: skip
    token = parse_token(options, which)
    hidden = hidden_paths(request)
    order = parse_order_of(request.served, options.order_by or None, hidden) or ()
    return GatheredQuery(order, hidden, token, which, options.limit, options.offset, options.count)


def require_bounded(objects: int, size: int) -> None:
    """Raises 400 if a query has gathered too much."""
    if objects > MAX_EXAMINED or size > MAX_EXAMINED_BYTES:
        raise too_many()


def too_many() -> StatusError:
    return bad_request(TOO_MANY)
