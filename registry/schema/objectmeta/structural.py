"""ObjectMeta as a schema, for the types of CEL expressions."""

from __future__ import annotations

from typing import Final

from registry.schema.model import Structural

TEXT: Final = Structural(type="string")
_NUMBER: Final = Structural(type="integer")
_FLAG: Final = Structural(type="boolean")
_TIME: Final = Structural(type="string", format="date-time")
_TEXTS: Final = Structural(type="object", additional_properties=TEXT)
OBJECT_META: Final = Structural(
    type="object",
    properties={
        **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), TEXT),
        "generation": _NUMBER,
        "deletionGracePeriodSeconds": _NUMBER,
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": Structural(type="array", items=TEXT),
        "ownerReferences": Structural(
            type="array",
            items=Structural(
                type="object",
                properties={
                    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), TEXT),
                    "controller": _FLAG,
                    "blockOwnerDeletion": _FLAG,
                },
            ),
        ),
        "managedFields": Structural(
            type="array",
            items=Structural(
                type="object",
                properties={
                    **dict.fromkeys(("manager", "operation", "apiVersion", "fieldsType", "subresource"), TEXT),
                    "time": _TIME,
                    "fieldsV1": Structural(type="object"),
                },
            ),
        ),
    },
)
