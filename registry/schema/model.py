"""The model of a structural schema, which all algorithms of this package, CEL and apply read.

Built once from the JSON of `openAPIV3Schema` by `from_json`, then immutable, so that all tenants with the same schema
share one Structural. This module does not validate: structural/ reports the errors of a schema.

Follows apiextensions-apiserver pkg/apiserver/schema/structural.go, with the value validations kept in the same node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Json = Any  # what json.loads yields: dict, list, str, int, float, bool, None

# At the root of a schema: nothing is pruned, at any depth (preserveUnknownFields of a definition). Never published.
KEEPS_ALL: Final = "x-registry-preserve-unknown-fields"


class Unset:
    """The default of a schema that has none; `None` is the JSON null."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()


@dataclass(frozen=True, slots=True)
class ValidationRule:
    """One entry of x-kubernetes-validations. `optional_old_self` None means that the field is absent."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str | None = None
    field_path: str = ""
    optional_old_self: bool | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Structural:
    """One node of a schema. `additional_properties` is None (absent), a bool, or the schema of the values.

    Numbers are float or int as written; `enum` and `default` hold decoded JSON and must not be changed.
    """

    type: str = ""
    title: str = ""
    description: str = ""
    nullable: bool = False
    default: Json = UNSET
    properties: Mapping[str, Structural] = field(default_factory=dict)
    items: Structural | None = None
    additional_properties: Structural | bool | None = None

    # x-kubernetes-*
    preserve_unknown_fields: bool = False
    embedded_resource: bool = False
    int_or_string: bool = False
    list_type: str | None = None
    list_map_keys: tuple[str, ...] = ()
    map_type: str | None = None
    validations: tuple[ValidationRule, ...] = ()

    # value validations
    format: str = ""
    maximum: float | int | None = None
    exclusive_maximum: bool = False
    minimum: float | int | None = None
    exclusive_minimum: bool = False
    max_length: int | None = None
    min_length: int | None = None
    pattern: str = ""
    max_items: int | None = None
    min_items: int | None = None
    unique_items: bool = False
    multiple_of: float | int | None = None
    enum: tuple[Json, ...] | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    required: tuple[str, ...] = ()
    all_of: tuple[Structural, ...] = ()
    any_of: tuple[Structural, ...] = ()
    one_of: tuple[Structural, ...] = ()
    not_: Structural | None = None

    example: Json = UNSET
    external_docs: Json = UNSET


def from_json(schema: Mapping[str, Any]) -> Structural:
    """The model of the JSON of an openAPIV3Schema that has already been decoded by its types.

    `{"type": "object", "properties": {"a": {"type": "string"}}}` gives a Structural whose `properties["a"].type` is
    `"string"`. Unknown keywords are ignored, and null is the same as none. The depth of `schema` must have been
    bounded by the caller.
    """
    fields: dict[str, Any] = {}
    for word, value in schema.items():  # a node has three or four of some forty keywords
        keyword = _KEYWORDS.get(word)
        if keyword is not None and value is not None:
            name, convert = keyword
            fields[name] = value if convert is None else convert(value)
    return Structural(**fields)


def _one(value: Any) -> Structural | None:
    return from_json(value) if isinstance(value, dict) else None


def _several(value: Any) -> tuple[Structural, ...]:
    return tuple(from_json(s) for s in value)


def _named_schemas(value: Any) -> dict[str, Structural]:
    return {name: from_json(s) for name, s in value.items()}


def _schema_or_bool(value: Any) -> Any:
    return from_json(value) if isinstance(value, dict) else value


def _rules(value: Any) -> tuple[ValidationRule, ...]:
    return tuple(_rule(r or {}) for r in value)


def _rule(rule: Mapping[str, Any]) -> ValidationRule:
    return ValidationRule(
        rule=rule.get("rule") or "",
        message=rule.get("message") or "",
        message_expression=rule.get("messageExpression") or "",
        reason=rule.get("reason"),
        field_path=rule.get("fieldPath") or "",
        optional_old_self=rule.get("optionalOldSelf"),
    )


# The field of the model that a keyword sets, and the conversion of its value, if any.
_KEYWORDS: Final[Mapping[str, tuple[str, Callable[[Any], Any] | None]]] = {
    **{
        word: (word, None)
        for word in "type title description nullable default format maximum minimum pattern example".split()
    },
    "properties": ("properties", _named_schemas),
    "items": ("items", _one),
    "additionalProperties": ("additional_properties", _schema_or_bool),
    "x-kubernetes-preserve-unknown-fields": ("preserve_unknown_fields", None),
    "x-kubernetes-embedded-resource": ("embedded_resource", None),
    "x-kubernetes-int-or-string": ("int_or_string", None),
    "x-kubernetes-list-type": ("list_type", None),
    "x-kubernetes-list-map-keys": ("list_map_keys", tuple),
    "x-kubernetes-map-type": ("map_type", None),
    "x-kubernetes-validations": ("validations", _rules),
    "exclusiveMaximum": ("exclusive_maximum", None),
    "exclusiveMinimum": ("exclusive_minimum", None),
    "maxLength": ("max_length", None),
    "minLength": ("min_length", None),
    "maxItems": ("max_items", None),
    "minItems": ("min_items", None),
    "uniqueItems": ("unique_items", None),
    "multipleOf": ("multiple_of", None),
    "enum": ("enum", tuple),
    "maxProperties": ("max_properties", None),
    "minProperties": ("min_properties", None),
    "required": ("required", tuple),
    "allOf": ("all_of", _several),
    "anyOf": ("any_of", _several),
    "oneOf": ("one_of", _several),
    "not": ("not_", _one),
    "externalDocs": ("external_docs", None),
}


def nodes_with(schema: Structural, wanted: Callable[[Structural], bool]) -> frozenset[Structural]:
    """The nodes that satisfy `wanted`, and their ancestors through properties, items and map values, so that walks over
    objects can skip the rest.

    A Structural is compared by identity, so it can be kept in a set.
    """
    nodes: set[Structural] = set()
    _collect(schema, wanted, nodes)
    return frozenset(nodes)


def _collect(schema: Structural, wanted: Callable[[Structural], bool], nodes: set[Structural]) -> bool:
    here = wanted(schema)
    for inner in schema.properties.values():
        here = _collect(inner, wanted, nodes) or here
    if schema.items is not None:
        here = _collect(schema.items, wanted, nodes) or here
    if isinstance(schema.additional_properties, Structural):
        here = _collect(schema.additional_properties, wanted, nodes) or here
    if here:
        nodes.add(schema)
    return here
