"""The compiled form of a definition: the resource that is served.

A Definition is compiled from a stored CustomResourceDefinition or from a built-in definition file, and is immutable: a
changed definition is a new Definition. Schemas are compiled on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.schema.compiled import CompiledSchema

# A definition, or a part of one, as it is stored or sent.
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """The accepted names of a definition."""

    plural: str
    singular: str
    kind: str
    list_kind: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """One of additionalPrinterColumns."""

    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale subresource: simple paths such as `.spec.replicas`; "" without a label selector path."""

    spec_replicas_path: str
    status_replicas_path: str
    label_selector_path: str = ""


@dataclass(frozen=True, eq=False)
class Version:
    """One version of a definition. `schema()` compiles on first use and is shared by equal schemas."""

    name: str
    served: bool
    storage: bool
    schema: Callable[[], CompiledSchema]
    deprecated: bool = False
    deprecation_warning: str | None = None
    columns: tuple[Column, ...] = ()
    status: bool = False
    scale: Scale | None = None
    selectable_fields: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Definition:
    """A resource of a tenant: `plural.group` in all its versions.

    `verbs` of None means all verbs of the generic resource. `revision` is the definition's own resource version, 0 for
    a built-in one. `strategy` names the rules of a built-in kind ("" for custom resources); see registry/builtin.
    """

    group: str
    names: Names
    namespaced: bool
    versions: Mapping[str, Version]  # in order of priority: v1, v1beta1, ...
    storage_version: str
    uid: str = ""
    # Changes with the spec.
    generation: int = 0
    revision: int = 0
    established: bool = True
    terminating: bool = False
    conversion: Mapping[str, Any] = field(default_factory=lambda: {"strategy": "None"})
    # The annotation with its conversion rules (registry/conversion/declarative); empty without one, or with a webhook.
    conversion_rules: str = ""
    verbs: tuple[str, ...] | None = None
    strategy: str = ""
    # Its annotations on SQL reports (registry/reporting/marking.py).
    reporting: Mapping[str, str] = field(default_factory=dict)
    # Its annotations on queries (registry/query/indexes.py).
    queries: Mapping[str, str] = field(default_factory=dict)

    @property
    def builtin(self) -> bool:
        """Whether this is a built-in kind, not a custom resource."""
        return bool(self.strategy)

    def unserved_at(self, names: Set[str]) -> Definition:
        """Returns the same definition, not served at the versions with these names."""
        if names.isdisjoint(self.versions):
            return self
        versions = {n: replace(v, served=v.served and n not in names) for n, v in self.versions.items()}
        return replace(self, versions=versions)

    @cached_property
    def selectable_fields(self) -> tuple[str, ...]:
        """The selectable fields of all versions as written in a selector: `spec.color`."""
        return tuple(dict.fromkeys(f.lstrip(".") for v in self.versions.values() for f in v.selectable_fields))

    @cached_property
    def name(self) -> str:
        """`crontabs.stable.example.com`; the plural alone in the core group."""
        return f"{self.names.plural}.{self.group}" if self.group else self.names.plural
