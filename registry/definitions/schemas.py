"""Validation of a definition's schema when the definition is written.

The rules themselves are in registry/schema (bounds, structural, keywords, default values) and registry/cel; this module
decides which of them are checked, in which order, and which errors prevent further checks.

Follows validateCustomResourceDefinitionValidation of apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go at v0.36.2.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

import orjson

from registry.caches import LruCache
from registry.cel.rules.check import check_rules
from registry.cel.rules.rules import Rules
from registry.codec.go_text import GoText
from registry.definitions import types
from registry.definitions.model import Json
from registry.schema.field import FieldError, forbidden, invalid
from registry.schema.model import Structural, from_json
from registry.schema.regexp_errors import Patterns
from registry.schema.structural.bounds import nodes, validate_bounds
from registry.schema.structural.defaults import validate_defaults
from registry.schema.structural.go_schema import GO_NAMES, go_schema
from registry.schema.structural.keywords import validate_keywords
from registry.schema.structural.structural import find_unsupported, validate_structural
from registry.schema.values import same

# The fields that the root may have if the status subresource is enabled, whose schema is extracted as
# properties["status"]: only those whose meaning that does not affect.
_ROOT_WITH_STATUS = tuple(
    """
    Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern
    MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example
    XPreserveUnknownFields XValidations
    """.split()
)

# Go pointers, for which false and an empty text count as set.
_POINTERS = frozenset(
    """
    Ref Default Example AdditionalProperties AdditionalItems XListType XMapType XPreserveUnknownFields
    """.split()
)


@dataclass(frozen=True, slots=True)
class Leniency:
    """The rules that apply: whether a schema must be `structural` and have known `types`; why it has no defaults."""

    structural: bool = True
    types: bool = True
    no_defaults: str = ""


STRICT = Leniency()


def validate_schema(
    validation: Json | None, path: str, *, status: bool, old: Json | None, leniency: Leniency
) -> list[FieldError]:
    """The errors of `{"openAPIV3Schema": ...}`, whose path is `path`.

    `status` means that the status subresource is enabled; `old` is the schema that this one replaces, if any.
    """
    schema = (validation or {}).get("openAPIV3Schema")
    if schema is None:
        return []
    before = _digest(schema, status, leniency)
    if _GOOD.get(before):
        return []
    schema_path = f"{path}.openAPIV3Schema"
    errors = validate_bounds(schema, schema_path)
    if errors:
        return errors
    unchanged = _is_unchanged(schema, old)
    errors = _validate(schema, schema_path, status, unchanged, leniency)
    # Not cached: an unchanged schema, which is validated more leniently, and one whose defaults were decoded in place.
    if not errors and not unchanged and _digest(schema, status, leniency) == before:
        _GOOD.put(before, True)
    return errors


def _validate(schema: Json, schema_path: str, status: bool, unchanged: bool, leniency: Leniency) -> list[FieldError]:
    errors: list[FieldError] = []
    if status:
        errors.extend(_validate_root_with_status(schema, schema_path))
    if schema.get("nullable"):
        errors.append(forbidden(f"{schema_path}.nullable", "nullable cannot be true at the root"))
    not_convertible = find_unsupported(schema) if leniency.structural else None
    rules_make_sense = False
    if leniency.structural and not_convertible is None:
        structural_errors = validate_structural(schema, schema_path) or _validate_defaults(schema, schema_path)
        errors.extend(structural_errors)
        rules_make_sense = not structural_errors
    if not leniency.structural:
        errors.extend(_pattern_errors(schema, schema_path))
    keywords = validate_keywords(schema, schema_path, types=leniency.types, no_default=leniency.no_defaults)
    errors.extend(keywords.errors)
    errors.extend(
        check_rules(schema, schema_path, faulty=keywords.places, compiles=rules_make_sense, unchanged=unchanged)
    )
    if not errors and not_convertible is not None:
        errors.append(invalid(schema_path, "", not_convertible))
    return errors


def _pattern_errors(schema: Json, path: str) -> list[FieldError]:
    """The errors of patterns, which structural.py reports for structural schemas: an invalid one cannot be matched."""
    patterns, errors = Patterns(), []
    for pattern in dict.fromkeys(node["pattern"] for node in nodes(schema) if node.get("pattern")):
        why = patterns.error(pattern)
        if why is not None:
            errors.append(invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {why}"))
    return errors


# Digests of valid schemas. Many tenants define the same resources, and most writes to a definition do not change its
# schemas: a look-up takes a tenth of the time of validation.
_GOOD: Final[LruCache[bytes, bool]] = LruCache(8192)


def _digest(schema: Json, status: bool, leniency: Leniency) -> bytes:
    inputs = (
        [schema, status]
        if leniency is STRICT
        else [schema, status, leniency.structural, leniency.types, leniency.no_defaults]
    )
    try:
        text = orjson.dumps(inputs)
    except TypeError:  # integers beyond 64 bits, and lone surrogates
        text = json.dumps(inputs).encode()
    return hashlib.blake2b(text, digest_size=32).digest()


def _validate_root_with_status(schema: Json, path: str) -> list[FieldError]:
    """Reports only the first error."""
    for word, name in GO_NAMES.items():
        value = schema.get(word)
        if value is None or (name not in _POINTERS and (value is False or value == "")):
            continue
        if name == "Type":
            if value != "object":
                why = (
                    'only "object" is allowed as the type at the root of the schema '
                    "if the status subresource is enabled"
                )
                return [invalid(f"{path}.type", value, why)]
        elif name not in _ROOT_WITH_STATUS:
            why = (
                f"only [{' '.join(_ROOT_WITH_STATUS)}] fields are allowed "
                "at the root of the schema if the status subresource is "
                "enabled"
            )
            return [invalid(path, GoText(go_schema(schema)), why)]
    return []


def _validate_defaults(schema: Json, path: str) -> list[FieldError]:
    return validate_defaults(from_json(schema), path, _rules_of_default) if has_defaults(schema) else []


def _rules_of_default(node: Structural, is_resource: bool, value: Any, path: str) -> list[FieldError]:
    """The errors of the rules for a default, first as an update of itself, then as a new value."""
    rules = Rules(node, resource=is_resource)
    if not rules.has_rules:
        return []
    return rules.validate(value, value, path=path, ratchet=False) or rules.validate(value, path=path)


def _is_unchanged(schema: Json, old: Json | None) -> bool:
    return old is not None and same(types.JSONSchemaProps.encode(schema), types.JSONSchemaProps.encode(old))


_EXTENSIONS = (
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
)
_EXTENSION_POINTERS = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "x-kubernetes-map-type")


def has_extensions(schema: Json) -> bool:
    """Whether a schema whose depth has been bounded has keywords that only structural schemas may have."""
    return any(
        any(node.get(name) for name in _EXTENSIONS) or any(node.get(name) is not None for name in _EXTENSION_POINTERS)
        for node in nodes(schema)
    )


def has_defaults(schema: Json) -> bool:
    """Whether there is a default anywhere in a schema whose depth has been bounded."""
    return any(node.get("default") is not None for node in nodes(schema))
