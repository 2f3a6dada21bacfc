"""The Go structs that kinds of several groups share, as tables for registry/definitions/structs/structs.py.

Follows apimachinery pkg/apis/meta/v1/types.go at v1.36.
"""

from __future__ import annotations

from registry.definitions.structs.scalars import INT_64, STRING, string_type
from registry.definitions.structs.structs import STRINGS, Field, Map, Slice, Struct
from registry.definitions.types import TIME, ObjectMeta


def kind(name: str, *fields: Field) -> Struct:
    """Returns a whole kind: type and object metadata, then its own fields."""
    return Struct(
        name, (Field("kind", STRING), Field("apiVersion", STRING), Field("metadata", ObjectMeta, True), *fields)
    )


LabelSelectorRequirement = Struct(
    "LabelSelectorRequirement",
    (
        Field("key", STRING, True),
        Field("operator", string_type("LabelSelectorOperator"), True),
        Field("values", STRINGS),
    ),
)
LabelSelector = Struct(
    "LabelSelector", (Field("matchLabels", Map(STRING)), Field("matchExpressions", Slice(LabelSelectorRequirement)))
)
Condition = Struct(
    "Condition",
    (
        Field("type", STRING, True),
        Field("status", string_type("ConditionStatus"), True),
        Field("observedGeneration", INT_64),
        Field("lastTransitionTime", TIME, True),
        Field("reason", STRING, True),
        Field("message", STRING, True),
    ),
)
