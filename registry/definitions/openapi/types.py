"""The shared types of OpenAPI documents: metadata, options, Status, Patch, Scale. See types.yaml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cache
from importlib import resources
from typing import Any, Final

from registry.codec.packaged_yaml import load_file
from registry.definitions.known_kinds import GROUP_VERSIONS, group_versions
from registry.emulation import emulated
from registry.schema.openapi import META, V2_PREFIX, V3_PREFIX

Json = dict[str, Any]
# A group and one of its versions.
GroupVersion = tuple[str, str]

_PACKAGES = {
    **dict.fromkeys(("Scale", "ScaleSpec", "ScaleStatus"), "io.k8s.api.autoscaling.v1"),
    "RawExtension": "io.k8s.apimachinery.pkg.runtime",
    "Quantity": "io.k8s.apimachinery.pkg.api.resource",
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr",
    "Info": "io.k8s.apimachinery.pkg.version",
}

# Types that kube-apiserver registers in each group; documents list these groups.
_OF_EACH_GROUP = ("DeleteOptions", "WatchEvent")
# What 1.37 has in addition to the groups and versions of 1.36, and in place of which.
_ADDED_1_37: Final = group_versions(
    "lifecycle.k8s.io/v1alpha1 scheduling.k8s.io/v1alpha3 storagemigration.k8s.io/v1".split()
)
_REMOVED_1_37: Final = {("scheduling.k8s.io", "v1alpha2")}
# Those that are only in the single v2 document.
_OF_V2: Final = group_versions(
    """
    admission.k8s.io/v1 admission.k8s.io/v1beta1 apiextensions.k8s.io/v1 apiextensions.k8s.io/v1beta1
    apiregistration.k8s.io/v1 apiregistration.k8s.io/v1beta1 imagepolicy.k8s.io/v1alpha1
    """.split()
)


def custom_groups() -> list[GroupVersion]:
    """The groups and versions listed in documents of definitions."""
    return sorted(_group_versions())


def all_groups() -> list[GroupVersion]:
    """The groups and versions listed in the single v2 document."""
    return sorted(_group_versions() | _OF_V2)


def _group_versions() -> Set[GroupVersion]:
    return GROUP_VERSIONS - _REMOVED_1_37 | _ADDED_1_37 if emulated().is_1_37 else GROUP_VERSIONS


def type_name(short: str) -> str:
    """`ObjectMeta` is `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`."""
    return f"{_PACKAGES.get(short, META)}.{short}"


def shared_types(used: Iterable[Any], groups: Iterable[GroupVersion], *, v3: bool) -> Json:
    """The shared types that are referenced in `used`, directly or through each other, by their full names.

    `groups` are those listed on types registered in each group. The result must not be changed.
    """
    types, prefix = _types(v3), V3_PREFIX if v3 else V2_PREFIX
    shared: Json = {}
    pending = [name for value in used for name in references(value, prefix)]
    while pending:
        name = pending.pop()
        if name not in shared and name in types:
            shared[name] = types[name]
            pending.extend(references(types[name], prefix))
    for short in _OF_EACH_GROUP:
        if type_name(short) in shared:
            kinds = [{"group": group, "kind": short, "version": version} for group, version in groups]
            shared[type_name(short)] = {**shared[type_name(short)], "x-kubernetes-group-version-kind": kinds}
    return shared


def references(value: Any, prefix: str) -> Iterator[str]:
    """Yields what the references in a value name after `prefix`; others are ignored."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str) and reference.startswith(prefix):
                yield reference.removeprefix(prefix)
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)


@cache
def _types(v3: bool) -> Mapping[str, Json]:
    read: dict[str, Json] = load_file(resources.files(__package__).joinpath("types.yaml"))
    for short, definition in read.items():
        in_v2 = definition.pop("v2", None)  # where v2 cannot express the same
        if in_v2 is not None and not v3:
            read[short] = {"description": definition["description"], **in_v2}
    return {type_name(short): _with_refs(definition, v3=v3) for short, definition in read.items()}


def _with_refs(value: Any, *, v3: bool) -> Any:
    if isinstance(value, list):
        return [_with_refs(v, v3=v3) for v in value]
    if not isinstance(value, dict):
        return value
    out = {k: _with_refs(v, v3=v3) for k, v in value.items() if k != "ref" and (v3 or k != "default")}
    if isinstance(out.get("properties"), dict):
        out["properties"] = dict(sorted(out["properties"].items()))
    if isinstance(value.get("ref"), str):
        reference = {"$ref": (V3_PREFIX if v3 else V2_PREFIX) + type_name(value["ref"])}
        # In v3 a reference must not have siblings.
        out = {**out, "allOf": [reference]} if v3 and out else {**out, **reference}
    return out
