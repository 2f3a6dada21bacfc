"""Config maps and secrets, whose data have the same keys and the same limit.

Follows kubernetes pkg/apis/core/validation/validation.go (ValidateConfigMap, ValidateSecret), pkg/registry/core/secret
and apimachinery pkg/util/validation (IsConfigMapKey).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from registry.api.strategies.base import Context, Object
from registry.api.strategies.builtin import TypedStrategy
from registry.builtin.structs import CORE
from registry.codec.go_text import json_type
from registry.codec.json_decode import decode_json
from registry.codec.model import DecodeError
from registry.codec.sorting import sorted_keys
from registry.schema.field import FieldError, forbidden, invalid, required, too_long
from registry.schema.field import key as key_path
from registry.schema.names import regex_error

# The limit for all values together; a revision of an object must stay small (core.MaxSecretSize).
MAX_DATA_BYTES = 1024 * 1024
_MAX_KEY = 253
_KEY = "[-._a-zA-Z0-9]+"
_is_key = re.compile(_KEY).fullmatch
_KEY_ERROR = regex_error(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)
IMMUTABLE = "field is immutable when `immutable` is set"


def key_errors(keys: Collection[str], path: str) -> list[FieldError]:
    return [invalid(key_path(path, key), key, problem) for key in sorted_keys(keys) for problem in key_problems(key)]


def key_problems(key: str) -> list[str]:
    problems = []
    if len(key) > _MAX_KEY:
        problems.append(f"must be no more than {_MAX_KEY} characters")
    if not _is_key(key):
        problems.append(_KEY_ERROR)
    elif key in (".", ".."):
        problems.append(f"must not be '{key}'")
    elif key.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def base64_length(text: str) -> int:
    """Returns the number of bytes that canonical base64 encodes."""
    return len(text) // 4 * 3 - (text.endswith("=") + text.endswith("=="))


def immutable_errors(new: dict[str, object], old: dict[str, object], names: Iterable[str]) -> list[FieldError]:
    """Returns an error for each change of an immutable object's named members, or of `immutable` itself."""
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", IMMUTABLE)]
    return errors + [forbidden(name, IMMUTABLE) for name in names if (new.get(name) or {}) != (old.get(name) or {})]


class ConfigMapStrategy(TypedStrategy):
    struct = CORE["ConfigMap"]
    checks_finalizers = True
    controlled = True

    def errors(self, obj: Object) -> list[FieldError]:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        errors = self.meta_errors(obj) + key_errors(data, "data")
        errors += [
            invalid(key_path("data", key), key, "duplicate of key present in binaryData")
            for key in sorted_keys(data)
            if key in binary
        ]
        errors += key_errors(binary, "binaryData")
        size = sum(len(v) if v.isascii() else len(v.encode()) for v in data.values())
        if size + sum(map(base64_length, binary.values())) > MAX_DATA_BYTES:
            errors.append(too_long("[]", MAX_DATA_BYTES))  # the whole object, as Go prints an empty path
        return errors

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        return immutable_errors(new, old, ("data", "binaryData")) + self.errors(new)


OPAQUE = "Opaque"
_REDACTED = "<secret contents redacted>"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_TOKEN = "kubernetes.io/service-account-token"
_TLS = "kubernetes.io/tls"


class SecretStrategy(TypedStrategy):
    struct = CORE["Secret"]
    checks_finalizers = True
    labels = ("type",)

    def default(self, obj: Object) -> None:
        obj["type"] = obj.get("type") or OPAQUE
        texts = obj.pop("stringData", None)
        if texts:
            encoded = {
                name: base64.b64encode(text.encode("utf-8", "surrogatepass")).decode() for name, text in texts.items()
            }
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        new["type"] = new.get("type") or old.get("type") or OPAQUE

    def errors(self, obj: Object) -> list[FieldError]:
        data = obj.get("data") or {}
        errors = self.meta_errors(obj) + key_errors(data, "data")
        if sum(map(base64_length, data.values())) > MAX_DATA_BYTES:
            errors.append(too_long("data", MAX_DATA_BYTES))
        rule = _RULES.get(obj["type"])
        return errors + rule(obj, data) if rule else errors

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        errors = []
        if new["type"] != old.get("type"):
            errors.append(invalid("type", new["type"], "field is immutable"))
        return errors + immutable_errors(new, old, ("data",)) + self.errors(new)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        if new["type"] != _TLS:
            return ()
        certificate = base64.b64decode((new.get("data") or {}).get("tls.crt") or "")
        if b"-----BEGIN " not in certificate:
            return ("tls: failed to find any PEM data in certificate input",)
        return ()


DataRule = Callable[[Object, dict[str, Any]], list[FieldError]]


def _present(*names: str) -> DataRule:
    return lambda obj, data: [required(f"data[{name}]") for name in names if name not in data]


def _basic_auth(obj: Object, data: dict[str, Any]) -> list[FieldError]:
    names = ("username", "password")
    return [] if any(n in data for n in names) else [required(f"data[{n}]") for n in names]


def _ssh_auth(obj: Object, data: dict[str, Any]) -> list[FieldError]:
    return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]


def _account_token(obj: Object, data: dict[str, Any]) -> list[FieldError]:
    annotations = obj["metadata"].get("annotations") or {}
    return [] if annotations.get(ACCOUNT_NAME) else [required(f"metadata.annotations[{ACCOUNT_NAME}]")]


def _json_object(name: str) -> DataRule:
    """Returns the rule that a member is present and holds a JSON object."""

    def rule(obj: Object, data: dict[str, Any]) -> list[FieldError]:
        path = f"data[{name}]"
        if name not in data:
            return [required(path)]
        fault = _json_fault(base64.b64decode(data[name]))
        return [invalid(path, _REDACTED, fault)] if fault else []

    return rule


def _json_fault(text: bytes) -> str:
    try:
        value = decode_json(text).value
    except DecodeError as error:
        return str(error)
    if value is None or isinstance(value, dict):
        return ""
    return f"json: cannot unmarshal {json_type(value)} into Go value of type map[string]interface {{}}"


_RULES: dict[str, DataRule] = {
    ACCOUNT_TOKEN: _account_token,
    "kubernetes.io/basic-auth": _basic_auth,
    "kubernetes.io/ssh-auth": _ssh_auth,
    _TLS: _present("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": _json_object(".dockercfg"),
    "kubernetes.io/dockerconfigjson": _json_object(".dockerconfigjson"),
}
