"""The attributes of a request that admission works with.

Follows apiserver pkg/admission/attributes.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Json = Any
Object = dict[str, Any]

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"


class Resource(NamedTuple):
    """A resource at a version, with the kind of the objects in its requests (Scale for the scale subresource)."""

    group: str
    version: str
    resource: str
    kind_group: str
    kind_version: str
    kind: str

    def kind_json(self) -> dict[str, str]:
        return {"group": self.kind_group, "version": self.kind_version, "kind": self.kind}

    def resource_json(self) -> dict[str, str]:
        return {"group": self.group, "version": self.version, "resource": self.resource}


@dataclass(slots=True)
class AdmissionAttributes:
    """`name` is empty if the server generates it; a namespace object is in the namespace of its own name.

    `equivalents` are the resource at its other served versions, also in other groups that have it. `object` is the
    object written, None for a deletion.
    """

    operation: str
    resource: Resource
    subresource: str
    namespace: str
    name: str
    object: Object | None
    old_object: Object | None
    options: Mapping[str, Json] | None
    dry_run: bool
    user: Mapping[str, Json]
    equivalents: Sequence[Resource] = ()

    @property
    def is_namespace(self) -> bool:
        return self.resource.resource == "namespaces" and not self.resource.group

    def request(self, matched: Resource) -> dict[str, Json]:
        """The request part of reviews; empty members are omitted."""
        request: dict[str, Json] = {"kind": matched.kind_json(), "resource": matched.resource_json()}
        if self.subresource:
            request["subResource"] = self.subresource
        request["requestKind"] = self.resource.kind_json()
        request["requestResource"] = self.resource.resource_json()
        if self.subresource:
            request["requestSubResource"] = self.subresource
        if self.name:
            request["name"] = self.name
        if self.namespace:
            request["namespace"] = self.namespace
        request["operation"] = self.operation
        request["userInfo"] = self.user
        request["dryRun"] = self.dry_run
        request["options"] = self.options
        return request

    def variable(self, matched: Resource) -> dict[str, Json]:
        """The variable `request` of expressions. `dyn(request)` has empty members that its type does not declare."""
        return {"uid": "", **self.request(matched), "object": None, "oldObject": None}


def labels_of(obj: Object | None) -> Mapping[str, str] | None:
    """The labels of an object, None where there is no object."""
    if obj is None:
        return None
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels if isinstance(labels, dict) else {}
