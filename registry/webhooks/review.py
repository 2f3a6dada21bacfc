"""An answer as an object: what reviews of conversion and of admission have in common. Pure."""

from __future__ import annotations

from typing import Any

from registry.codec.go_text import type_meta_error
from registry.webhooks.answers import decode_answer
from registry.webhooks.errors import CallFailed

# Where kube-apiserver's scheme for reviews was made: its error texts name the line.
SCHEME = '"k8s.io/apiserver/pkg/util/webhook/client.go:71"'


def decoded_review(data: bytes) -> dict[str, Any]:
    """Decodes an answer as an object, whatever its kind. Raises CallFailed."""
    value = decode_answer(data)
    if not isinstance(value, dict):
        raise CallFailed(type_meta_error(value) or "Object 'Kind' is missing in 'null'")
    return value


def go_json_type(value: Any) -> str:
    """Returns the name of a JSON value's type in Go's errors: `array`."""
    return {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
