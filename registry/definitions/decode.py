"""Decoding of CustomResourceDefinitions from the JSON of a request to the decoded and the stored form.

`decode_definition` returns the decoded form, on which defaulting, strategy and validation work; `canonical` returns the
stored form. The decoded form distinguishes `enum: []` from an absent enum, as validation requires; the canonical form
does not. The canonical form is a valid decoded form: a stored definition need not be decoded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from registry.codec.structs import structs as typed
from registry.codec.structs.base import StructDecodeError
from registry.definitions import types

__all__ = ["DecodedDefinition", "StructDecodeError", "canonical", "decode_definition"]

Definition = dict[str, Any]

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"


@dataclass(frozen=True, slots=True)
class DecodedDefinition:
    """`unknown` lists the paths of dropped fields, such as `spec.versions[0].served2`, in document order."""

    definition: Definition
    unknown: list[str]


def decode_definition(body: object) -> DecodedDefinition:
    """The decoded form of `body`, which may be any JSON and is not changed; null is an empty definition.

    Sets kind and apiVersion, which the caller must have validated. Raises StructDecodeError with Go's text; the caller
    adds the prefix `CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: `.
    """
    decoded = typed.decode(types.CustomResourceDefinition, body)
    decoded.value["kind"] = KIND
    decoded.value["apiVersion"] = API_VERSION
    return DecodedDefinition(decoded.value, decoded.unknown)


def canonical(definition: Definition) -> Definition:
    """The stored and served form of a decoded definition, in the order of the Go struct."""
    encoded = typed.encode(types.CustomResourceDefinition, definition)
    conversion = encoded["spec"].get("conversion") or {}
    webhook = conversion.get("webhook")
    if webhook is not None and webhook.get("clientConfig") is None and webhook["conversionReviewVersions"] is None:
        del conversion["webhook"]  # kube-apiserver's internal form drops an empty webhook
    return encoded
