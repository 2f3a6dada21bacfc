"""Decoding of CustomResourceDefinitions: from the JSON of a request to the decoded and the stored form.

`decode_definition` returns the decoded form, which defaulting, strategy and validation work on; `canonical` returns the
stored form. The decoded form distinguishes `enum: []` from no enum, which validation needs and the canonical one does
not. The canonical form is a decoded form, too: a stored definition need not be decoded again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from registry.definitions import types
from registry.definitions.structs import structs as typed
from registry.definitions.structs.base import StructDecodeError

__all__ = ["Decoded", "StructDecodeError", "canonical", "decode_definition"]

Definition = dict[str, Any]

API_VERSION = "apiextensions.k8s.io/v1"
KIND = "CustomResourceDefinition"


@dataclass(frozen=True, slots=True)
class Decoded:
    """`unknown` holds the paths of fields that were dropped, such as `spec.versions[0].served2`, in their order."""

    definition: Definition
    unknown: list[str]


def decode_definition(body: object) -> Decoded:
    """The decoded form of `body`, which is not changed and may be anything; null is an empty definition.

    kind and apiVersion are filled in. Raises StructDecodeError with Go's text; the caller puts
    `CustomResourceDefinition in version "v1" cannot be handled as a CustomResourceDefinition: ` before it. Whether kind
    and apiVersion are those of a definition has been validated before.
    """
    decoded = typed.decode(types.CustomResourceDefinition, body)
    decoded.value["kind"] = KIND
    decoded.value["apiVersion"] = API_VERSION
    return Decoded(decoded.value, decoded.unknown)


def canonical(definition: Definition) -> Definition:
    """The stored and served form of a decoded definition, in the order of the Go struct."""
    encoded = typed.encode(types.CustomResourceDefinition, definition)
    conversion = encoded["spec"].get("conversion") or {}
    webhook = conversion.get("webhook")
    if webhook is not None and webhook.get("clientConfig") is None and webhook["conversionReviewVersions"] is None:
        del conversion["webhook"]  # kube-apiserver's internal form drops an empty webhook
    return encoded
