"""Decodes and defaults v1beta1 definitions, and converts them to v1 and back. Only the order of fields may be lost.

In v1 each version has its own schema, subresources and columns. v1beta1 has them at the top level if they are the same
for all versions, and then does not allow them per version. Pure functions on decoded forms, as
registry/definitions/decode.py has them; results share parts with their arguments.

Follows apiextensions-apiserver pkg/apis/apiextensions/v1/conversion.go (to and from the internal form, which is that
of v1beta1) and v1beta1/defaults.go.
"""

from __future__ import annotations

from registry.codec.structs import structs as typed
from registry.codec.structs.declarations import qualified, read_structs
from registry.codec.structs.meta import METAV1
from registry.definitions import decode, types
from registry.definitions.decode import KIND, Definition
from registry.definitions.defaulting import default_names, default_stored_versions
from registry.definitions.internal import InternalSpec, InternalVersion, internal_spec, internal_version
from registry.definitions.model import Json

API_VERSION = "apiextensions.k8s.io/v1beta1"

_STRUCT = read_structs(__package__, "apiextensions_v1beta1.txt", {**METAV1, **qualified("apiextensionsv1", types.V1)})[
    "CustomResourceDefinition"
]


def decode_definition(body: object) -> typed.Typed:
    """The decoded form of `body`, which may be any JSON and is not changed. Raises DecodeError with Go's text."""
    decoded = typed.decode(_STRUCT, body)
    decoded.value["kind"] = KIND
    decoded.value["apiVersion"] = API_VERSION
    return decoded


def canonical(definition: Definition) -> Definition:
    return typed.encode(_STRUCT, definition)


def default_definition(crd: Definition) -> None:
    """Sets defaults in place. preserveUnknownFields defaults to true."""
    spec = crd.setdefault("spec", {})
    default_names(spec.setdefault("names", {}))
    if not spec.get("scope"):
        spec["scope"] = "Namespaced"
    versions, version = spec.get("versions"), spec.get("version")
    if not versions and version:
        spec["versions"] = [{"name": version, "served": True, "storage": True}]
    elif versions and not version:
        spec["version"] = versions[0].get("name") or ""
    _default_conversion(spec)
    spec.setdefault("preserveUnknownFields", True)
    default_stored_versions(crd)


def _default_conversion(spec: Definition) -> None:
    conversion = spec.get("conversion")
    if conversion is None:
        spec["conversion"] = {"strategy": "None"}
        return
    if conversion.get("strategy") == "Webhook" and not conversion.get("conversionReviewVersions"):
        conversion["conversionReviewVersions"] = ["v1beta1"]
    service = (conversion.get("webhookClientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443


# The top-level fields of v1beta1, and the fields of a version in v1.
_SHARED = (
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
)


def to_v1(crd: Json) -> Definition:
    """`{"spec": {"version": "v1", "validation": ...}}` gives `{"spec": {"versions": [{"schema": ...}]}}`."""
    spec = crd.get("spec") or {}
    out = {name: spec[name] for name in ("group", "names", "scope") if name in spec}
    versions = spec.get("versions")
    if not versions and spec.get("version"):
        versions = [{"name": spec["version"], "served": True, "storage": True}]
    if versions is not None:
        top = {name: spec[shared] for shared, name in _SHARED if spec.get(shared) is not None}
        out["versions"] = [_with_paths({**version, **top}, "JSONPath", "jsonPath") for version in versions]
    if spec.get("conversion") is not None:
        out["conversion"] = _conversion_v1(spec["conversion"])
    if spec.get("preserveUnknownFields"):
        out["preserveUnknownFields"] = True
    return {**crd, "apiVersion": decode.API_VERSION, "spec": out}


def from_v1(crd: Json) -> Definition:
    internal = internal_spec(crd)
    spec = crd.get("spec") or {}
    out = {name: spec[name] for name in ("group", "names", "scope") if name in spec}
    if internal.version:
        out["version"] = internal.version
    for name, value in (
        ("validation", internal.schema),
        ("subresources", internal.subresources),
        ("additionalPrinterColumns", internal.columns),
        ("selectableFields", internal.selectable_fields),
    ):
        if value is not None:
            out[name] = value
    if internal.versions is not None:
        out["versions"] = [_with_paths(_version(v), "jsonPath", "JSONPath") for v in internal.versions]
    if internal.conversion is not None:
        out["conversion"] = _conversion_beta(internal.conversion)
    out["preserveUnknownFields"] = internal.preserve_unknown_fields
    return {**crd, "apiVersion": API_VERSION, "spec": _with_paths(out, "jsonPath", "JSONPath")}


def internal_beta(crd: Json) -> InternalSpec:
    """The internal form, which is validated, of a v1beta1 definition as it was given."""
    spec = _with_paths(crd.get("spec") or {}, "JSONPath", "jsonPath")
    versions = spec.get("versions")
    return InternalSpec(
        group=spec.get("group") or "",
        version=spec.get("version") or "",
        names=spec.get("names") or {},
        scope=spec.get("scope") or "",
        schema=spec.get("validation"),
        subresources=spec.get("subresources"),
        versions=None if versions is None else [_internal_version(v) for v in versions],
        columns=spec.get("additionalPrinterColumns"),
        selectable_fields=spec.get("selectableFields"),
        conversion=None if spec.get("conversion") is None else _conversion_v1(spec["conversion"]),
        preserve_unknown_fields=bool(spec.get("preserveUnknownFields")),
    )


def _internal_version(version: Json) -> InternalVersion:
    return internal_version(_with_paths(version, "JSONPath", "jsonPath"))


def _version(version: InternalVersion) -> Definition:
    parts = {
        "name": version.name,
        "served": version.served,
        "storage": version.storage,
        "deprecated": version.deprecated or None,
        "deprecationWarning": version.deprecation_warning,
        "schema": version.schema,
        "subresources": version.subresources,
        "additionalPrinterColumns": version.columns,
        "selectableFields": version.selectable_fields,
    }
    return {name: value for name, value in parts.items() if value is not None}


def _with_paths(version: Json, old: str, new: str) -> Definition:
    """A copy whose columns have the field `old` renamed to `new`: JSONPath became jsonPath."""
    out = dict(version)
    columns = out.get("additionalPrinterColumns")
    if columns:
        out["additionalPrinterColumns"] = [
            {(new if name == old else name): value for name, value in column.items()} for column in columns
        ]
    return out


def _conversion_v1(conversion: Json) -> Definition:
    out = {
        name: value
        for name, value in conversion.items()
        if name not in ("webhookClientConfig", "conversionReviewVersions")
    }
    client, versions = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if client is not None or versions is not None:
        out["webhook"] = {
            name: value
            for name, value in (("clientConfig", client), ("conversionReviewVersions", versions))
            if value is not None
        }
    return out


def _conversion_beta(conversion: Json) -> Definition:
    out = {name: value for name, value in conversion.items() if name != "webhook"}
    webhook = conversion.get("webhook") or {}
    if webhook.get("clientConfig") is not None:
        out["webhookClientConfig"] = webhook["clientConfig"]
    if webhook.get("conversionReviewVersions") is not None:
        out["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return out


def stored_form(crd: Definition) -> Definition:
    """The stored form of a v1beta1 definition: the canonical form of v1."""
    return decode.canonical(to_v1(crd))


def served_form(crd: Definition) -> Definition:
    """The v1beta1 form of a stored definition."""
    return canonical(from_v1(crd))


def convert(crd: Definition, api_version: str) -> Definition:
    """Converts a canonical definition of either version to `api_version`."""
    if crd.get("apiVersion") == api_version:
        return crd
    return stored_form(crd) if api_version == decode.API_VERSION else served_form(crd)
