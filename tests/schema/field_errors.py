"""Schemas of one field, and the errors of a value in it: by the validator, and by the fast one, which must agree."""

from typing import Any

from registry.schema.fast_validate import compile_fast_validate
from registry.schema.model import from_json
from registry.schema.validation import validate

Schema = dict[str, Any]

INT: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
STRING: Schema = {"type": "string"}
BOOL: Schema = {"type": "boolean"}
LIST: Schema = {"type": "array", "items": STRING}
IOS: Schema = {"x-kubernetes-int-or-string": True}


def errors_of(field: Schema, value: Any) -> list[str]:
    """The errors of an object with `value` at `a`, under a schema with `field` there."""
    schema = from_json({"type": "object", "properties": {"a": field}})
    errors = [error.message() for error in validate(schema, {"a": value})]
    assert compile_fast_validate(schema)({"a": value}) is (not errors)
    return errors


def wrong_type(expected: str, actual: str) -> list[str]:
    return [f'a: Invalid value: "{actual}": a in body must be of type {expected}: "{actual}"']
