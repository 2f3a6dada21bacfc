"""The body of a delete: DeleteOptions in JSON, YAML or (from client-go's metadata client) protobuf.

Follows apiserver pkg/endpoints/handlers/delete.go.
"""

from __future__ import annotations

from typing import Any, Final

from registry.api.errors import bad_request
from registry.codec.cbor import decode_cbor
from registry.codec.go_text import type_meta_error
from registry.codec.json_decode import decode_json
from registry.codec.model import DecodeError, JsonSyntaxError
from registry.codec.protobuf.envelope import decode_object as decode_protobuf
from registry.codec.structs import structs as typed
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.meta import META
from registry.codec.yaml_decode import decode_yaml

_SCHEME: Final = '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'


def decode_delete_options(data: bytes, media_type: str) -> dict[str, Any]:
    """Returns the fields that are given and known, of the right types, without nulls.

    Kind and apiVersion may be missing. Raises 400 for another kind.
    """
    try:
        value = _decode(data, media_type)
        if (why := type_meta_error(value)) is not None:
            raise bad_request(why)
        if ((value or {}).get("apiVersion") or "").count("/") > 1:
            raise bad_request(f"unexpected GroupVersion string: {value['apiVersion']}")
        kind = (value or {}).get("kind")
        if kind and kind != "DeleteOptions":
            version = value.get("apiVersion") or "meta.k8s.io/v1"
            raise bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme {_SCHEME}')
        return typed.decode(META["DeleteOptions"], value).value
    except JsonSyntaxError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    except (DecodeError, StructDecodeError) as error:
        raise bad_request(str(error)) from error


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
