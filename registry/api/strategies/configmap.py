"""Config maps. Follows kubernetes pkg/apis/core/validation/validation.go (ValidateConfigMap)."""

from __future__ import annotations

from registry.api.strategies.base import Object
from registry.api.strategies.data_keys import MAX_DATA_BYTES, base64_length, immutable_errors, key_errors
from registry.api.strategies.typed import TypedStrategy
from registry.builtin.structs import CORE
from registry.codec.sorting import sorted_keys
from registry.schema.field import FieldError, invalid, too_long
from registry.schema.field import key as key_path


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
