"""Null pruning: removes a field that is null, not nullable and without a default.

A null with a default is left for defaulting; nulls in lists and nulls without a schema are kept.

Follows apiextensions-apiserver pkg/apiserver/schema/defaulting/prunenulls.go.
"""

from __future__ import annotations

from registry.schema.model import UNSET, Structural
from registry.schema.validation import validate
from registry.schema.values import Json


def drop_nulls(value: Json, schema: Structural, *, only_valid: bool) -> None:
    """Removes such nulls from `value`, in place. Recursion follows the schema, whose depth is bounded.

    With `only_valid`, nulls that are invalid by their schemas remain, for validation to refuse.
    """
    if value.__class__ is dict:
        additional = schema.additional_properties
        rest = additional if isinstance(additional, Structural) else None
        dropped: list[str] = []
        for name, inner in value.items():
            inner_schema = schema.properties.get(name, rest)
            if inner_schema is None:
                continue
            if inner is None:
                may_stay = inner_schema.nullable or inner_schema.default is not UNSET
                if not (may_stay or (only_valid and validate(inner_schema, None))):
                    dropped.append(name)
            elif inner.__class__ is dict or inner.__class__ is list:
                drop_nulls(inner, inner_schema, only_valid=only_valid)
        for name in dropped:
            del value[name]
    elif value.__class__ is list and schema.items is not None:
        for item in value:
            if item.__class__ is dict or item.__class__ is list:
                drop_nulls(item, schema.items, only_valid=only_valid)
