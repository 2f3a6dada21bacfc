"""The Go structs of apiextensions.k8s.io/v1beta1 that differ from v1, as tables for structs/structs.py.

Follows apiextensions-apiserver pkg/apis/apiextensions/v1beta1/types.go.
"""

from __future__ import annotations

from registry.definitions import types as v1
from registry.definitions.structs.scalars import BOOL, INT_32, STRING, Scalar
from registry.definitions.structs.structs import STRINGS, Field, Pointer, Slice, Struct

_PACKAGE = "v1beta1"


def _string_type(name: str) -> Scalar:
    return Scalar(f"{_PACKAGE}.{name}", str, "")


Conversion = Struct(
    "CustomResourceConversion",
    (
        Field("strategy", _string_type("ConversionStrategyType"), required=True),
        Field("webhookClientConfig", Pointer(v1.WebhookClientConfig)),
        Field("conversionReviewVersions", STRINGS),
    ),
    _PACKAGE,
)

Column = Struct(
    "CustomResourceColumnDefinition",
    (
        Field("name", STRING, required=True),
        Field("type", STRING, required=True),
        Field("format", STRING),
        Field("description", STRING),
        Field("priority", INT_32),
        Field("JSONPath", STRING, required=True),
    ),
    _PACKAGE,
)

Version = Struct(
    "CustomResourceDefinitionVersion",
    (
        Field("name", STRING, required=True),
        Field("served", BOOL, required=True),
        Field("storage", BOOL, required=True),
        Field("deprecated", BOOL),
        Field("deprecationWarning", Pointer(STRING)),
        Field("schema", Pointer(v1.Validation)),
        Field("subresources", Pointer(v1.Subresources)),
        Field("additionalPrinterColumns", Slice(Column)),
        Field("selectableFields", Slice(v1.SelectableField)),
    ),
    _PACKAGE,
)

Spec = Struct(
    "CustomResourceDefinitionSpec",
    (
        Field("group", STRING, required=True),
        Field("version", STRING),
        Field("names", v1.Names, required=True),
        Field("scope", _string_type("ResourceScope"), required=True),
        Field("validation", Pointer(v1.Validation)),
        Field("subresources", Pointer(v1.Subresources)),
        Field("versions", Slice(Version)),
        Field("additionalPrinterColumns", Slice(Column)),
        Field("selectableFields", Slice(v1.SelectableField)),
        Field("conversion", Pointer(Conversion)),
        Field("preserveUnknownFields", Pointer(BOOL)),
    ),
    _PACKAGE,
)

CustomResourceDefinition = Struct(
    "CustomResourceDefinition",
    (
        Field("kind", STRING),
        Field("apiVersion", STRING),
        Field("metadata", v1.ObjectMeta, required=True),
        Field("spec", Spec, required=True),
        Field("status", v1.Status, required=True),
    ),
    _PACKAGE,
)
