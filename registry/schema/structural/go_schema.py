"""A schema as kube-apiserver prints it in an error: the JSON of its internal Go struct.

`{"type": "object"}` is `{"ID":"","Schema":"","Ref":null,"Description":"","Type":"object",...}`: all fields are present,
in the order of the struct.

Follows apiextensions-apiserver pkg/apis/apiextensions/types_jsonschema.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from registry.codec.go_text import go_json

Schema = Mapping[str, Any]


def go_object(fields: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{name}":{text}' for name, text in fields) + "}"


def go_list(values: list[Any] | None, text: Callable[[Any], str] = go_json) -> str:
    """A Go slice: null for nil."""
    return "null" if values is None else "[" + ",".join(text(v) for v in values) + "]"


def go_schema(schema: Schema | None) -> str:
    if schema is None:
        return "null"
    return go_object([(name, text(schema.get(word))) for name, word, text in _FIELDS])


def go_items(items: Any) -> str:
    """JSONSchemaPropsOrArray."""
    if items is None:
        return "null"
    one, several = (items, None) if isinstance(items, dict) else (None, items)
    return go_object([("Schema", go_schema(one)), ("JSONSchemas", go_list(several, go_schema))])


def _text(value: Any) -> str:
    return '""' if value is None else go_json(value)


def _flag(value: Any) -> str:
    return "true" if value else "false"


def _pointer(value: Any) -> str:
    return "null" if value is None else go_json(value)


def _schemas(value: Any) -> str:
    return go_list(value, go_schema)


def _schema_map(value: Any) -> str:
    if value is None:
        return "null"
    return "{" + ",".join(f"{go_json(name)}:{go_schema(value[name])}" for name in sorted(value)) + "}"


def _or_bool(value: Any) -> str:
    if value is None:
        return "null"
    schema = value if isinstance(value, dict) else None
    return go_object([("Allows", _flag(value is not False)), ("Schema", go_schema(schema))])


def _dependencies(value: Any) -> str:
    if value is None:
        return "null"
    return "{" + ",".join(f"{go_json(name)}:{_dependency(value[name])}" for name in sorted(value)) + "}"


def _dependency(value: Any) -> str:
    one, several = (value, None) if isinstance(value, dict) else (None, value or None)
    return go_object([("Schema", go_schema(one)), ("Property", go_list(several))])


def _external_docs(value: Any) -> str:
    if value is None:
        return "null"
    return go_object([("Description", _text(value.get("description"))), ("URL", _text(value.get("url")))])


def go_rule(rule: Mapping[str, Any]) -> str:
    """An entry of x-kubernetes-validations."""
    return go_object(
        [
            ("Rule", _text(rule.get("rule"))),
            ("Message", _text(rule.get("message"))),
            ("MessageExpression", _text(rule.get("messageExpression"))),
            ("Reason", _pointer(rule.get("reason"))),
            ("FieldPath", _text(rule.get("fieldPath"))),
            ("OptionalOldSelf", _pointer(rule.get("optionalOldSelf"))),
        ]
    )


def _rules(value: Any) -> str:
    return go_list(value, go_rule)


# The Go field, the keyword, and how its value is printed; in the order of the struct.
_FIELDS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("ID", "id", _text),
    ("Schema", "$schema", _text),
    ("Ref", "$ref", _pointer),
    ("Description", "description", _text),
    ("Type", "type", _text),
    ("Nullable", "nullable", _flag),
    ("Format", "format", _text),
    ("Title", "title", _text),
    ("Default", "default", _pointer),
    ("Maximum", "maximum", _pointer),
    ("ExclusiveMaximum", "exclusiveMaximum", _flag),
    ("Minimum", "minimum", _pointer),
    ("ExclusiveMinimum", "exclusiveMinimum", _flag),
    ("MaxLength", "maxLength", _pointer),
    ("MinLength", "minLength", _pointer),
    ("Pattern", "pattern", _text),
    ("MaxItems", "maxItems", _pointer),
    ("MinItems", "minItems", _pointer),
    ("UniqueItems", "uniqueItems", _flag),
    ("MultipleOf", "multipleOf", _pointer),
    ("Enum", "enum", go_list),
    ("MaxProperties", "maxProperties", _pointer),
    ("MinProperties", "minProperties", _pointer),
    ("Required", "required", go_list),
    ("Items", "items", go_items),
    ("AllOf", "allOf", _schemas),
    ("OneOf", "oneOf", _schemas),
    ("AnyOf", "anyOf", _schemas),
    ("Not", "not", go_schema),
    ("Properties", "properties", _schema_map),
    ("AdditionalProperties", "additionalProperties", _or_bool),
    ("PatternProperties", "patternProperties", _schema_map),
    ("Dependencies", "dependencies", _dependencies),
    ("AdditionalItems", "additionalItems", _or_bool),
    ("Definitions", "definitions", _schema_map),
    ("ExternalDocs", "externalDocs", _external_docs),
    ("Example", "example", _pointer),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", _pointer),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", _flag),
    ("XIntOrString", "x-kubernetes-int-or-string", _flag),
    ("XListMapKeys", "x-kubernetes-list-map-keys", go_list),
    ("XListType", "x-kubernetes-list-type", _pointer),
    ("XMapType", "x-kubernetes-map-type", _pointer),
    ("XValidations", "x-kubernetes-validations", _rules),
)

# The Go field of each keyword, in the order of the struct.
GO_NAMES: dict[str, str] = {word: name for name, word, _ in _FIELDS}
