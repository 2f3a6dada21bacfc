"""A compiled schema: decodes, defaults and validates the objects of one version of one resource.

`compile_schema` shares one CompiledSchema between all equal schemas of all tenants, in a bounded cache. Creating one is
cheap; the closures of the fast paths are compiled when an object first needs them (fast_prune.py, fast_validate.py).

A write is processed in kube-apiserver's order: `process` (metadata, pruning, nulls, embedded metadata, defaults), then
the caller's rules on kind and metadata, then `validate`, then the validation rules of registry/cel.

Follows apiextensions-apiserver pkg/apiserver/customresource_handler.go and pkg/registry/customresource/strategy.go.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final

from registry.budget import MatchingExceeded
from registry.caches import LruCache
from registry.schema.checks import ChangesCheck, Check
from registry.schema.defaulting import Defaulter, compile_defaulter, drop_nulls, prune_defaults
from registry.schema.embedded import EmbeddedResources
from registry.schema.fast_prune import compile_fast_prune, compile_fast_prune_changes
from registry.schema.fast_validate import compile_fast_validate, compile_fast_validate_changes, compile_with_budget
from registry.schema.field import ErrorType, FieldError, invalid
from registry.schema.listtypes import ListTypes
from registry.schema.model import KEEPS_ALL, Structural, from_json
from registry.schema.objectmeta.decoding import decode_object_meta
from registry.schema.pruning import prune
from registry.schema.ratcheting import Correlation
from registry.schema.validation import validate
from registry.schema.values import deep_copy

__all__ = ["CompiledSchema", "blocks_rules", "compile_schema", "unchecked_rules_error"]

# Stored objects carry the identity of the schema that processed them; increment this when processing changes.
ALGORITHM_VERSION = 1

# The compiled schemas that a process keeps. One of a large definition takes some megabytes, the largest 80; most take
# some hundreds of kilobytes.
MAX_COMPILED_BYTES: Final = 160 * 1024 * 1024
# What one takes at most, by the length of its JSON; and with what else serves its objects: tables, types for ownership.
_BYTES_A_CHARACTER: Final = 27
_OWN_BYTES: Final = 25_000


class CompiledSchema:
    """An immutable schema. `json` is the schema as given; callers must not change it. `size` is about what it takes in
    memory, in bytes, once it is compiled."""

    def __init__(self, schema: Mapping[str, Any], identity: int, size: int = _OWN_BYTES) -> None:
        self.size = size
        self.json = schema
        self.identity = identity  # stable across restarts; a non-negative signed 64-bit integer
        self._keeps_all = bool(schema.get(KEEPS_ALL))

    @cached_property
    def structural(self) -> Structural:
        return prune_defaults(from_json(self.json))

    @cached_property
    def ownership_schema(self) -> Structural:
        """The schema for field ownership: where nothing is pruned, each object may have further fields."""
        return keeping_all(self.structural) if self._keeps_all else self.structural

    @cached_property
    def _tidy(self) -> Check:
        return compile_fast_prune(self.structural, is_root=True)

    @cached_property
    def _tidy_changes(self) -> ChangesCheck:
        return compile_fast_prune_changes(self.structural, is_root=True)

    @cached_property
    def _defaulter(self) -> Defaulter | None:
        return compile_defaulter(self.structural)

    @cached_property
    def _valid(self) -> Check:
        return compile_fast_validate(self.structural)

    @cached_property
    def _valid_changes(self) -> ChangesCheck:
        return compile_fast_validate_changes(self.structural)

    @cached_property
    def _fast_check(self) -> Callable[[Structural], Check]:
        return _fast_checks()

    @cached_property
    def _status(self) -> Structural | None:
        return self.structural.properties.get("status")

    @cached_property
    def _status_valid(self) -> Check:
        assert self._status is not None
        return compile_fast_validate(self._status)

    @cached_property
    def _embedded_resources(self) -> EmbeddedResources:
        return EmbeddedResources(self.structural)

    @cached_property
    def _list_types(self) -> ListTypes:
        return ListTypes(self.structural)

    def prepare(self) -> None:
        """Compiles now what the first object would wait for: up to 100 ms for the largest definitions, 1 ms for most.

        Optional; a definition may call it in a thread before it is served.
        """
        _ = (self._tidy, self._defaulter, self._valid, self._embedded_resources, self._list_types)

    # ---- decoding

    def process(
        self,
        obj: dict[str, Any],
        unknown: list[str] | None,
        *,
        keeps_refused_nulls: bool = False,
        old: dict[str, Any] | None = None,
    ) -> None:
        """Processes a written object in place: decodes metadata, prunes, drops nulls, applies defaults.

        With `keeps_refused_nulls`, nulls that their schemas refuse are left for validation.

        What `obj` shares with `old`, an object that this schema has processed, is left as it is.

        Appends the paths of removed fields to `unknown` in kube-apiserver's order: those of metadata, then all others
        sorted, then those of embedded metadata. None skips collecting them.
        Raises DecodeError with Go's text, to follow `W in version "v1" cannot be handled as a W: `.
        """
        if "metadata" in obj:
            obj["metadata"] = decode_object_meta(obj["metadata"], unknown=unknown)
        if old is None or not self._tidy_changes(obj, old):
            self.prune(obj, unknown, keeps_refused_nulls=keeps_refused_nulls)
        self._embedded_resources.coerce(obj, unknown)
        if self._defaulter is not None:
            self._defaulter(obj, old)

    def prune(
        self, obj: dict[str, Any], unknown: list[str] | None = None, *, keeps_refused_nulls: bool = False
    ) -> None:
        """Removes in place the fields that the schema does not name, and nulls that are not allowed."""
        if not self._tidy(obj):
            if not self._keeps_all:
                prune(obj, self.structural, is_root=True, unknown=unknown)
            drop_nulls(obj, self.structural, only_valid=keeps_refused_nulls)

    def default(self, obj: dict[str, Any]) -> None:
        if self._defaulter is not None:
            self._defaulter(obj)

    def complete(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Returns an applied object without unknown fields and forbidden nulls, and with defaults, added in place.

        The apply has refused unknown fields, except in objects of which the schema names none: to it, these are maps.
        A null that its schema refuses is left for validation.
        """
        is_tidy, has_embedded = self._tidy(obj), self._embedded_resources.present
        if has_embedded or not is_tidy:
            obj = deep_copy(obj)  # it shares values with the applied configuration, which may be merged again
        if not is_tidy:
            if not self._keeps_all:
                prune(obj, self.structural, is_root=True)
            drop_nulls(obj, self.structural, only_valid=True)
        if has_embedded:
            self._embedded_resources.decode_applied(obj)
        self.default(obj)
        return obj

    def prune_and_default(self, obj: dict[str, Any]) -> None:
        """Processes a stored object in place on reading: removes what another schema allowed, applies new defaults.

        Embedded metadata was decoded when it was written and is unchanged.
        """
        self.prune(obj)
        self.default(obj)

    # ---- validation

    def validate(self, obj: dict[str, Any], *, scale_errors: Sequence[FieldError] = ()) -> list[FieldError]:
        """The errors of a new object: values, then `scale_errors`, embedded resources, list types."""
        return [*self.validate_values(obj), *scale_errors, *self.validate_embedded(obj), *self.validate_list_types(obj)]

    def validate_update(
        self, obj: dict[str, Any], old: dict[str, Any], *, scale_errors: Sequence[FieldError] = ()
    ) -> list[FieldError]:
        """The errors of an updated object; unchanged values may keep their errors (ratcheting)."""
        if not self._keeps_all and self._list_types.has_plain_keys(obj) and _holds(self._valid_changes, obj, old):
            return [*scale_errors, *self.validate_embedded(obj)]
        return [
            *self.validate_values(obj, old),
            *scale_errors,
            *self.validate_embedded(obj),
            *self.validate_list_types(obj, old),
        ]

    def validate_status_update(
        self, obj: dict[str, Any], old: dict[str, Any], *, scale_errors: Sequence[FieldError] = ()
    ) -> list[FieldError]:
        """The errors of an update of the status subresource: those of the status only, with their full paths."""
        return [*self._validate_status(obj, old), *scale_errors, *self.validate_list_types(obj, old)]

    def validate_values(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        if _holds(self._valid, obj):
            return []
        correlation = Correlation(obj, old, self.structural) if old is not None else None
        return validate(self.structural, obj, correlation=correlation, fast_check=self._fast_check)

    def _validate_status(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        if self._status is None or "status" not in obj or _holds(self._status_valid, obj["status"]):
            return []
        correlation = Correlation(obj["status"], old.get("status"), self._status)
        return validate(
            self._status, obj["status"], prefix="status", correlation=correlation, fast_check=self._fast_check
        )

    def validate_embedded(self, obj: dict[str, Any]) -> list[FieldError]:
        return self._embedded_resources.validate(obj)

    def validate_list_types(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        """The errors of duplicate values; none if `old` had any such error."""
        if self._list_types.is_valid(obj) or (old is not None and not self._list_types.is_valid(old)):
            return []
        return self._list_types.validate(obj)


def _holds(check: Callable[..., bool], *values: Any) -> bool:
    """Whether values are valid; also False where that is too expensive to decide, which validate() then reports."""
    try:
        return check(*values)
    except MatchingExceeded:
        return False


def keeping_all(schema: Structural) -> Structural:
    """`schema` with unknown fields preserved in every object that it describes by its fields."""
    additional = schema.additional_properties
    return replace(
        schema,
        properties={name: keeping_all(inner) for name, inner in schema.properties.items()},
        items=keeping_all(schema.items) if schema.items is not None else None,
        additional_properties=keeping_all(additional) if isinstance(additional, Structural) else additional,
        preserve_unknown_fields=schema.preserve_unknown_fields
        or (additional is None and schema.type in ("", "object")),
    )


def _fast_checks() -> Callable[[Structural], Check]:
    """The fast checks of nodes, each compiled once; they speed up the search for errors in a large object.

    On the way down to an error each level is checked with everything below it, so their work is charged to the budget.
    """
    checks: dict[Structural, Check] = {}

    def fast_check(schema: Structural) -> Check:
        check = checks.get(schema)
        if check is None:
            check = checks[schema] = partial(_holds, compile_with_budget(schema))
        return check

    return fast_check


# ---- errors that prevent the evaluation of validation rules

_BLOCKING = frozenset(
    {ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE_INVALID}
)


def blocks_rules(errors: Sequence[FieldError]) -> bool:
    """Whether validation rules cannot be evaluated: a rule may rely on types, required fields and sizes."""
    return any(error.type in _BLOCKING for error in errors)


def unchecked_rules_error() -> FieldError:
    """The error that is added when blocks_rules holds and the schema has rules."""
    why = (
        "some validation rules were not checked because the object was invalid; correct the "
        "existing errors to complete validation"
    )
    return invalid("<nil>", None, why)


# ---- shared instances


def _digest(canonical: str) -> bytes:
    return hashlib.blake2b(canonical.encode(), digest_size=32, person=b"schema-%d" % ALGORITHM_VERSION).digest()


# Shared by all tenants, thus by the whole digest.
_CACHE: Final[LruCache[bytes, CompiledSchema]] = LruCache(MAX_COMPILED_BYTES, lambda compiled: compiled.size)
# Definitions compile in threads: equal schemas are compiled once.
_COMPILING: Final = threading.Lock()


def compile_schema(schema: Mapping[str, Any]) -> CompiledSchema:
    """The CompiledSchema of an openAPIV3Schema, shared by all equal schemas. The caller must not change `schema`."""
    canonical = json.dumps(schema, sort_keys=True, separators=(",", ":"))
    digest, size = _digest(canonical), _OWN_BYTES + _BYTES_A_CHARACTER * len(canonical)
    with _COMPILING:
        # 63 bits of the digest: two schemas of one definition do not collide by accident, and a tenant that makes them
        # collide only harms their own definition.
        identity = int.from_bytes(digest[:8], "big") >> 1
        return _CACHE.get(digest) or _CACHE.put(digest, CompiledSchema(schema, identity, size))
