"""The discovery documents of definitions.

There are two forms: the legacy one with one document for all groups, one for each group and one for each version; and
aggregated discovery (apidiscovery.k8s.io/v2) with everything in one document. An established definition is listed in
its served versions, with fewer verbs while it is being deleted.

Follows apiextensions-apiserver pkg/apiserver/customresource_discovery_controller.go and apiserver
pkg/endpoints/discovery.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from registry.definitions.model import Definition, Names, Version
from registry.definitions.priority import by_priority

Json = dict[str, Any]

CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
TERMINATING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
BUILTIN_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SUBRESOURCE_VERBS = ("get", "patch", "update")

# kube-apiserver's order of its own groups; groups of definitions follow by name.
_GROUPS = [
    "",
    *"""
    apiregistration.k8s.io apps events.k8s.io authentication.k8s.io authorization.k8s.io autoscaling batch
    certificates.k8s.io networking.k8s.io policy rbac.authorization.k8s.io storage.k8s.io
    admissionregistration.k8s.io apiextensions.k8s.io scheduling.k8s.io coordination.k8s.io node.k8s.io
    discovery.k8s.io resource.k8s.io flowcontrol.apiserver.k8s.io storagemigration.k8s.io
""".split(),
]
_GROUP_ORDER = {group: position for position, group in enumerate(_GROUPS)}

# Built-in kinds whose hash is that of the version at which kube-apiserver stores them.
_STORED_AS = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): ("apiextensions.k8s.io", "v1beta1"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): ("admissionregistration.k8s.io", "v1beta1"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): ("admissionregistration.k8s.io", "v1beta1"),
    ("events.k8s.io", "Event"): ("", "v1"),
}


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource in discovery; a group and version of "" are those of the resource."""

    name: str
    kind: str
    verbs: Sequence[str] = SUBRESOURCE_VERBS
    group: str = ""
    version: str = ""
    # The kind that requests take and responses return, if it has a schema of its own.
    taken: Definition | None = None


Subresources = Callable[[Definition, Version], Sequence[Subresource]]


def standard_subresources(definition: Definition, version: Version) -> list[Subresource]:
    """status and scale, if the version has them. A caller with further subresources passes its own function."""
    subresources = []
    if version.status:
        subresources.append(Subresource("status", definition.names.kind))
    if version.scale is not None:
        subresources.append(Subresource("scale", "Scale", group="autoscaling", version="v1"))
    return subresources


def api_versions(address: str) -> Json:
    """The document of /api. `address` is the server's `host:port` for clients."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def api_group_list(definitions: Iterable[Definition]) -> Json:
    """The document of /apis."""
    groups = _by_group(definitions)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, groups[name]) for name in _sorted_groups(groups) if name],
    }


def api_group(definitions: Iterable[Definition], group: str) -> Json | None:
    """The document of /apis/<group>; None if nothing is served in the group."""
    members = _by_group(definitions).get(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, members)} if members else None


def group_versions(definitions: Iterable[Definition]) -> set[tuple[str, str]]:
    return {(d.group, v.name) for d in definitions if d.established for v in d.versions.values() if v.served}


def api_resource_list(
    definitions: Iterable[Definition], group: str, version: str, subresources: Subresources = standard_subresources
) -> Json | None:
    """The document of /apis/<group>/<version>, or of /api/v1; None if nothing is served there."""
    resources: list[Json] = []
    for definition in _at_version(_by_group(definitions).get(group) or [], version):
        resources.append(_resource(definition))
        resources.extend(_subresource(definition, s) for s in subresources(definition, definition.versions[version]))
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        **({"apiVersion": "v1"} if group else {}),  # as in kube-apiserver, the list of the core group has none
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": resources,
    }


def aggregated_discovery(
    definitions: Iterable[Definition], *, core: bool, subresources: Subresources = standard_subresources
) -> Json:
    """The aggregated document of /api (with `core`) or of /apis."""
    groups = _by_group(definitions)
    items = []
    for name in _sorted_groups(groups):
        if bool(name) == core:
            continue
        versions = [
            {
                "version": v,
                "resources": [_aggregated_resource(d, v, subresources) for d in _at_version(groups[name], v)],
                "freshness": "Current",
            }
            for v in _versions(groups[name])
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": versions})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def storage_version_hash(group: str, version: str, kind: str) -> str:
    """A hash that changes if objects are stored in another version: `SXdxx87h1Ek=`."""
    digest = hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def verbs_of(definition: Definition) -> Sequence[str]:
    if definition.verbs is not None:
        return definition.verbs
    if definition.builtin:
        return BUILTIN_VERBS
    return TERMINATING_VERBS if definition.terminating else CUSTOM_VERBS


def _by_group(definitions: Iterable[Definition]) -> dict[str, list[Definition]]:
    """The served definitions by group, each group ordered by plural."""
    groups: dict[str, list[Definition]] = {}
    for definition in definitions:
        if definition.established and any(v.served for v in definition.versions.values()):
            groups.setdefault(definition.group, []).append(definition)
    for members in groups.values():
        members.sort(key=lambda d: d.names.plural)
    return groups


def _sorted_groups(groups: Iterable[str]) -> list[str]:
    return sorted(groups, key=lambda name: (_GROUP_ORDER.get(name, len(_GROUP_ORDER)), name))


def _versions(members: list[Definition]) -> list[str]:
    """The served versions, the preferred one first. Those of definitions precede built-in ones, as upstream."""
    builtin = _served_versions(d for d in members if d.builtin)
    return by_priority(_served_versions(members) - builtin) + by_priority(builtin)


def _served_versions(members: Iterable[Definition]) -> set[str]:
    return {v.name for d in members for v in d.versions.values() if v.served}


def _at_version(members: list[Definition], version: str) -> list[Definition]:
    return [d for d in members if version in d.versions and d.versions[version].served]


def _group(name: str, members: list[Definition]) -> Json:
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in _versions(members)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resource(definition: Definition) -> Json:
    names = definition.names
    resource: Json = {
        "name": names.plural,
        "singularName": names.singular,
        "namespaced": definition.namespaced,
        "kind": names.kind,
        "verbs": list(verbs_of(definition)),
        **_further_names(names),
    }
    if definition.versions[definition.storage_version].served and "get" in verbs_of(definition):
        group, version = definition.group, definition.storage_version
        if definition.builtin:
            group, version = _STORED_AS.get((group, names.kind), (group, version))
        resource["storageVersionHash"] = storage_version_hash(group, version, names.kind)
    return resource


def _further_names(names: Names) -> Json:
    lists = {"shortNames": names.short_names, "categories": names.categories}
    return {name: list(values) for name, values in lists.items() if values}


def _subresource(definition: Definition, subresource: Subresource) -> Json:
    entry: Json = {
        "name": f"{definition.names.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": definition.namespaced,
    }
    if subresource.group or subresource.version:
        entry |= {"group": subresource.group, "version": subresource.version}
    return entry | {"kind": subresource.kind, "verbs": list(subresource.verbs)}


def _aggregated_resource(definition: Definition, version: str, subresources: Subresources) -> Json:
    names = definition.names
    resource: Json = {
        "resource": names.plural,
        "responseKind": _response_kind(definition, version, names.kind),
        "scope": "Namespaced" if definition.namespaced else "Cluster",
        "singularResource": names.singular,
        "verbs": list(verbs_of(definition)),
        **_further_names(names),
    }
    below = [
        {
            "subresource": s.name,
            "responseKind": {"group": s.group, "version": s.version, "kind": s.kind}
            if s.version
            else _response_kind(definition, version, s.kind),
            "verbs": list(s.verbs),
        }
        for s in subresources(definition, definition.versions[version])
    ]
    if below:
        resource["subresources"] = below
    return resource


def _response_kind(definition: Definition, version: str, kind: str) -> Json:
    # kube-apiserver gives the group and version of its own kinds only if they differ from those of the resource.
    if definition.builtin:
        return {"group": "", "version": "", "kind": kind}
    return {"group": definition.group, "version": version, "kind": kind}
