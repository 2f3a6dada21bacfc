"""The body of a delete: DeleteOptions in JSON, YAML or (from client-go's metadata client) protobuf.

Follows apiserver pkg/endpoints/handlers/delete.go.
"""

from __future__ import annotations

from typing import Any

from registry.api.errors import bad_request
from registry.codec.cbor import decode_cbor
from registry.codec.json_decode import decode_json
from registry.codec.model import CborError, DecodeError, ProtoError, YamlError
from registry.codec.protobuf.envelope import decode_object as decode_protobuf
from registry.codec.yaml_decode import decode_yaml

_SCHEME = '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'


def decode_delete_options(data: bytes, media_type: str) -> dict[str, Any]:
    """The decoded options; kind and apiVersion may be missing, another kind is a 400."""
    try:
        value = _decode(data, media_type)
    except YamlError as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error
    except (CborError, ProtoError) as error:
        raise bad_request(str(error)) from error
    except DecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type runtime.TypeMeta"
        )
    kind = value.get("kind")
    if kind and kind != "DeleteOptions":
        raise bad_request(
            f'no kind "{kind}" is registered for version "{value.get("apiVersion") or ""}" in scheme {_SCHEME}'
        )
    return value


def _decode(data: bytes, media_type: str) -> Any:
    match media_type:
        case "protobuf":
            return decode_protobuf(data, "v1", "DeleteOptions")
        case "cbor":
            return decode_cbor(data).value
        case "yaml":
            return decode_yaml(data).value
        case _:
            return decode_json(data).value
