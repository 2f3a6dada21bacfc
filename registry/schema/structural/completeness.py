"""Completeness: everything that a junctor at the root of a schema names must be declared outside of junctors, too.

Only the junctors of the root are checked, with all that they nest; that a junctor of a field may name anything is
kube-apiserver's behaviour.

Follows apiextensions-apiserver pkg/apiserver/schema/complete.go at v0.36.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.schema.field import FieldError, child, index, key, required

Schema = Mapping[str, Any]


def incomplete(schema: Schema, path: str) -> list[FieldError]:
    """The errors: `s.properties[z]: Required value: because it is defined in s.anyOf[0].properties[z]`."""
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
