"""Metadata that the server itself writes.

Follows apiserver pkg/registry/rest/{meta,create,update}.go and apimachinery pkg/util/rand.
"""

from __future__ import annotations

import os
import secrets

from registry.api.errors import bad_request
from registry.api.request import ResourceRequest
from registry.api.retry_memo import RetryMemo
from registry.api.served import Object
from registry.api.strategies.base import Context

# Without vowels and look-alikes, so that no words result (apimachinery pkg/util/rand).
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_RANDOM_LENGTH = 5
# A label's length less the random suffix: the base of a generated name is cut to this (apiserver pkg/storage/names).
_GENERATED_BASE_LENGTH = 58


def generate_name(base: str) -> str:
    end = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return base[:_GENERATED_BASE_LENGTH] + end


def random_uid() -> str:
    """Returns a UUID of version 4 (RFC 9562) in a quarter of the time that uuid.uuid4 takes."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{_VARIANT[text[16]]}{text[17:20]}-{text[20:]}"


# The two bits of the variant, 10, before two that are random.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


# Fields that only the server sets, and that are dropped from an object that is not stored.
_WIPED_FIELDS = ("creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def wipe_system_fields(obj: Object) -> None:
    for name in _WIPED_FIELDS:
        obj["metadata"].pop(name, None)


def agree_on_namespace(request: ResourceRequest, obj: Object) -> None:
    """Requires that the body's namespace is the path's or missing; removes it from a cluster-scoped object."""
    metadata = obj["metadata"]
    if not request.served.namespaced:
        metadata.pop("namespace", None)
        return
    namespace = metadata.get("namespace")
    if namespace and namespace != request.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    metadata["namespace"] = request.namespace


def agree_on_name(request: ResourceRequest, obj: Object) -> None:
    """Requires that the name of the body is that of the path."""
    name = obj["metadata"].get("name")
    if not name:
        raise bad_request(
            f"the name of the object ({request.name} based on URL) was undeterminable: name must be provided"
        )
    if name != request.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")


# A client's values of these are replaced or dropped on create. A generation is replaced by the kinds that count it.
_SYSTEM_FIELDS = "uid creationTimestamp deletionTimestamp deletionGracePeriodSeconds selfLink managedFields".split()


def wipe_for_create(obj: Object) -> None:
    for name in _SYSTEM_FIELDS:
        obj["metadata"].pop(name, None)


def name_in_refusal(obj: Object) -> str:
    """Returns the name under which admission refuses an object to be created (apiserver pkg/admission/errors.go)."""
    return obj["metadata"].get("name") or obj["metadata"].get("generateName") or "Unknown"


def fill_for_create(obj: Object, context: Context) -> None:
    """Sets uid and creationTimestamp, and generates a name if needed: the same in each attempt."""
    metadata, memo = obj["metadata"], context.memo or RetryMemo()
    memo.uid = metadata["uid"] = memo.uid or random_uid()
    metadata["creationTimestamp"] = context.timestamp
    memo.has_prefix = bool(metadata.get("generateName"))
    if memo.has_prefix and not metadata.get("name"):
        memo.name = metadata["name"] = memo.name or generate_name(metadata["generateName"])


# Fields that a write cannot change: missing or different values are restored silently. Another uid or grace period, or
# a deletionTimestamp on an object without one, is refused by validation instead.
_RESTORED = ("creationTimestamp", "generation", "selfLink")
_KEPT_IF_MISSING = ("uid", "namespace", "deletionGracePeriodSeconds")


def restore_for_update(new: Object, old: Object) -> None:
    """Restores fields that only the server writes."""
    metadata, stored = new["metadata"], old["metadata"]
    for name in _RESTORED:
        if name in stored:
            metadata[name] = stored[name]
        else:
            metadata.pop(name, None)
    for name in _KEPT_IF_MISSING:
        if metadata.get(name) in (None, "") and name in stored:
            metadata[name] = stored[name]
    if "deletionTimestamp" in stored:
        metadata["deletionTimestamp"] = stored["deletionTimestamp"]


def is_terminating(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


def is_released(obj: Object) -> bool:
    """Whether the object is marked for deletion, and has no finalizers left."""
    return is_terminating(obj) and not obj["metadata"].get("finalizers")
