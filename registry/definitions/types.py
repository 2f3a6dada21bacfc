"""The Go structs of apiextensions.k8s.io/v1, as tables for structs/structs.py.

Follows apiextensions-apiserver pkg/apis/apiextensions/v1/{types,types_jsonschema,marshal}.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from registry.definitions.structs.base import Context, GoType, Link, StructDecodeError, mismatch
from registry.definitions.structs.scalars import BOOL, BYTES, FLOAT_64, INT_32, INT_64, RAW, STRING, Scalar, string_type
from registry.definitions.structs.structs import STRINGS, Field, Map, OneOf, Pointer, Slice, Struct
from registry.schema.gotime import TimeError, canonical_time


class Time(GoType):
    """A metav1.Time: RFC 3339 in UTC with whole seconds, or null. `canonical` converts other forms of time."""

    go = "string"
    by_reference = True

    def __init__(self, canonical: Callable[[str], str] = canonical_time) -> None:
        self._canonical = canonical

    def decode(self, value: Any, link: Link, context: Context) -> Any:
        if type(value) is not str:
            raise mismatch(value, link, self.go)
        try:
            return self._canonical(value)
        except TimeError as error:
            raise StructDecodeError(str(error)) from error


TIME = Time()

OwnerReference = Struct(
    "OwnerReference",
    (
        Field("apiVersion", STRING, required=True),
        Field("kind", STRING, required=True),
        Field("name", STRING, required=True),
        Field("uid", Scalar("types.UID", str, ""), required=True),
        Field("controller", Pointer(BOOL)),
        Field("blockOwnerDeletion", Pointer(BOOL)),
    ),
)

ManagedFieldsEntry = Struct(
    "ManagedFieldsEntry",
    (
        Field("manager", STRING),
        Field("operation", string_type("ManagedFieldsOperationType")),
        Field("apiVersion", STRING),
        Field("time", Pointer(TIME)),
        Field("fieldsType", STRING),
        Field("fieldsV1", Pointer(RAW)),
        Field("subresource", STRING),
    ),
)

ObjectMeta = Struct(
    "ObjectMeta",
    (
        Field("name", STRING),
        Field("generateName", STRING),
        Field("namespace", STRING),
        Field("selfLink", STRING),
        Field("uid", Scalar("types.UID", str, "")),
        Field("resourceVersion", STRING),
        Field("generation", INT_64),
        Field("creationTimestamp", TIME),
        Field("deletionTimestamp", Pointer(TIME)),
        Field("deletionGracePeriodSeconds", Pointer(INT_64)),
        Field("labels", Map(STRING)),
        Field("annotations", Map(STRING)),
        Field("ownerReferences", Slice(OwnerReference)),
        Field("finalizers", STRINGS),
        Field("managedFields", Slice(ManagedFieldsEntry)),
    ),
)

Names = Struct(
    "CustomResourceDefinitionNames",
    (
        Field("plural", STRING, required=True),
        Field("singular", STRING),
        Field("shortNames", STRINGS),
        Field("kind", STRING, required=True),
        Field("listKind", STRING),
        Field("categories", STRINGS),
    ),
)

ServiceReference = Struct(
    "ServiceReference",
    (
        Field("namespace", STRING, required=True),
        Field("name", STRING, required=True),
        Field("path", Pointer(STRING)),
        Field("port", Pointer(INT_32)),
    ),
)

WebhookClientConfig = Struct(
    "WebhookClientConfig",
    (Field("url", Pointer(STRING)), Field("service", Pointer(ServiceReference)), Field("caBundle", BYTES)),
)

WebhookConversion = Struct(
    "WebhookConversion",
    (Field("clientConfig", Pointer(WebhookClientConfig)), Field("conversionReviewVersions", STRINGS, required=True)),
)

Conversion = Struct(
    "CustomResourceConversion",
    (
        Field("strategy", string_type("ConversionStrategyType"), required=True),
        Field("webhook", Pointer(WebhookConversion)),
    ),
)

ValidationRule = Struct(
    "ValidationRule",
    (
        Field("rule", STRING, required=True),
        Field("message", STRING),
        Field("messageExpression", STRING),
        Field("reason", Pointer(string_type("FieldValueErrorReason"))),
        Field("fieldPath", STRING),
        Field("optionalOldSelf", Pointer(BOOL)),
    ),
)

ExternalDocumentation = Struct("ExternalDocumentation", (Field("description", STRING), Field("url", STRING)))

JSONSchemaProps = Struct("JSONSchemaProps")


def _schema_or_bool(value: Any, link: Link, context: Context) -> Any:
    if type(value) is dict:
        return JSONSchemaProps.decode(value, link, context)
    if type(value) is bool:
        return value
    raise StructDecodeError("boolean or JSON schema expected")


def _schema_or_schemas(value: Any, link: Link, context: Context) -> Any:
    if type(value) is dict:
        return JSONSchemaProps.decode(value, link, context)
    if type(value) is list:
        return Slice(JSONSchemaProps).decode(value, link, context)
    return []  # anything else counts as no schema at all


def _schema_or_strings(value: Any, link: Link, context: Context) -> Any:
    if type(value) is dict:
        return JSONSchemaProps.decode(value, link, context)
    if type(value) is list:
        return STRINGS.decode(value, link, context)
    return []


def _encode_schema_or(value: Any) -> Any:
    if type(value) is dict:
        return JSONSchemaProps.encode(value)
    if type(value) is list:
        return [JSONSchemaProps.encode(v) if type(v) is dict else v for v in value] or None
    return value


_OR_BOOL = OneOf("v1.JSONSchemaPropsOrBool", _schema_or_bool, _encode_schema_or)
_OR_ARRAY = OneOf("v1.JSONSchemaPropsOrArray", _schema_or_schemas, _encode_schema_or)
_OR_STRINGS = OneOf("v1.JSONSchemaPropsOrStringArray", _schema_or_strings, _encode_schema_or)
_SCHEMAS = Slice(JSONSchemaProps)
_SCHEMA_MAP = Map(JSONSchemaProps)

JSONSchemaProps.extend(
    (
        Field("id", STRING),
        Field("$schema", string_type("JSONSchemaURL")),
        Field("$ref", Pointer(STRING)),
        Field("description", STRING),
        Field("type", STRING),
        Field("format", STRING),
        Field("title", STRING),
        Field("default", Pointer(RAW)),
        Field("maximum", Pointer(FLOAT_64)),
        Field("exclusiveMaximum", BOOL),
        Field("minimum", Pointer(FLOAT_64)),
        Field("exclusiveMinimum", BOOL),
        Field("maxLength", Pointer(INT_64)),
        Field("minLength", Pointer(INT_64)),
        Field("pattern", STRING),
        Field("maxItems", Pointer(INT_64)),
        Field("minItems", Pointer(INT_64)),
        Field("uniqueItems", BOOL),
        Field("multipleOf", Pointer(FLOAT_64)),
        Field("enum", Slice(RAW)),
        Field("maxProperties", Pointer(INT_64)),
        Field("minProperties", Pointer(INT_64)),
        Field("required", STRINGS),
        Field("items", _OR_ARRAY),
        Field("allOf", _SCHEMAS),
        Field("oneOf", _SCHEMAS),
        Field("anyOf", _SCHEMAS),
        Field("not", Pointer(JSONSchemaProps)),
        Field("properties", _SCHEMA_MAP),
        Field("additionalProperties", _OR_BOOL),
        Field("patternProperties", _SCHEMA_MAP),
        Field("dependencies", Map(_OR_STRINGS)),
        Field("additionalItems", _OR_BOOL),
        Field("definitions", _SCHEMA_MAP),
        Field("externalDocs", Pointer(ExternalDocumentation)),
        Field("example", Pointer(RAW)),
        Field("nullable", BOOL),
        Field("x-kubernetes-preserve-unknown-fields", Pointer(BOOL)),
        Field("x-kubernetes-embedded-resource", BOOL),
        Field("x-kubernetes-int-or-string", BOOL),
        Field("x-kubernetes-list-map-keys", STRINGS),
        Field("x-kubernetes-list-type", Pointer(STRING)),
        Field("x-kubernetes-map-type", Pointer(STRING)),
        Field("x-kubernetes-validations", Slice(ValidationRule, "v1.ValidationRules")),
    )
)

Validation = Struct("CustomResourceValidation", (Field("openAPIV3Schema", Pointer(JSONSchemaProps)),))

Scale = Struct(
    "CustomResourceSubresourceScale",
    (
        Field("specReplicasPath", STRING, required=True),
        Field("statusReplicasPath", STRING, required=True),
        Field("labelSelectorPath", Pointer(STRING)),
    ),
)

Subresources = Struct(
    "CustomResourceSubresources",
    (Field("status", Pointer(Struct("CustomResourceSubresourceStatus"))), Field("scale", Pointer(Scale))),
)

Column = Struct(
    "CustomResourceColumnDefinition",
    (
        Field("name", STRING, required=True),
        Field("type", STRING, required=True),
        Field("format", STRING),
        Field("description", STRING),
        Field("priority", INT_32),
        Field("jsonPath", STRING, required=True),
    ),
)

SelectableField = Struct("SelectableField", (Field("jsonPath", STRING, required=True),))

Version = Struct(
    "CustomResourceDefinitionVersion",
    (
        Field("name", STRING, required=True),
        Field("served", BOOL, required=True),
        Field("storage", BOOL, required=True),
        Field("deprecated", BOOL),
        Field("deprecationWarning", Pointer(STRING)),
        Field("schema", Pointer(Validation)),
        Field("subresources", Pointer(Subresources)),
        Field("additionalPrinterColumns", Slice(Column)),
        Field("selectableFields", Slice(SelectableField)),
    ),
)

Spec = Struct(
    "CustomResourceDefinitionSpec",
    (
        Field("group", STRING, required=True),
        Field("names", Names, required=True),
        Field("scope", string_type("ResourceScope"), required=True),
        Field("versions", Slice(Version), required=True),
        Field("conversion", Pointer(Conversion)),
        Field("preserveUnknownFields", BOOL),
    ),
)

Condition = Struct(
    "CustomResourceDefinitionCondition",
    (
        Field("type", string_type("CustomResourceDefinitionConditionType"), required=True),
        Field("status", string_type("ConditionStatus"), required=True),
        Field("lastTransitionTime", TIME, required=True),
        Field("reason", STRING),
        Field("message", STRING),
        Field("observedGeneration", INT_64),
    ),
)

Status = Struct(
    "CustomResourceDefinitionStatus",
    (
        Field("conditions", Slice(Condition), required=True),
        Field("acceptedNames", Names, required=True),
        Field("storedVersions", STRINGS, required=True),
        Field("observedGeneration", INT_64),
    ),
)

CustomResourceDefinition = Struct(
    "CustomResourceDefinition",
    (
        Field("kind", STRING),
        Field("apiVersion", STRING),
        Field("metadata", ObjectMeta, required=True),
        Field("spec", Spec, required=True),
        Field("status", Status, required=True),
    ),
)
