"""Validation of a definition's schema that does not depend on whether it is structural.

Forbidden keywords of JSON schema, list and map types that contradict the type, defaults where none are allowed. A pure
function over the decoded JSON of an openAPIV3Schema whose depth has been bounded. Its validation rules are checked by
registry/cel.

Follows ValidateCustomResourceDefinitionOpenAPISchema of apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go at v0.36.2, but visits properties by name, where kube-apiserver has a
random order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from registry.codec.go_text import GoText, go_json
from registry.schema.field import FieldError, forbidden, index, invalid, key, not_supported, required
from registry.schema.pruning import META_FIELDS
from registry.schema.structural.go_schema import go_items

Schema = Mapping[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")


@dataclass(frozen=True, slots=True)
class _NodePlace:
    """The position of a node: `no_default` says why it cannot have a default, "" if it can. `types`: check types."""

    no_default: str = ""
    inside_meta: bool = False
    types: bool = True


@dataclass(slots=True)
class KeywordErrors:
    """`places` has the fields of the errors; of what a list requires of its items, the path of the list."""

    errors: list[FieldError] = field(default_factory=list)
    places: list[str] = field(default_factory=list)

    def note_places(self, place: str = "") -> None:
        self.places += [place or error.field for error in self.errors[len(self.places) :]]


def validate_keywords(schema: Schema, path: str, *, types: bool, no_default: str) -> KeywordErrors:
    """`no_default` says why no node can have a default; unknown types are allowed without `types`."""
    checked = KeywordErrors()
    _check(schema, path, _NodePlace(no_default, types=types), True, checked)
    checked.note_places()
    return checked


def _check(schema: Schema, path: str, place: _NodePlace, is_root: bool, found: KeywordErrors) -> None:
    errors = found.errors
    _check_unsupported(schema, path, place, errors)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        errors.append(forbidden(f"{path}.uniqueItems", why))
    _check_properties(schema, path, place, is_root, found)
    if "not" in schema:
        _check(schema["not"], f"{path}.not", place, False, found)
    for junctor in ("allOf", "oneOf", "anyOf"):
        for i, clause in enumerate(schema.get(junctor) or ()):
            _check(clause, index(f"{path}.{junctor}", i), place, False, found)
    for name, definition in sorted((schema.get("definitions") or {}).items()):
        _check(definition, key(f"{path}.definitions", name), place, False, found)
    items = schema.get("items")
    if type(items) is dict:
        _check(items, f"{path}.items", place, False, found)
    elif type(items) is list:
        for i, item in enumerate(items):
            _check(item, index(f"{path}.items", i), place, False, found)
    for name, dependency in sorted((schema.get("dependencies") or {}).items()):
        if type(dependency) is dict:
            _check(dependency, key(f"{path}.dependencies", name), place, False, found)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        errors.append(invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined"))
    if schema.get("x-kubernetes-map-type") is not None:
        _check_map_type(schema, path, errors)
    if schema.get("x-kubernetes-list-type") is not None or schema.get("x-kubernetes-list-map-keys"):
        found.note_places()
        _check_list_type(schema, path, errors)
        found.note_places(path)


def _check_unsupported(schema: Schema, path: str, place: _NodePlace, errors: list[FieldError]) -> None:
    kind = schema.get("type")
    if kind and place.types and kind not in TYPES:
        errors.append(not_supported(f"{path}.type", kind, list(TYPES)))
    if schema.get("default") is not None and place.no_default:
        errors.append(forbidden(f"{path}.default", f"must not be set {place.no_default}"))
    for word, is_there in (
        ("id", bool(schema.get("id"))),
        ("additionalItems", schema.get("additionalItems") is not None),
        ("patternProperties", bool(schema.get("patternProperties"))),
        ("definitions", bool(schema.get("definitions"))),
        ("dependencies", schema.get("dependencies") is not None),
        ("$ref", schema.get("$ref") is not None),
    ):
        if is_there:
            errors.append(forbidden(f"{path}.{word}", f"{word} is not supported"))
    if kind == "null":
        errors.append(forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative"))
    if type(schema.get("items")) is list and schema["items"]:
        errors.append(forbidden(f"{path}.items", "items must be a schema object and not an array"))
    if place.inside_meta and schema.get("x-kubernetes-embedded-resource"):
        errors.append(forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta"))


def _check_properties(schema: Schema, path: str, place: _NodePlace, is_root: bool, found: KeywordErrors) -> None:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if additional is not None:
        if properties and additional is not True:
            found.errors.append(
                forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
            )
        if type(additional) is dict:
            below = place
            if place.inside_meta:
                below = replace(place, no_default="inside additionalProperties applying to object metadata")
            _check(additional, f"{path}.additionalProperties", below, False, found)
    for name in sorted(properties):
        below = place
        if name in META_FIELDS and (is_root or schema.get("x-kubernetes-embedded-resource")):
            below = replace(place, inside_meta=True)
            if is_root:
                below = replace(below, no_default=f"in top-level {name}")
        _check(properties[name], key(f"{path}.properties", name), below, False, found)


def _check_map_type(schema: Schema, path: str, errors: list[FieldError]) -> None:
    _check_type(schema, "object", "x-kubernetes-map-type", path, errors)
    map_type = schema["x-kubernetes-map-type"]
    if map_type not in ("atomic", "granular"):
        errors.append(not_supported(f"{path}.x-kubernetes-map-type", map_type, ["atomic", "granular"]))


def _check_list_type(schema: Schema, path: str, errors: list[FieldError]) -> None:
    list_type = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or []
    items = schema.get("items")
    if list_type is not None and not _check_type(schema, "array", "x-kubernetes-list-type", path, errors):
        pass
    elif list_type == "set" and type(items) is dict:
        _check_set_items(items, f"{path}.items", errors)
    if list_type not in (None, "atomic", "set", "map"):
        errors.append(not_supported(f"{path}.x-kubernetes-list-type", list_type, ["atomic", "set", "map"]))
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        errors.append(
            required(f"{path}.x-kubernetes-list-type", detail)
            if list_type is None
            else invalid(f"{path}.x-kubernetes-list-type", list_type, detail)
        )
    if list_type == "map":
        _check_map_list(schema, keys, path, errors)
    if list_type in ("set", "map") and type(items) is dict:
        _check_items_of_set_or_map(schema, items, keys, path, errors)


def _check_type(schema: Schema, wanted: str, keyword: str, path: str, errors: list[FieldError]) -> bool:
    kind = schema.get("type") or ""
    if kind == wanted:
        return True
    detail = f"must be {wanted} if {keyword} is specified"
    errors.append(invalid(f"{path}.type", kind, detail) if kind else required(f"{path}.type", detail))
    return False


def _check_set_items(items: Schema, path: str, errors: list[FieldError]) -> None:
    list_type = items.get("x-kubernetes-list-type")
    printed = GoText(go_json(list_type))  # the value of the list type in both cases
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        errors.append(invalid(f"{path}.x-kubernetes-list-type", printed, detail))
    elif items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        errors.append(invalid(f"{path}.x-kubernetes-map-type", printed, detail))


def _check_map_list(schema: Schema, keys: list[str], path: str, errors: list[FieldError]) -> None:
    keys_path = f"{path}.x-kubernetes-list-map-keys"
    items = schema.get("items")
    if not keys:
        errors.append(required(keys_path, "must not be empty if x-kubernetes-list-type is map"))
    if items is None:
        errors.append(required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map"))
        return
    if type(items) is not dict:
        why = "must only have a single schema if x-kubernetes-list-type is map"
        errors.append(invalid(f"{path}.items", GoText(go_items(items)), why))
        return
    if items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        errors.append(invalid(f"{path}.items.type", items.get("type") or "", why))
        return
    properties = items.get("properties") or {}
    seen = set()
    printed = GoText(go_json(keys))
    for name in keys:
        if name not in properties:
            errors.append(invalid(keys_path, printed, "entries must all be names of item properties"))
        elif properties[name].get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            errors.append(invalid(key(f"{path}.items.properties", name) + ".type", items["type"], why))
        if name in seen:
            errors.append(invalid(keys_path, printed, "must not contain duplicate entries"))
        seen.add(name)


def _check_items_of_set_or_map(
    schema: Schema, items: Schema, keys: list[str], path: str, errors: list[FieldError]
) -> None:
    list_type = schema["x-kubernetes-list-type"]
    if items.get("nullable"):
        errors.append(
            forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
        )
    if list_type != "map":
        return
    properties = items.get("properties") or {}
    for name in keys:
        declared = properties.get(name)
        if declared is None:
            continue
        key_path = key(f"{path}.items.properties", name)
        if name not in (items.get("required") or ()) and declared.get("default") is None:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            errors.append(required(f"{key_path}.default", why))
        if declared.get("nullable"):
            why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            errors.append(forbidden(f"{key_path}.nullable", why))
