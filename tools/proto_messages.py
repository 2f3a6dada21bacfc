"""Writes registry/codec/protobuf/messages.txt: numbers, names and types of the fields of Kubernetes' messages.

    python -m tools.proto_messages KUBERNETES/staging/src/k8s.io > registry/codec/protobuf/messages.txt

Reads the `generated.proto` of each API group. The names are those of JSON, which differ from those in the proto files
for the fields of `RENAMED`; a field of `INLINE` is part of its message in JSON. What a version of `SHARING` has as
another one stands once; `+List` behind a message stands for its list, if that has metadata and items as lists have.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

# What is served, by the folder of its proto file; the kinds, and their lists where there are any.
ROOTS: Mapping[str, str] = {
    "apimachinery/pkg/runtime": "Unknown RawExtension",
    "apimachinery/pkg/apis/meta/v1": "APIGroup APIGroupList APIResourceList APIVersions DeleteOptions Status "
    "PartialObjectMetadata PartialObjectMetadataList WatchEvent",
    "apimachinery/pkg/apis/meta/v1beta1": "PartialObjectMetadataList",
    "api/core/v1": "ConfigMap Event LimitRange Namespace ResourceQuota Secret Service ServiceAccount",
    "api/admissionregistration/v1": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
    "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
    "ValidatingWebhookConfiguration",
    "api/apidiscovery/v2": "APIGroupDiscovery",
    "api/authentication/v1": "SelfSubjectReview TokenRequest TokenReview",
    "api/authorization/v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview "
    "SubjectAccessReview",
    "api/autoscaling/v1": "Scale",
    "api/coordination/v1": "Lease",
    "api/events/v1": "Event",
    "api/rbac/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
    "api/storagemigration/v1beta1": "StorageVersionMigration",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1": "CustomResourceDefinition",
    "apiextensions-apiserver/pkg/apis/apiextensions/v1beta1": "CustomResourceDefinition",
    "kube-aggregator/pkg/apis/apiregistration/v1": "APIService",
}

# Groups whose names are not their folder's followed by .k8s.io.
GROUPS: Mapping[str, str] = {"core": "", "autoscaling": "autoscaling", "rbac": "rbac.authorization.k8s.io"}

RENAMED: Mapping[tuple[str, str], str] = {
    ("JSONSchemaProps", "schema"): "$schema",
    ("JSONSchemaProps", "ref"): "$ref",
    ("JSONSchemaProps", "xKubernetesPreserveUnknownFields"): "x-kubernetes-preserve-unknown-fields",
    ("JSONSchemaProps", "xKubernetesEmbeddedResource"): "x-kubernetes-embedded-resource",
    ("JSONSchemaProps", "xKubernetesIntOrString"): "x-kubernetes-int-or-string",
    ("JSONSchemaProps", "xKubernetesListMapKeys"): "x-kubernetes-list-map-keys",
    ("JSONSchemaProps", "xKubernetesListType"): "x-kubernetes-list-type",
    ("JSONSchemaProps", "xKubernetesMapType"): "x-kubernetes-map-type",
    ("JSONSchemaProps", "xKubernetesValidations"): "x-kubernetes-validations",
    ("BoundObjectReference", "uID"): "uid",
    ("MutatingWebhookConfiguration", "Webhooks"): "webhooks",
    ("ValidatingWebhookConfiguration", "Webhooks"): "webhooks",
    ("MatchCondition", "Expression"): "expression",
    ("Validation", "Expression"): "expression",
    ("Variable", "Name"): "name",
    ("Variable", "Expression"): "expression",
}
INLINE = frozenset({("NamedRuleWithOperations", "ruleWithOperations"), ("RuleWithOperations", "rule")})

# Packages whose messages are those of another, where these have the same fields.
SHARING: Mapping[str, str] = {
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1beta1": (
        "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1"
    )
}

_LIST_META = "k8s.io.apimachinery.pkg.apis.meta.v1.ListMeta"
_PACKAGE = re.compile(r"^package (\S+);", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(?:(optional|repeated) )?(map<\w+, *\S+>|\S+) (\w+) = (\d+);", re.MULTILINE)
_SCALARS = frozenset({"string", "bytes", "bool", "int32", "int64", "double"})


class Field(NamedTuple):
    number: int
    name: str
    type: str


def main() -> None:
    sources = Path(sys.argv[1])
    messages = _shared(dict(_messages(sources)))
    wanted = [
        name
        for folder, kinds in ROOTS.items()
        for kind in kinds.split()
        for name in (f"{_package(sources / folder)}.{kind}", f"{_package(sources / folder)}.{kind}List")
        if name in messages
    ]
    found = _closure(messages, wanted)
    listed = {name for name in found if messages.get(f"{name}List") == _list_of(name)}
    for name in sorted(found - {f"{name}List" for name in listed}, key=_key):
        print(_key(name) + (" +List" if name in listed else ""))
        for field in messages[name]:
            *label, type_ = field.type.split()
            print(f"  {field.number} {field.name}", *label, type_ if type_ in _SCALARS else _key(type_))


def _package(folder: Path) -> str:
    match = _PACKAGE.search((folder / "generated.proto").read_text(encoding="utf-8"))
    assert match is not None
    return match[1]


def _messages(sources: Path) -> Iterator[tuple[str, list[Field]]]:
    """Every message by its full name, the types of its fields by their short names."""
    for file in sorted(sources.glob("**/generated.proto")):
        text = re.sub(r"^\s*//.*$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        package = _PACKAGE.search(text)
        assert package is not None
        for message in _MESSAGE.finditer(text):
            yield (
                f"{package[1]}.{message[1]}",
                [_field(package[1], message[1], found) for found in _FIELD.finditer(message[2])],
            )


def _list_of(name: str) -> list[Field]:
    return [Field(1, "metadata", _LIST_META), Field(2, "items", f"repeated {name}")]


def _shared(messages: dict[str, list[Field]]) -> dict[str, list[Field]]:
    """The messages, whose fields refer to those of the package that theirs shares, where these are the same."""
    twins = {
        name: f"{SHARING[package]}.{kind}"
        for name in messages
        for package, _, kind in [name.rpartition(".")]
        if package in SHARING and f"{SHARING[package]}.{kind}" in messages
    }
    differing: set[str] = set()

    def shared(type_: str) -> str:
        *label, name = type_.split()
        return " ".join([*label, name if name in differing else twins.get(name, name)])

    def with_shared(name: str) -> list[Field]:
        return [field._replace(type=shared(field.type)) for field in messages[name]]

    while found := {name for name, twin in twins.items() if with_shared(name) != messages[twin]} - differing:
        differing |= found  # and so do the messages that have them
    return {name: with_shared(name) for name in messages}


def _field(package: str, message: str, found: re.Match[str]) -> Field:
    label, type_, name, number = found.groups()
    if type_.startswith("map<"):
        value = type_[4:-1].split(",")[1].strip()
        type_ = f"map {_type(package, value)}"
    else:
        type_ = f"{'repeated ' if label == 'repeated' else ''}{_type(package, type_)}"
    if (message, name) in INLINE:
        return Field(int(number), ".", type_)
    return Field(int(number), RENAMED.get((message, name), name), type_)


def _type(package: str, name: str) -> str:
    if name in _SCALARS:
        return name
    return name.lstrip(".") if name.startswith(".") else f"{package}.{name}"


def _closure(messages: Mapping[str, list[Field]], names: list[str]) -> set[str]:
    """The messages, and all that are in them."""
    found: set[str] = set()
    while names:
        name = names.pop()
        if name not in found:
            found.add(name)
            types = (field.type.split()[-1] for field in messages[name])
            names += [type_ for type_ in types if type_ not in _SCALARS]
    return found


def _key(name: str) -> str:
    """`k8s.io.api.rbac.v1.Role` gives `rbac.authorization.k8s.io/v1/Role`, without a version `runtime/Unknown`."""
    *_, group, version, kind = name.split(".")
    if not re.fullmatch(r"v\d\w*", version):
        return f"{version}/{kind}"
    group = GROUPS.get(group, f"{group}.k8s.io")
    return f"{group}/{version}/{kind}" if group else f"{version}/{kind}"


if __name__ == "__main__":
    main()
