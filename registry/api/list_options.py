"""The options of a list, a watch or a deletecollection, also those in label selectors, and their validation.

Follows apimachinery pkg/apis/meta/internalversion/validation/validation.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from registry.api.errors import StatusError, bad_request
from registry.api.options import Query, boolean, first, integer, invalid_options, is_true
from registry.api.selectors.fields import MAX_AUTHORIZED, name_of_selector
from registry.api.selectors.labels import parse_label_selector
from registry.api.selectors.requirements import SelectorError
from registry.query import clusterpedia
from registry.query.reserved import PREFIX, ReservedError, split_reserved
from registry.schema.field import FieldError, forbidden, not_supported

# More than any list has, and less than what overflows in the database.
_MAX_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True)
class ListOptions:
    """`resource_version` is the text as given; `limit` 0 means none; the selectors are not parsed yet.

    `of_watch_path` says that the path requests the watch (/apis/g/v1/watch/widgets), not a parameter: the parameters
    are then validated as those of a list.
    """

    label_selector: str = ""
    field_selector: str = ""
    watch: bool = False
    of_watch_path: bool = False
    allow_watch_bookmarks: bool = False
    resource_version: str = ""
    resource_version_match: str = ""
    timeout_seconds: int | None = None
    limit: int = 0
    continue_: str = ""
    send_initial_events: bool | None = None
    # Extensions of this server (docs/query.md).
    filter: str = ""
    order_by: str = ""
    offset: int = 0
    count: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether the list is of exactly its resource version, as the first page of one with a limit is by default."""
        return self.resource_version_match == "Exact" or (self.limit > 0 and not self.resource_version_match)

    @property
    def is_of_any_revision(self) -> bool:
        """Whether no resource version is required. kube-apiserver adds sendInitialEvents and a match to such watches
        (defaults.go); the text counts, so it does not for `00`."""
        return self.resource_version in ("", "0")


_NO_LIST_OPTIONS = ListOptions()


def list_options(query: Query) -> ListOptions:
    """Parses the options of a list, a watch or a deletecollection."""
    if not query:
        return _NO_LIST_OPTIONS
    options = _list_options(query)
    return _with_reserved(options) if PREFIX in options.label_selector else options


def _with_reserved(options: ListOptions) -> ListOptions:
    """Adds the parameters in the label selector; explicit parameters take precedence."""
    try:
        selectors = split_reserved(options.label_selector)
    except ReservedError as error:
        raise bad_request(f"labelSelector: {error}") from error
    both = options.filter and selectors.filter
    options = replace(
        options,
        label_selector=selectors.selector,
        filter=f"({options.filter}) && {selectors.filter}" if both else options.filter or selectors.filter,
    )
    if options.watch:  # a watch has no order and no pages; kubectl get --watch sends the same selector to both
        return options
    offset = integer({"offset": [selectors.offset]}, "offset") if selectors.offset else None
    return replace(
        options,
        order_by=options.order_by or selectors.order_by,
        offset=options.offset or min(max(offset or 0, 0), _MAX_LIMIT),
        count=options.count or selectors.count,
    )


def with_clusterpedia_labels(query: Query) -> Query:
    """Replaces clusterpedia's label keys by parameters; explicit parameters take precedence."""
    selector = first(query, "labelSelector")
    if clusterpedia.PREFIX not in selector:
        return query
    try:
        selectors = clusterpedia.split(selector)
    except ReservedError as error:
        raise bad_request(f"labelSelector: {error}") from error
    filters = [text for text in (first(query, "filter"), selectors.filter) if text]
    options_of_list = {**query, "labelSelector": [selectors.selector]}
    if filters:
        options_of_list["filter"] = [" && ".join(f"({text})" for text in filters)]
    if not is_true(query, "watch"):
        for name, value in selectors.parameters.items():
            options_of_list.setdefault(name, [value])
    return options_of_list


def _list_options(query: Query) -> ListOptions:
    timeout = integer(query, "timeoutSeconds")
    return ListOptions(
        label_selector=first(query, "labelSelector"),
        field_selector=first(query, "fieldSelector"),
        watch=is_true(query, "watch"),
        allow_watch_bookmarks=bool(boolean(query, "allowWatchBookmarks")),
        resource_version=first(query, "resourceVersion"),
        resource_version_match=first(query, "resourceVersionMatch"),
        timeout_seconds=timeout,
        limit=min(max(integer(query, "limit") or 0, 0), _MAX_LIMIT),
        continue_=first(query, "continue"),
        send_initial_events=boolean(query, "sendInitialEvents"),
        filter=first(query, "filter"),
        order_by=first(query, "orderBy"),
        offset=min(max(integer(query, "offset") or 0, 0), _MAX_LIMIT),
        count=first(query, "count"),
    )


def name_in_list_options(query: Query) -> str:
    """Returns the name that the field selector requires, by which a list is authorized as of that object; else "".

    Options that cannot be decoded require none (requestinfo.go). Nor does a long label selector: every request is
    parsed for it, before its client is known.
    """
    name = name_of_selector(first(query, "fieldSelector")) if "fieldSelector" in query else ""
    if not name:
        return ""
    selector = first(query, "labelSelector")
    if len(selector) > MAX_AUTHORIZED:
        return ""
    try:
        parse_label_selector(selector)
        integer(query, "limit")
        integer(query, "timeoutSeconds")
    except (SelectorError, StatusError):
        return ""
    return name


def validate_list_options(options: ListOptions) -> None:
    """Validates resourceVersionMatch, by different rules for lists and watches."""
    errors = _watch_errors(options) if options.watch and not options.of_watch_path else _match_errors(options)
    if errors:
        raise invalid_options("ListOptions", errors)


_MATCH = "resourceVersionMatch"


def _match_errors(options: ListOptions) -> list[FieldError]:
    errors = _errors_of_match(options) if options.resource_version_match else []
    if options.send_initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _errors_of_match(options: ListOptions) -> list[FieldError]:
    errors, match = [], options.resource_version_match
    if not options.resource_version:
        errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"))
    if options.continue_:
        errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    if match not in ("Exact", "NotOlderThan"):
        errors.append(not_supported(_MATCH, match, ["Exact", "NotOlderThan", ""]))
    if match == "Exact" and options.resource_version == "0":
        errors.append(forbidden(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"'))
    return errors


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errors = []
    match = options.resource_version_match
    if options.send_initial_events is not None and match != "NotOlderThan":
        errors.append(forbidden(_MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if not match:
        if options.continue_ and options.is_of_any_revision and not errors:
            errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
        return errors
    if options.send_initial_events is None:
        errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"))
    if match != "NotOlderThan":
        errors.append(not_supported(_MATCH, match, ["NotOlderThan"]))
    if options.continue_:
        errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    return errors
