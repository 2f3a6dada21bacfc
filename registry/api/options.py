"""The options of a request, from its query parameters (or the body of a delete), and their validation.

Query values are lists of texts; the first of repeated ones wins, unknown names are ignored. An invalid number is a 400,
other errors are a 422 of the kind of options (`CreateOptions.meta.k8s.io "" is invalid: ...`).

Follows apimachinery pkg/apis/meta/{v1,internalversion}/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from registry.api.errors import Qualified, StatusError, bad_request, invalid, plain_internal
from registry.emulation import emulated
from registry.query import clusterpedia
from registry.query.reserved import PREFIX, ReservedError, split_reserved
from registry.schema.field import FieldError, forbidden, not_supported, required
from registry.schema.field import invalid as invalid_field
from registry.schema.objectmeta.rules import MAX_MANAGER_BYTES, validate_field_manager

Query = Mapping[str, Sequence[str]]

META_GROUP = "meta.k8s.io"
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII)
_INT64 = 1 << 63
_MAX_DIGITS = 20
# More than any list has, and less than what overflows in the database.
_MAX_LIMIT = 1 << 31


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """CreateOptions, UpdateOptions and PatchOptions. `force` is None if it was not given."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool | None = None


@dataclass(frozen=True, slots=True)
class Preconditions:
    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """`propagation_policy` None leaves the choice to the object's own finalizers.

    `ignore_read_error` removes an object that cannot be read (ignoreStoreReadErrorWithClusterBreakingPotential); it is
    False before 1.37.
    """

    dry_run: bool = False
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions = Preconditions()
    grace_period_seconds: int | None = None
    ignore_read_error: bool = False


@dataclass(frozen=True, slots=True)
class ListOptions:
    """`resource_version` is the text as given; `limit` 0 means none; the selectors are not parsed yet."""

    label_selector: str = ""
    field_selector: str = ""
    watch: bool = False
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


def first(query: Query, name: str) -> str:
    """Returns the first value of a parameter, "" if there is none."""
    values = query.get(name)
    return values[0] if values else ""


def exports(query: Query) -> bool:
    """Whether `?export=` of a get asks for the form that kube-apiserver had until 1.18, and refuses since."""
    return _boolean(query, "export") or False


def _boolean(query: Query, name: str) -> bool | None:
    """Returns None if the parameter is absent. Only "0" and "false" are false, an empty value is true."""
    values = query.get(name)
    if values is None:
        return None
    return values[0].lower() not in ("0", "false")


def _integer(query: Query, name: str) -> int | None:
    values = query.get(name)
    if values is None:
        return None
    text = values[0]
    if not _INTEGER.fullmatch(text):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    number = _digits(text)
    if number is None or not -_INT64 <= number < _INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def _digits(text: str) -> int | None:
    """Returns the number in a text of digits; None if it has more of them than 64 bits can hold."""
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _MAX_DIGITS:
        return None
    return -int(digits) if text.startswith("-") else int(digits)


def is_true(query: Query, name: str) -> bool:
    """Whether a parameter is given, and neither "0" nor "false"."""
    return bool(_boolean(query, name))


def write_options(query: Query, kind: str, *, is_apply: bool = False) -> WriteOptions:
    """Parses the options of a write; `kind` is CreateOptions, UpdateOptions or PatchOptions."""
    if not query:
        if is_apply:
            raise _invalid_options(kind, [required("fieldManager", "is required for apply patch")])
        return _NO_WRITE_OPTIONS
    errors: list[FieldError] = []
    manager = first(query, "fieldManager")
    force = _boolean(query, "force") if kind == "PatchOptions" else None
    if is_apply and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    elif not is_apply and force is not None:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    errors += validate_field_manager(manager, "fieldManager")
    dry_run = list(query.get("dryRun") or ())
    errors += _dry_run_errors(dry_run)
    validation = first(query, "fieldValidation")
    if validation not in ("", "Ignore", "Strict", "Warn"):
        errors.append(not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if errors:
        raise _invalid_options(kind, errors)
    return WriteOptions(bool(dry_run), manager, validation, force)


_NO_WRITE_OPTIONS = WriteOptions()


def _dry_run_errors(dry_run: list[str]) -> list[FieldError]:
    if all(v == "All" for v in dry_run):
        return []
    return [not_supported("dryRun", dry_run, ["All"])]


def _invalid_options(kind: str, errors: list[FieldError]) -> StatusError:
    return invalid(Qualified(kind, META_GROUP), "", errors)


def manager_of(options: WriteOptions, user_agent: str) -> str:
    """Returns the field manager: the parameter, else the user agent up to its first slash, at most 128 bytes."""
    if options.field_manager:
        return options.field_manager
    prefix = user_agent.split("/", 1)[0]
    return "".join(c for c in prefix if c.isprintable()).encode()[:MAX_MANAGER_BYTES].decode(errors="ignore")


def delete_options(query: Query, body: Mapping[str, Any] | None) -> DeleteOptions:
    """Returns the options of a delete.

    `body` is a decoded DeleteOptions (registry/http/delete_options.py), which replaces the query entirely, or None.
    """
    if body is None:
        options, errors = _from_query(query)
    else:
        options, errors = _from_body(body)
    if errors:
        raise _invalid_options("DeleteOptions", errors)
    return options


def _from_query(query: Query) -> tuple[DeleteOptions, list[FieldError]]:
    if not query:
        return _NO_DELETE_OPTIONS, []
    # An empty one is given, and none of those there are.
    policy = first(query, "propagationPolicy") if "propagationPolicy" in query else None
    orphan = _boolean(query, "orphanDependents")
    dry_run = list(query.get("dryRun") or ())
    # Not in the published parameters, but upstream's conversion reads them (apimachinery meta/v1/conversion.go).
    preconditions = Preconditions(first(query, "uid") or None, first(query, "resourceVersion") or None)
    options = DeleteOptions(
        bool(dry_run),
        policy,
        orphan,
        preconditions,
        _integer(query, "gracePeriodSeconds"),
        _is_unsafe(_boolean(query, UNSAFE)),
    )
    return options, _delete_errors(policy, orphan, dry_run) + _unsafe_errors(
        options, has_preconditions=preconditions != Preconditions()
    )


_NO_DELETE_OPTIONS = DeleteOptions()


def _from_body(body: Mapping[str, Any]) -> tuple[DeleteOptions, list[FieldError]]:
    conditions, dry_run = body.get("preconditions") or {}, body.get("dryRun") or []
    policy, orphan = body.get("propagationPolicy"), body.get("orphanDependents")
    preconditions = Preconditions(conditions.get("uid"), conditions.get("resourceVersion"))
    unsafe = _is_unsafe(body.get(UNSAFE))
    options = DeleteOptions(bool(dry_run), policy, orphan, preconditions, body.get("gracePeriodSeconds"), unsafe)
    has_preconditions = body.get("preconditions") is not None
    return options, _delete_errors(policy, orphan, dry_run) + _unsafe_errors(
        options, has_preconditions=has_preconditions
    )


UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"


def _is_unsafe(value: bool | None) -> bool:
    """Whether the option is given and on: its feature gate is off before 1.37 (AllowUnsafeMalformedObjectDeletion)."""
    return bool(value) and emulated().is_1_37


def _unsafe_errors(options: DeleteOptions, *, has_preconditions: bool) -> list[FieldError]:
    if not options.ignore_read_error:
        return []
    others = {
        "propagationPolicy": options.propagation_policy is not None,
        "orphanDependents": options.orphan_dependents is not None,
        "gracePeriodSeconds": options.grace_period_seconds is not None,
        "preconditions": has_preconditions,
    }
    return [
        invalid_field(UNSAFE, True, f"cannot be set together with .{name}") for name, given in others.items() if given
    ]


def require_safe_collection(options: DeleteOptions) -> None:
    """Raises 422 for a deletecollection with the option to ignore read errors."""
    if options.ignore_read_error:
        why = "is not allowed with DELETECOLLECTION, try again after removing the option"
        raise _invalid_options("DeleteOptions", [invalid_field(UNSAFE, True, why)])


_POLICIES = ["Foreground", "Background", "Orphan", "nil"]


def _delete_errors(policy: str | None, orphan: bool | None, dry_run: list[str]) -> list[FieldError]:
    errors = []
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid_field("propagationPolicy", policy, detail))
    if policy is not None and policy not in _POLICIES[:3]:
        errors.append(not_supported("propagationPolicy", policy, _POLICIES))
    return errors + _dry_run_errors(dry_run)


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
    offset = _integer({"offset": [selectors.offset]}, "offset") if selectors.offset else None
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
    timeout = _integer(query, "timeoutSeconds")
    return ListOptions(
        label_selector=first(query, "labelSelector"),
        field_selector=first(query, "fieldSelector"),
        watch=is_true(query, "watch"),
        allow_watch_bookmarks=bool(_boolean(query, "allowWatchBookmarks")),
        resource_version=first(query, "resourceVersion"),
        resource_version_match=first(query, "resourceVersionMatch"),
        timeout_seconds=timeout,
        limit=min(max(_integer(query, "limit") or 0, 0), _MAX_LIMIT),
        continue_=first(query, "continue"),
        send_initial_events=_boolean(query, "sendInitialEvents"),
        filter=first(query, "filter"),
        order_by=first(query, "orderBy"),
        offset=min(max(_integer(query, "offset") or 0, 0), _MAX_LIMIT),
        count=first(query, "count"),
    )


_NO_LIST_OPTIONS = ListOptions()


def validate_list_options(options: ListOptions) -> None:
    """Validates resourceVersionMatch, by different rules for lists and watches."""
    errors = _watch_errors(options) if options.watch else _match_errors(options)
    if errors:
        raise _invalid_options("ListOptions", errors)


_MATCH = "resourceVersionMatch"


def _match_errors(options: ListOptions) -> list[FieldError]:
    errors = []
    if options.send_initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    match = options.resource_version_match
    if not match:
        return errors
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
        # kube-apiserver returns this message although no match was given.
        if options.continue_ and not errors:
            errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
        return errors
    if options.send_initial_events is None:
        errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"))
    if match != "NotOlderThan":
        errors.append(not_supported(_MATCH, match, ["NotOlderThan"]))
    if options.continue_:
        errors.append(forbidden(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    return errors


def requested_revision(text: str) -> int:
    """Returns the resource version of a get or a watch. Raises a 500 for an invalid one, as kube-apiserver does."""
    try:
        return parse_revision(text)
    except ValueError as error:
        raise plain_internal(f'resourceVersion: Invalid value: "{text}": {error}') from error


def parse_revision(text: str) -> int:
    """Returns a resource version as an integer. Raises a ValueError with the text of strconv.ParseUint."""
    if not _UNSIGNED.fullmatch(text):
        raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    number = _digits(text)
    if number is None or number >= 1 << 64:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return number
