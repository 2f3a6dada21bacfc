"""Config maps, and the keys and sizes of their data, which secrets share.

Follows kubernetes pkg/apis/core/validation/validation.go (ValidateConfigMap) and apimachinery pkg/util/validation
(IsConfigMapKey).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from registry.api.strategies.base import Object
from registry.api.strategies.typed import TypedStrategy
from registry.builtin.structs import CORE
from registry.codec.sorting import sorted_keys
from registry.schema.field import FieldError, forbidden, invalid, too_long
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
