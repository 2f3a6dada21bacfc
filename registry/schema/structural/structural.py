"""Validation that a schema is structural: every value that it describes has a type, and junctors only restrict.

A pure function over the decoded JSON of an openAPIV3Schema (see registry/codec/structs/structs.py: absent is nil,
an explicit empty list is not). Errors are sorted by their texts.

These are the invariants of single nodes, and completeness: everything that a junctor at the root of a schema names must
be declared outside of junctors, too.

Follows apiextensions-apiserver pkg/apiserver/schema/{validation,convert,complete}.go at v0.36.2.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from registry.schema.field import FieldError, child, forbidden, index, invalid, key, required
from registry.schema.regexp_errors import Patterns

Schema = Mapping[str, Any]


class Level(enum.Enum):
    """The position of a node; the value is the end of the sentence about a missing type."""

    ROOT = "at the root"
    ITEM = "for specified array items"
    FIELD = "for specified object fields"


class _Errors(list[FieldError]):
    """The errors of one schema, and the budget spent on its patterns."""

    def __init__(self) -> None:
        super().__init__()
        self.patterns = Patterns()


def validate_structural(schema: Schema, path: str) -> list[FieldError]:
    """The errors of a schema that is not structural. Its depth is bounded, and `find_unsupported` returns None."""
    errors = _Errors()
    _check_node(schema, Level.ROOT, path, errors)
    errors.extend(incomplete(schema, path))
    return sorted(errors, key=lambda error: error.message().encode())


def find_unsupported(schema: Schema) -> str | None:
    """Why `schema` cannot be converted to a structural schema: the first unsupported keyword of JSON schema.

    `OpenAPIV3Schema 'id' is not supported`. Searches in kube-apiserver's order: a node, its junctors, its items, its
    properties.
    """
    text = _unsupported_here(schema)
    if text is not None:
        return text
    for nested in _nested_schemas(schema):
        text = find_unsupported(nested)
        if text is not None:
            return text
    return None


def _unsupported_here(schema: Schema) -> str | None:
    for name, word in _UNSUPPORTED:
        value = schema.get(name)
        if value or (name == "additionalItems" and value is not None):
            return f"OpenAPIV3Schema '{word}' is not supported"
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    if type(schema.get("items")) is list and schema["items"]:
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return None


_UNSUPPORTED = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)


def _nested_schemas(schema: Schema) -> list[Schema]:
    nested = [schema["not"]] if "not" in schema else []
    for junctor in ("allOf", "anyOf", "oneOf"):
        nested.extend(schema.get(junctor) or ())
    if type(schema.get("items")) is dict:
        nested.append(schema["items"])
    nested.extend((schema.get("properties") or {}).values())
    if type(schema.get("additionalProperties")) is dict:
        nested.append(schema["additionalProperties"])
    return nested


def _check_node(schema: Schema, level: Level, path: str, errors: _Errors) -> None:
    kind = schema.get("type") or ""
    _check_children(schema, kind, level, path, errors)
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    preserving = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if int_or_string and preserving:
        why = "must be false if x-kubernetes-int-or-string is true"
        errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, why))
    if int_or_string and embedded:
        why = "must be false if x-kubernetes-int-or-string is true"
        errors.append(invalid(f"{path}.x-kubernetes-embedded-resource", True, why))
    _check_values(schema, is_int_or_string_any_of(schema), is_int_or_string_all_of(schema), path, errors)
    if embedded:
        _check_embedded(schema, kind, preserving, path, errors)
    elif not kind and not int_or_string and not preserving:
        errors.append(required(f"{path}.type", f"must not be empty {level.value}"))
    if level is Level.ROOT and kind not in ("", "object"):
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    if level is Level.ROOT or embedded:
        _check_object_fields(schema.get("properties") or {}, level, path, errors)


def _check_children(schema: Schema, kind: str, level: Level, path: str, errors: _Errors) -> None:
    items = schema.get("items")
    if type(items) is dict:
        _check_node(items, Level.ITEM, f"{path}.items", errors)
    elif kind == "array":
        errors.append(required(f"{path}.items", "must be specified"))
    for name, field in (schema.get("properties") or {}).items():
        _check_node(field, Level.FIELD, key(f"{path}.properties", name), errors)
    additional = schema.get("additionalProperties")
    if additional is not None and level is Level.ROOT:
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if type(additional) is dict:
        _check_node(additional, Level.FIELD, f"{path}.additionalProperties", errors)


def _check_object_fields(properties: Schema, level: Level, path: str, errors: _Errors) -> None:
    """Checks the fields of TypeMeta and ObjectMeta in the schema of a whole object."""
    for name in ("kind", "apiVersion"):
        if name in properties and (properties[name].get("type") or "") != "string":
            where = key(f"{path}.properties", name)
            errors.append(invalid(f"{where}.type", properties[name].get("type") or "", "must be string"))
    if "metadata" in properties:
        _check_metadata(properties["metadata"], level, f"{path}.properties[metadata]", errors)


def _check_embedded(schema: Schema, kind: str, preserving: bool, path: str, errors: _Errors) -> None:
    if kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        errors.append(invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail))
    if schema.get("additionalProperties") is not None:
        errors.append(
            forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
        )
    if not preserving and not schema.get("properties"):
        why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        errors.append(required(f"{path}.properties", why))


def _check_metadata(schema: Schema, level: Level, path: str, errors: _Errors) -> None:
    if (schema.get("type") or "") != "object":
        errors.append(invalid(f"{path}.type", schema.get("type") or "", "must be object"))
    if level is Level.ROOT:
        words = {"type", "default"}
        if set(schema.get("properties") or {}) <= {"name", "generateName"}:
            words.add("properties")
        if not _has_only(schema, words):
            why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            errors.append(forbidden(path, why))


def is_int_or_string_any_of(schema: Schema) -> bool:
    """Whether anyOf is exactly `[{type: integer}, {type: string}]`."""
    clauses: list[Schema] = schema.get("anyOf") or []
    return (
        len(clauses) == 2
        and clauses[0].get("type") == "integer"
        and clauses[1].get("type") == "string"
        and all(_has_only(clause, {"type"}, nested=True) for clause in clauses)
    )


def is_int_or_string_all_of(schema: Schema) -> bool:
    """Whether the first clause of allOf has that anyOf, among others."""
    clauses: list[Schema] = schema.get("allOf") or []
    return len(clauses) > 0 and is_int_or_string_any_of(clauses[0])


# Where kube-apiserver copies a list or map, an explicit empty one differs from an absent one; it rebuilds these.
_EMPTY_IS_NOTHING = frozenset(("enum", "allOf", "anyOf", "oneOf", "items"))
# Of these, false and an empty text count as present.
_NILABLE = frozenset(("default", "example", "x-kubernetes-list-type", "x-kubernetes-map-type"))


def _has_only(schema: Schema, words: set[str], nested: bool = False) -> bool:
    return all(name in words or _is_nothing(name, value, nested) for name, value in schema.items())


def _is_nothing(name: str, value: Any, nested: bool) -> bool:
    if value is None:
        return True
    if name == "additionalProperties":
        return nested and value is False
    if type(value) is list:
        return not value and name in _EMPTY_IS_NOTHING
    if type(value) is dict:
        return not value and name == "properties" and not nested
    return (value is False or value == "") and name not in _NILABLE


def _check_values(schema: Schema, skip_any_of: bool, skip_first_all_of: bool, path: str, errors: _Errors) -> None:
    """Checks the value validations of a node, outside or inside of a junctor."""
    if not skip_any_of:
        for i, clause in enumerate(schema.get("anyOf") or ()):
            _check_nested(clause, False, index(f"{path}.anyOf", i), errors)
    for i, clause in enumerate(schema.get("allOf") or ()):
        _check_nested(clause, skip_first_all_of and i == 0, index(f"{path}.allOf", i), errors)
    for i, clause in enumerate(schema.get("oneOf") or ()):
        _check_nested(clause, False, index(f"{path}.oneOf", i), errors)
    if "not" in schema:
        _check_nested(schema["not"], False, f"{path}.not", errors)
    pattern = schema.get("pattern")
    if pattern:
        why = errors.patterns.error(pattern)
        if why is not None:
            errors.append(invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {why}"))


# The fields that a junctor must not contain, and the required form.
_FORBIDDEN_NESTED = (
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_POINTERS = {"default", "x-kubernetes-list-type", "x-kubernetes-map-type"}


def _check_nested(schema: Schema, skip_any_of: bool, path: str, errors: _Errors) -> None:
    _check_values(schema, skip_any_of, False, path, errors)
    items = schema.get("items")
    if type(items) is dict:
        _check_nested(items, False, f"{path}.items", errors)
    properties = schema.get("properties") or {}
    for name, field in properties.items():
        _check_nested(field, False, key(f"{path}.properties", name), errors)
    for name, detail in _FORBIDDEN_NESTED:
        value = schema.get(name)
        if value or (value is not None and name in _POINTERS):
            errors.append(forbidden(f"{path}.{name}", detail))
    additional = schema.get("additionalProperties")
    if additional is not None and additional is not False:
        errors.append(forbidden(f"{path}.additionalProperties", "must be undefined to be structural"))
    if "metadata" in properties:
        errors.append(forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context"))


# -- completeness
def incomplete(schema: Schema, path: str) -> list[FieldError]:
    """The errors: `s.properties[z]: Required value: because it is defined in s.anyOf[0].properties[z]`.

    Only the junctors of the root are checked, with all that they nest; that a junctor of a field may name anything is
    kube-apiserver's behaviour.
    """
    errors: list[FieldError] = []
    _complete_junctors(schema, schema, path, path, errors)
    return errors


def _complete_junctors(
    junctors: Schema, outside: Schema, path: str, junctor_path: str, errors: list[FieldError]
) -> None:
    if "not" in junctors:
        _complete(junctors["not"], outside, path, child(junctor_path, "not"), errors)
    for junctor in ("allOf", "anyOf", "oneOf"):
        for i, clause in enumerate(junctors.get(junctor) or ()):
            _complete(clause, outside, path, index(child(junctor_path, junctor), i), errors)


def _complete(clause: Schema, outside: Schema, path: str, clause_path: str, errors: list[FieldError]) -> None:
    _complete_junctors(clause, outside, path, clause_path, errors)
    items = clause.get("items")
    if type(items) is dict:
        declared = outside.get("items")
        if type(declared) is dict:
            _complete(items, declared, child(path, "items"), child(clause_path, "items"), errors)
        else:
            errors.append(required(child(path, "items"), f"because it is defined in {child(clause_path, 'items')}"))
    properties = outside.get("properties") or {}
    for name, field in (clause.get("properties") or {}).items():
        field_path = key(child(path, "properties"), name)
        field_clause_path = key(child(clause_path, "properties"), name)
        if name in properties:
            _complete(field, properties[name], field_path, field_clause_path, errors)
        else:
            errors.append(required(field_path, f"because it is defined in {field_clause_path}"))
