"""JSON merge patches (RFC 7386) on decoded values.

Inputs are not changed; results share unchanged values with them. Works at any depth, without recursion. Follows
gopkg.in/evanphx/json-patch.v4 merge.go, which also drops nulls from objects inside new lists.
"""

from __future__ import annotations

from typing import Final

from registry.apply.errors import PatchUndecodable
from registry.codec.go_text import json_type
from registry.schema.model import Json
from registry.schema.values import deep_copy

INVALID_MERGE_PATCH: Final = "Invalid JSON Patch"


def decode_merge_patch(document: Json, *, strict: bool) -> Json:
    """`document` itself if it can be a merge patch of an object.

    With fieldValidation=Ignore (`strict` false) kube-apiserver accepts lists, too, and fails on the result.
    """
    if document is None or not (strict or isinstance(document, dict | list)):
        raise PatchUndecodable(INVALID_MERGE_PATCH)
    if strict and not isinstance(document, dict):
        raise PatchUndecodable(
            f"error decoding patch: json: cannot unmarshal {json_type(document)} into Go value of type "
            "map[string]interface {}"
        )
    return document


def apply_merge_patch(document: Json, patch: Json) -> Json:
    """`{"a": 1, "b": {"c": 2}}` and `{"a": null, "b": {"d": 3}}` give `{"b": {"c": 2, "d": 3}}`."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(document, dict):
        return without_nulls(patch)
    result = dict(document)
    stack = [(result, patch)]
    while stack:
        target, changes = stack.pop()
        for name, change in changes.items():
            if change is None:
                target.pop(name, None)
                continue
            current = target.get(name)
            if type(current) is dict:
                if type(change) is dict:
                    current = dict(current)
                    stack.append((current, change))
                    target[name] = current
                else:
                    target[name] = deep_copy(change)  # the result may be changed in place, and the patch applied again
            else:
                target[name] = without_nulls(change)
    return result


def without_nulls(value: Json) -> Json:
    """`value` without null members in any of its objects; nulls in lists are kept."""
    if not isinstance(value, (dict, list)):
        return value
    result: Json = type(value)()
    stack: list[tuple[Json, Json]] = [(value, result)]
    while stack:
        source, target = stack.pop()
        if type(source) is dict:
            for name, member in source.items():
                if member is None:
                    continue
                if type(member) is dict or type(member) is list:
                    copy: Json = type(member)()
                    stack.append((member, copy))
                    member = copy
                target[name] = member
        else:
            for item in source:
                if type(item) is dict or type(item) is list:
                    copy = type(item)()
                    stack.append((item, copy))
                    item = copy
                target.append(item)
    return result
