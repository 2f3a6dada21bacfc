"""References between kinds, as declared by a definition, by which a query joins objects of different kinds.

    query.registry/references: "spec.team -> teams.example.com; spec.db.namespace/spec.db.name -> databases.example.com"

On the left is the field with the name of the other object, behind the one with its namespace if it has one; without
that it is of the same namespace, or of none. The name may be the elements of an array: `spec.members[*]`. On the right
is the resource, as a definition is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from registry.definitions.model import Definition
from registry.query.fields import (
    FieldKind,
    FieldPathError,
    Path,
    QueryField,
    parse_path,
    path_text,
    resolve,
    split,
    values_at,
)
from registry.schema.model import Structural

REFERENCES: Final = "query.registry/references"
MAX_REFERENCES: Final = 16


class ReferenceFault(ValueError):
    """The text says what is wrong with a reference, for the client."""


@dataclass(frozen=True, slots=True)
class Reference:
    """`target` is the name of the definition: `teams.example.com`; in the core group the plural."""

    name: Path
    namespace: Path | None
    target: str

    @property
    def text(self) -> str:
        name = path_text(self.name)
        return f"{path_text(self.namespace)}/{name}" if self.namespace is not None else name

    @property
    def paths(self) -> tuple[Path, ...]:
        return (self.name,) if self.namespace is None else (self.name, self.namespace)


class Referent(NamedTuple):
    """The object that a reference names. `uid` empty: any object of that name."""

    namespace: str
    name: str
    uid: str = ""


def references_of(definition: Definition) -> tuple[list[Reference], list[str]]:
    """Returns the declared references, and the errors of invalid ones."""
    references: list[Reference] = []
    errors: list[str] = []
    for part in split(definition.queries.get(REFERENCES, ""), ";"):
        if not part.strip():
            continue
        left, arrow, target = part.partition("->")
        paths = split(left, "/")
        if not arrow or not target.strip() or len(paths) > 2:
            errors.append(f'"{part.strip()[:200]}" is not a reference such as spec.team -> teams.example.com')
            continue
        try:
            *namespace, name = [parse_path(one.strip()) for one in paths]
        except FieldPathError as error:
            errors.append(str(error))
            continue
        references.append(Reference(name, namespace[0] if namespace else None, target.strip()))
    if len(references) > MAX_REFERENCES:
        errors.append(f"more than {MAX_REFERENCES} references: the first of them count")
        del references[MAX_REFERENCES:]
    return references, errors


def check_reference(reference: Reference, root: Structural) -> None:
    """Raises ReferenceFault if its fields are not strings in the schema. `root` is that of `query_schema`."""
    for path in reference.paths:
        try:
            field: QueryField = resolve(root, path)
        except FieldPathError as error:
            raise ReferenceFault(str(error)) from error
        if field.kind is not FieldKind.STRING or (field.is_array and path is not reference.name):
            raise ReferenceFault(f'"{field.text}" is not a string')


def referents(reference: Reference, obj: Mapping[str, Any], *, namespaced: bool) -> list[Referent]:
    """Returns what an object refers to; each once. `namespaced` is the scope of the target."""
    namespace = ""
    if namespaced:
        namespace = obj["metadata"].get("namespace") or ""
        if reference.namespace is not None:
            namespaces = values_at(obj, reference.namespace)
            namespace = namespaces[0] if namespaces and isinstance(namespaces[0], str) and namespaces[0] else namespace
    names = [name for name in values_at(obj, reference.name) if isinstance(name, str) and name]
    return [Referent(namespace, name) for name in dict.fromkeys(names)]


def owners(obj: Mapping[str, Any], group: str, kind: str, *, namespaced: bool) -> list[Referent]:
    """Returns the owners of an object that are of a kind, at any version; each once."""
    namespace = (obj["metadata"].get("namespace") or "") if namespaced else ""
    names = [
        Referent(namespace, one.get("name") or "", one.get("uid") or "")
        for one in obj["metadata"].get("ownerReferences") or ()
        if one.get("kind") == kind and (one.get("apiVersion") or "").rpartition("/")[0] == group and one.get("uid")
    ]
    return list(dict.fromkeys(names))
