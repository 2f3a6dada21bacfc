"""The body of a delete: DeleteOptions in JSON, YAML or (from client-go's metadata client) protobuf.

Follows apiserver pkg/endpoints/handlers/delete.go.
"""

from __future__ import annotations

from typing import Any, Final

from registry.api.errors import bad_request
from registry.codec.cbor import decode_cbor
from registry.codec.go_text import go_json, not_registered, type_meta, type_meta_error
from registry.codec.json_decode import decode_json, decode_verbatim_json, has_float
from registry.codec.model import DecodeError, JsonNumberError, JsonSyntaxError
from registry.codec.protobuf.envelope import decode_object as decode_protobuf
from registry.codec.structs import structs as typed
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.meta import META, UNVERSIONED
from registry.codec.yaml_decode import decode_yaml
from registry.schema.field import MAX_TEXT

_SCHEME: Final = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
# The other kinds of this scheme: those that it knows in any version, and those of meta.k8s.io.
_ANY_VERSION: Final = UNVERSIONED | {"CreateOptions", "UpdateOptions"}
_FORMS: Final = frozenset({"Table", "TableOptions", "PartialObjectMetadata", "PartialObjectMetadataList"})
_META: Final = {
    "meta.k8s.io/v1": _FORMS | {"ListOptions", "GetOptions", "PatchOptions", "WatchEvent"},
    "meta.k8s.io/v1beta1": _FORMS,
}
_ONLY_V1BETA1: Final = ("meta.k8s.io/v1beta1", "PartialObjectMetadataList")


def decode_delete_options(data: bytes, media_type: str) -> dict[str, Any]:
    """Returns the fields that are given and known, of the right types, without nulls.

    Kind and apiVersion may be missing. Raises 400 for another kind.
    """
    try:
        value = _decode(data, media_type)
        if (why := type_meta_error(value)) is not None:
            raise bad_request(why)
        meta = type_meta(value or {}, is_sorted=media_type == "yaml")
        api_version, kind = meta.get("apiVersion") or "", meta.get("kind")
        if api_version.count("/") > 1:
            raise bad_request(f"unexpected GroupVersion string: {api_version}")
        api_version = api_version.removeprefix("/")  # Go reads "/v1" as version v1 of the core group
        if api_version in ("", "meta.k8s.io/"):
            api_version = "meta.k8s.io/v1"
        if api_version.endswith("/"):
            text = go_json(value, MAX_TEXT) if media_type == "yaml" else data.decode(errors="replace")
            raise bad_request(f"Object 'apiVersion' is missing in '{text}'")
        if kind and kind != "DeleteOptions":
            raise bad_request(_wrong_kind(kind, api_version))
        return typed.decode(META["DeleteOptions"], value).value
    except JsonSyntaxError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    except (DecodeError, StructDecodeError) as error:
        raise bad_request(str(error)) from error


def _wrong_kind(kind: str, api_version: str) -> str:
    if kind in _ANY_VERSION or kind in _META.get(api_version, ()):
        version = "v1beta1" if (api_version, kind) == _ONLY_V1BETA1 else "v1"
        return f"converting ({version}.{kind}) to (v1.DeleteOptions): unknown conversion"
    return not_registered(kind, api_version, _SCHEME)


def _decode(data: bytes, media_type: str) -> Any:
    match media_type:
        case "protobuf":
            return decode_protobuf(data, "v1", "DeleteOptions")
        case "cbor":
            return decode_cbor(data).value
        case "yaml":
            return decode_yaml(data).value
        case _:
            return _decode_json(data)


def _decode_json(data: bytes) -> Any:
    """Returns the value with repeated members, and with numbers as they were written, which errors quote."""
    try:
        decoded = decode_json(data)
    except JsonNumberError:  # an error only in any JSON, which DeleteOptions have not
        if (verbatim := decode_verbatim_json(data)) is None:
            raise
        return verbatim
    if decoded.duplicates or has_float(decoded.value):
        return decode_verbatim_json(data) or decoded.value
    return decoded.value
