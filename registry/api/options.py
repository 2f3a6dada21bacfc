"""The options of a request, from its query parameters (or the body of a delete), and their validation.

Query values are lists of texts; the first of repeated ones wins, unknown names are ignored. An invalid number is a 400,
other errors are a 422 of the kind of options (`CreateOptions.meta.k8s.io "" is invalid: ...`).

Follows apimachinery pkg/apis/meta/{v1,internalversion}/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.api.errors import Qualified, StatusError, bad_request, invalid, plain_internal
from registry.codec.go_text import GoText, go_json, go_quote
from registry.emulation import emulated
from registry.schema.field import FieldError, forbidden, not_supported, required
from registry.schema.field import invalid as invalid_field
from registry.schema.objectmeta.rules import MAX_MANAGER_BYTES, validate_field_manager

Query = Mapping[str, Sequence[str]]

META_GROUP = "meta.k8s.io"
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_UNSIGNED = re.compile(r"[0-9]+", re.ASCII)
_INT64 = 1 << 63
_MAX_DIGITS = 20


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
    preconditions: Preconditions | None = None
    grace_period_seconds: int | None = None
    ignore_read_error: bool = False


def first(query: Query, name: str) -> str:
    """Returns the first value of a parameter, "" if there is none."""
    values = query.get(name)
    return values[0] if values else ""


def exports(query: Query) -> bool:
    """Whether `?export=` of a get asks for the form that kube-apiserver had until 1.18, and refuses since."""
    return boolean(query, "export") or False


def boolean(query: Query, name: str) -> bool | None:
    """Returns None if the parameter is absent. Only "0" and "false" are false, an empty value is true."""
    values = query.get(name)
    if values is None:
        return None
    return values[0].lower() not in ("0", "false")


def integer(query: Query, name: str) -> int | None:
    values = query.get(name)
    if values is None:
        return None
    text = values[0]
    if not _INTEGER.fullmatch(text):
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: invalid syntax")
    number = _digits(text)
    if number is None or not -_INT64 <= number < _INT64:
        raise bad_request(f"strconv.ParseInt: parsing {go_quote(text)}: value out of range")
    return number


def _digits(text: str) -> int | None:
    """Returns the number in a text of digits; None if it has more of them than 64 bits can hold."""
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _MAX_DIGITS:
        return None
    return -int(digits) if text.startswith("-") else int(digits)


def is_true(query: Query, name: str) -> bool:
    """Whether a parameter is given, and neither "0" nor "false"."""
    return bool(boolean(query, name))


def write_options(query: Query, kind: str, *, is_apply: bool = False) -> WriteOptions:
    """Parses the options of a write; `kind` is CreateOptions, UpdateOptions or PatchOptions."""
    if not query:
        if is_apply:
            raise invalid_options(kind, [required("fieldManager", "is required for apply patch")])
        return _NO_WRITE_OPTIONS
    errors: list[FieldError] = []
    manager = first(query, "fieldManager")
    force = boolean(query, "force") if kind == "PatchOptions" else None
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
        raise invalid_options(kind, errors)
    return WriteOptions(bool(dry_run), manager, validation, force)


_NO_WRITE_OPTIONS = WriteOptions()


def _dry_run_errors(dry_run: list[str]) -> list[FieldError]:
    if all(v == "All" for v in dry_run):
        return []
    return [not_supported("dryRun", dry_run, ["All"])]


def invalid_options(kind: str, errors: list[FieldError]) -> StatusError:
    return invalid(Qualified(kind, META_GROUP), "", errors)


def manager_of(options: WriteOptions, user_agent: str) -> str:
    """Returns the field manager: the parameter, else the user agent up to its first slash, at most 128 bytes."""
    if options.field_manager:
        return options.field_manager
    prefix = user_agent.split("/", 1)[0]
    return "".join(c for c in prefix if c.isprintable()).encode()[:MAX_MANAGER_BYTES].decode(errors="ignore")


def delete_options(query: Query, body: Mapping[str, Any] | None) -> DeleteOptions:
    """Returns the options of a delete.

    `body` is a decoded DeleteOptions (registry/http/bodies.py), which replaces the query entirely, or None.
    """
    if body is None:
        options, errors = _from_query(query)
    else:
        options, errors = _from_body(body)
    if errors:
        raise invalid_options("DeleteOptions", errors)
    return options


def _from_query(query: Query) -> tuple[DeleteOptions, list[FieldError]]:
    if not query:
        return _NO_DELETE_OPTIONS, []
    # An empty one is given, and none of those there are.
    policy = first(query, "propagationPolicy") if "propagationPolicy" in query else None
    orphan = boolean(query, "orphanDependents")
    dry_run = list(query.get("dryRun") or ())
    # Not in the published parameters, but upstream's conversion reads them (apimachinery meta/v1/conversion.go).
    uid, resource_version = first(query, "uid") or None, first(query, "resourceVersion") or None
    options = DeleteOptions(
        bool(dry_run),
        policy,
        orphan,
        Preconditions(uid, resource_version) if uid or resource_version else None,
        integer(query, "gracePeriodSeconds"),
        _is_unsafe(boolean(query, UNSAFE)),
    )
    return options, _delete_errors(policy, orphan, dry_run) + _unsafe_errors(options)


_NO_DELETE_OPTIONS = DeleteOptions()


def _from_body(body: Mapping[str, Any]) -> tuple[DeleteOptions, list[FieldError]]:
    conditions, dry_run = body.get("preconditions"), body.get("dryRun") or []
    policy, orphan = body.get("propagationPolicy"), body.get("orphanDependents")
    preconditions = None
    if conditions is not None:
        preconditions = Preconditions(conditions.get("uid"), conditions.get("resourceVersion"))
    unsafe = _is_unsafe(body.get(UNSAFE))
    options = DeleteOptions(bool(dry_run), policy, orphan, preconditions, body.get("gracePeriodSeconds"), unsafe)
    return options, _delete_errors(policy, orphan, dry_run) + _unsafe_errors(options)


UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"


def _is_unsafe(value: bool | None) -> bool:
    """Whether the option is given and on: its feature gate is off before 1.37 (AllowUnsafeMalformedObjectDeletion)."""
    return bool(value) and emulated().is_1_37


def _unsafe_errors(options: DeleteOptions) -> list[FieldError]:
    if not options.ignore_read_error:
        return []
    others = {
        "propagationPolicy": options.propagation_policy is not None,
        "orphanDependents": options.orphan_dependents is not None,
        "gracePeriodSeconds": options.grace_period_seconds is not None,
        "preconditions": options.preconditions is not None,
    }
    return [
        invalid_field(UNSAFE, True, f"cannot be set together with .{name}") for name, given in others.items() if given
    ]


def require_safe_collection(options: DeleteOptions) -> None:
    """Raises 422 for a deletecollection with the option to ignore read errors."""
    if options.ignore_read_error:
        why = "is not allowed with DELETECOLLECTION, try again after removing the option"
        raise invalid_options("DeleteOptions", [invalid_field(UNSAFE, True, why)])


_POLICIES = ["Foreground", "Background", "Orphan", "nil"]


def _delete_errors(policy: str | None, orphan: bool | None, dry_run: list[str]) -> list[FieldError]:
    errors = []
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid_field("propagationPolicy", policy, detail))
    if policy is not None and policy not in _POLICIES[:3]:
        errors.append(not_supported("propagationPolicy", GoText(go_json(policy)), _POLICIES))
    return errors + _dry_run_errors(dry_run)


def requested_revision(text: str) -> int:
    """Returns the resource version of a get or a watch. Raises a 500 for an invalid one, as kube-apiserver does."""
    try:
        return parse_revision(text)
    except ValueError as error:
        raise plain_internal(f"resourceVersion: Invalid value: {go_quote(text)}: {error}") from error


def parse_revision(text: str) -> int:
    """Returns a resource version as an integer. Raises a ValueError with the text of strconv.ParseUint."""
    if not _UNSIGNED.fullmatch(text):
        raise ValueError(f"strconv.ParseUint: parsing {go_quote(text)}: invalid syntax")
    number = _digits(text)
    if number is None or number >= 1 << 64:
        raise ValueError(f"strconv.ParseUint: parsing {go_quote(text)}: value out of range")
    return number
