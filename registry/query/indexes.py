"""The indexes of a definition: what it declares, and the entries of an object.

    query.registry/index: "spec.size; spec.owner.name,spec.size; spec.tags[*]"

and each of the selectable fields. An index is identified by a digest of all that decides its entries: the resource,
the fields, and what of the schemas stands on the way to them. So equal definitions of all tenants have the same
indexes, and one whose fields change meaning is another index, which is built from nothing.

A definition that converts between versions by a webhook or by rules has none, for its stored objects may be of another
version than the fields.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.codec.json_encode import encode_canonical
from registry.definitions.model import Definition
from registry.query.encoding import entries_of
from registry.query.fields import (
    EACH,
    Field,
    FieldPathError,
    Path,
    parse_path,
    path_text,
    projection,
    query_schema,
    resolve,
)
from registry.schema.model import Structural

INDEX: Final = "query.registry/index"
# "*": field selectors may name any scalar field.
FIELDS: Final = "query.registry/fields"
MAX_INDEXES: Final = 16
MAX_FIELDS: Final = 4
# Count up when entries are made differently.
_ALGORITHM: Final = 1
_COMMA: Final = re.compile(r",(?![^\[]*\])")
_SEMICOLON: Final = re.compile(r";(?![^\[]*\])")
# What changes with each write without being written, or is not in a body.
_NEVER: Final = (("metadata", "resourceVersion"), ("metadata", "managedFields"))


@dataclass(frozen=True, slots=True)
class Index:
    """`number` is how the store knows it; `id` what its entries begin with. `versions` are those that it serves."""

    number: int
    fields: tuple[Field, ...]
    versions: frozenset[str]

    @property
    def id(self) -> bytes:
        return self.number.to_bytes(8, "big", signed=True)

    @property
    def text(self) -> str:
        return ",".join(field.text for field in self.fields)


@dataclass(frozen=True, slots=True)
class Indexes:
    """`layout` is equal where all indexes are. `errors` say what of the declaration is no index, and why."""

    indexes: tuple[Index, ...]
    layout: int
    errors: tuple[str, ...] = ()

    @property
    def numbers(self) -> list[int]:
        return [index.number for index in self.indexes]

    def entries(self, obj: Mapping[str, Any]) -> list[bytes]:
        """Of an object at the storage version, as it is read."""
        return [entry for index in self.indexes for entry in entries_of(index.id, index.fields, obj)]


NO_INDEXES: Final = Indexes((), 0)


def indexes_of(definition: Definition, sensitive: Sequence[Path] = ()) -> Indexes:
    """`sensitive` are the paths that are shown to nobody."""
    declared, errors = _declared(definition.queries.get(INDEX, ""))
    declared += [(path,) for path in _selectable(definition) if (path,) not in declared]
    if not declared:
        return NO_INDEXES if not errors else Indexes((), 0, tuple(errors))
    if definition.conversion.get("strategy") == "Webhook" or definition.conversion_rules:
        return Indexes((), 0, ("a definition that converts by a webhook or by rules has no indexes",))
    roots = {name: query_schema(version.schema().structural) for name, version in definition.versions.items()}
    found: list[Index] = []
    for paths in declared:
        try:
            found.append(_index(definition, roots, paths, sensitive))
        except FieldPathError as error:
            errors.append(str(error))
    if len(found) > MAX_INDEXES:
        errors.append(f"more than {MAX_INDEXES} indexes: the first of them count")
        del found[MAX_INDEXES:]
    return Indexes(tuple(found), _number([index.number for index in found]) if found else 0, tuple(errors))


def _declared(text: str) -> tuple[list[tuple[Path, ...]], list[str]]:
    found: list[tuple[Path, ...]] = []
    errors: list[str] = []
    for part in _SEMICOLON.split(text):
        if not part.strip():
            continue
        try:
            paths = tuple(parse_path(one.strip()) for one in _COMMA.split(part))
        except FieldPathError as error:
            errors.append(str(error))
            continue
        if len(paths) > MAX_FIELDS:
            errors.append(f"an index has at most {MAX_FIELDS} fields")
        elif len(set(paths)) < len(paths):
            errors.append(f'"{part.strip()}" names a field twice')
        elif paths not in found:
            found.append(paths)
    return found, errors


def _selectable(definition: Definition) -> list[Path]:
    found = []
    for text in definition.selectable_fields:
        try:
            found.append(parse_path(text))
        except FieldPathError:  # of a definition that was accepted under other rules
            continue
    return found


def _index(
    definition: Definition, roots: Mapping[str, Structural], paths: tuple[Path, ...], sensitive: Sequence[Path]
) -> Index:
    storage = roots[definition.storage_version]
    for path in paths:
        if path in _NEVER:
            raise FieldPathError(f'"{path_text(path)}" cannot be indexed')
        if is_hidden(path, sensitive):
            raise FieldPathError(f'"{path_text(path)}" is sensitive')
    fields = tuple(resolve(storage, path) for path in paths)
    if sum(field.is_array for field in fields) > 1:
        raise FieldPathError(f'"{",".join(map(path_text, paths))}" has more than one array')
    meaning = {name: [projection(root, path) for path in paths] for name, root in roots.items()}
    same = frozenset(name for name, one in meaning.items() if one == meaning[definition.storage_version])
    number = _number([_ALGORITHM, definition.name, [list(p) for p in paths], definition.storage_version, meaning])
    return Index(number, fields, same)


def selects_any_field(definition: Definition) -> bool:
    return definition.queries.get(FIELDS, "").strip() == "*"


def is_hidden(path: Path, sensitive: Sequence[Path]) -> bool:
    """Whether a path is at or below one of those."""
    plain = tuple(step for step in path if step != EACH)
    return any(plain[: len(one)] == one for one in sensitive)


def _number(value: Any) -> int:
    digest = hashlib.blake2b(encode_canonical(value).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
