"""Decoding and defaulting of v1beta1 definitions.

The forms are those of registry/definitions/decode.py: decoded and canonical.

Follows apiextensions-apiserver pkg/apis/apiextensions/v1beta1/defaults.go.
"""

from __future__ import annotations

from typing import Any

from registry.codec.structs import structs as typed
from registry.codec.structs.declarations import qualified, read_structs
from registry.codec.structs.meta import METAV1
from registry.definitions import types
from registry.definitions.decode import KIND, DecodedDefinition
from registry.definitions.defaulting import default_stored_versions

Definition = dict[str, Any]

API_VERSION = "apiextensions.k8s.io/v1beta1"

_STRUCT = read_structs(__package__, "apiextensions_v1beta1.txt", {**METAV1, **qualified("apiextensionsv1", types.V1)})[
    "CustomResourceDefinition"
]


def decode_definition(body: object) -> DecodedDefinition:
    """The decoded form of `body`, which may be any JSON and is not changed. Raises DecodeError with Go's text."""
    decoded = typed.decode(_STRUCT, body)
    decoded.value["kind"] = KIND
    decoded.value["apiVersion"] = API_VERSION
    return DecodedDefinition(decoded.value, decoded.unknown)


def canonical(definition: Definition) -> Definition:
    return typed.encode(_STRUCT, definition)


def default_definition(crd: Definition) -> None:
    """Sets defaults in place. preserveUnknownFields defaults to true."""
    spec = crd.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind") or ""
    if not spec.get("scope"):
        spec["scope"] = "Namespaced"
    if not names.get("singular") and kind:
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
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
