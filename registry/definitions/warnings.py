"""The warnings of writing an accepted definition, and of using a deprecated version.

Follows apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go,
pkg/apiserver/validation/formats.go and pkg/apiserver/customresource_handler.go (defaultDeprecationWarning).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import orjson

from registry.codec.go_text import go_quote
from registry.definitions.internal import internal_spec
from registry.definitions.model import Definition, Json, Version
from registry.definitions.priority import UNORDERED, Key, priority_key
from registry.emulation import emulated
from registry.schema.structural.bounds import nodes

# String formats that are enforced, without dashes.
_STRING_FORMATS = frozenset(
    """
    bsonobjectid uri email hostname ipv4 ipv6 cidr mac uuid uuid3 uuid4 uuid5 isbn isbn10 isbn13 creditcard ssn
    hexcolor rgbcolor byte password date duration datetime k8sshortname k8slongname
    """.split()
)

# As they stand in the text of a schema with sorted fields.
_SET = b'"x-kubernetes-list-type":"set"'
_FORMAT = b'"format":"'
_RECOGNIZED = re.compile(
    _FORMAT + rb'(?:int(?:32|64)","type":"integer"|(?:float|double)","type":"number"|'
    rb'(?:date-time|date|duration|email|hostname|ipv4|ipv6|cidr|mac|uri|uuid|byte|password)","type":"string")'
)


def warnings(crd: Json, old: Json | None = None) -> list[str]:
    """Warnings such as `unrecognized format "x"`, one for each place; on an update only those of new ones.

    The caller merges equal warnings, as it does for all.
    """
    formats, kinds = _remarkable(crd)
    known_formats, known_kinds = _remarkable(old) if old is not None else ((), ())
    known = frozenset(known_formats)
    texts = [f"unrecognized format {go_quote(f)}" for f in formats if f not in known]
    if emulated().is_1_37:
        texts += [
            f"x-kubernetes-list-type: set for items of type {go_quote(kind)} is not supported by server-side apply or "
            "CEL validation rules"
            for kind in sorted(kinds.difference(known_kinds))
        ]
    return texts


def _remarkable(crd: Json) -> tuple[list[str], set[str]]:
    """Returns the formats that are not recognized, at each place, and the item types that are not scalar of all lists
    declared as sets."""
    formats, kinds = [], set()
    spec = internal_spec(crd)
    for validation in (spec.schema, *(v.schema for v in spec.versions or ())):
        schema = (validation or {}).get("openAPIV3Schema")
        for node in nodes(schema) if schema is not None and _may_be_remarkable(schema) else ():
            text = node.get("format")
            if text and not is_recognized(text, node.get("type") or ""):
                formats.append(text)
            items = node.get("items") if node.get("x-kubernetes-list-type") == "set" else None
            kind = items.get("type") if isinstance(items, Mapping) else None
            if kind in ("object", "array"):
                kinds.add(kind)
    return formats, kinds


def _may_be_remarkable(schema: Json) -> bool:
    """Whether the text of a schema has a format without a type that it is recognized for, or a set: most have not, and
    looking takes a quarter of the time."""
    try:
        text = orjson.dumps(schema, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # integers beyond 64 bits, lone surrogates, many levels
        return True
    return _SET in text or text.count(_FORMAT) != len(_RECOGNIZED.findall(text))


def is_recognized(text: str, schema_type: str) -> bool:
    """Whether the format is enforced for values of this type."""
    if schema_type in ("", "string"):
        return text.replace("-", "") in _STRING_FORMATS
    if schema_type == "integer":
        return text in ("int32", "int64")
    return schema_type == "number" and text in ("float", "double")


# -- deprecated versions


def deprecation_warning(definition: Definition, version: Version) -> str:
    """`g/v1beta1 Widget is deprecated; use g/v1 Widget`, or the definition's own text; "" if not deprecated."""
    if not version.deprecated:
        return ""
    if version.deprecation_warning is not None:
        return version.deprecation_warning
    group, kind = definition.group, definition.names.kind
    text = f"{group}/{version.name} {kind} is deprecated"
    better = _better(definition, version)
    return f"{text}; use {group}/{better} {kind}" if better else text


def _better(definition: Definition, version: Version) -> str:
    """Returns the first version by priority that is served, not deprecated, and before this one; "" if there is
    none."""
    mine = _priority(version.name)
    others = [v.name for v in definition.versions.values() if v.served and not v.deprecated]
    return min([name for name in others if _priority(name) < mine], key=_priority, default="")


def _priority(name: str) -> Key:
    """Returns the same for v1 and v01, neither of which replaces the other."""
    key = priority_key(name)
    return key if key[0] == UNORDERED else (*key[:3], "")
