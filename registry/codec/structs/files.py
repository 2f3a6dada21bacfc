"""Configuration files in Kubernetes' formats, decoded strictly: duplicate and unknown fields are refused.

Follows apimachinery pkg/runtime/serializer (EnableStrict).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from registry.codec.go_text import go_quote
from registry.codec.model import Decoded
from registry.codec.structs.base import RepeatedField, StructDecodeError
from registry.codec.structs.structs import Struct, decode


def decode_file(struct: Struct, file: Decoded, api_versions: Sequence[str]) -> dict[str, Any]:
    """Returns the object in a file, whose kind is the name of `struct`. Raises StructDecodeError."""
    head = file.value if isinstance(file.value, dict) else {}
    if head.get("kind") != struct.name or head.get("apiVersion") not in api_versions:
        raise StructDecodeError(f"must be of kind {struct.name} and apiVersion {api_versions[0]}")
    typed = decode(struct, file.value)
    if faults := [*file.strict_errors(), *map(_fault, typed.unknown)]:
        raise StructDecodeError(f"strict decoding error: {', '.join(faults)}")
    return typed.value


def _fault(path: str) -> str:
    return f"{'duplicate' if isinstance(path, RepeatedField) else 'unknown'} field {go_quote(path)}"
