"""The indexes of a definition: what it declares, and the entries of an object.

    query.registry/index: "spec.size; spec.owner.name,spec.size; spec.tags[*]"

    query.registry/index: "spec.owner.name,spec.size desc"      for an order of mixed directions
    query.registry/search: "spec.title; spec.notes[*]"          the index of the full text (text.py)

and each of the selectable fields. An index is identified by a digest of all that decides its entries: the resource,
the fields, and what of the schemas stands on the way to them. So equal definitions of all tenants have the same
indexes, and one whose fields change meaning is another index, which is built from nothing.

Where a definition converts between versions by a webhook or by rules, its indexes serve the storage version only, and
objects that are stored at another one are left to be looked into, until storage migration has come by.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from registry.codec.json_encode import encode_canonical
from registry.definitions.model import Definition
from registry.query.encoding import OVERFLOW, entries_of, text_entries_of
from registry.query.fields import (
    EACH,
    FieldKind,
    FieldPathError,
    Path,
    QueryField,
    nodes_along,
    parse_path,
    path_text,
    projection,
    query_schema,
    resolve,
    split,
)
from registry.schema.model import Structural

INDEX: Final = "query.registry/index"
# "*": field selectors may name any scalar field.
FIELDS: Final = "query.registry/fields"
SEARCH: Final = "query.registry/search"
MAX_INDEXES: Final = 16
MAX_FIELDS: Final = 4
MAX_SEARCH_FIELDS: Final = 16
# Increment when entries are computed differently.
_ALGORITHM: Final = 2
_PART: Final = re.compile(r"(.*?)(?:(?<!\s)\s+(asc|desc))?", re.IGNORECASE | re.DOTALL)
# Fields that change with each write by themselves, or are not in a body.
_NEVER: Final = (("metadata", "resourceVersion"), ("metadata", "managedFields"))


@dataclass(frozen=True, slots=True)
class Index:
    """`number` identifies it in the store; its entries begin with `id`. `versions` are those that it serves. Values of
    `descending` fields are stored so that they sort in reverse, absent ones still last."""

    number: int
    fields: tuple[QueryField, ...]
    versions: frozenset[str]
    descending: tuple[bool, ...]

    @property
    def id(self) -> bytes:
        return self.number.to_bytes(8, "big", signed=True)

    @property
    def text(self) -> str:
        pairs = zip(self.fields, self.descending, strict=True)
        return ",".join(field.text + (" desc" if turned else "") for field, turned in pairs)


@dataclass(frozen=True, slots=True)
class Indexes:
    """`text` is the full-text index. `layout` is equal if all numbers are. `errors` say which declarations are invalid,
    and why.

    `fields` identifies what the values of the selectable fields are that stand among the labels of rows, 0 if there are
    none (registry/api/served.py, labels_of). They are no index, but built and complete like one.
    """

    indexes: tuple[Index, ...]
    layout: int
    errors: tuple[str, ...] = ()
    text: Index | None = None
    fields: int = 0

    @property
    def all(self) -> tuple[Index, ...]:
        return self.indexes if self.text is None else (*self.indexes, self.text)

    @property
    def numbers(self) -> list[int]:
        numbers = [index.number for index in self.all]
        return [*numbers, self.fields] if self.fields else numbers

    @property
    def search_fields(self) -> tuple[Path, ...]:
        return () if self.text is None else tuple(field.path for field in self.text.fields)

    def entries(self, obj: Mapping[str, Any]) -> list[bytes]:
        """Returns the entries of an object at the storage version, as it is read."""
        entries = [e for index in self.indexes for e in entries_of(index.id, index.fields, index.descending, obj)]
        return entries if self.text is None else [*entries, *text_entries_of(self.text.id, self.search_fields, obj)]

    @property
    def overflow(self) -> list[bytes]:
        """Returns the entries of an object that has to be evaluated."""
        return [index.id + OVERFLOW for index in self.all]


NO_INDEXES: Final = Indexes((), 0)


def indexes_of(definition: Definition, sensitive: Sequence[Path] = ()) -> Indexes:
    """Returns a definition's indexes; `sensitive` are the paths that no user may see."""
    declared, errors = _parse_declaration(definition.queries.get(INDEX, ""))
    declared += [((path, False),) for path in _selectable(definition) if ((path, False),) not in declared]
    searched, wrong = _parse_declaration(definition.queries.get(SEARCH, ""), "searched fields are separated by ;", 1)
    errors += wrong
    of_fields = _fields_number(definition)
    if not declared and not searched and not of_fields:
        return NO_INDEXES if not errors else Indexes((), 0, tuple(errors))
    versions = definition.versions
    if converts_contents(definition):
        versions = {definition.storage_version: versions[definition.storage_version]}
    roots = {name: query_schema(version.schema().structural) for name, version in versions.items()}
    indexes: list[Index] = []
    for paths in declared:
        try:
            indexes.append(_index(definition, roots, paths, sensitive))
        except FieldPathError as error:
            errors.append(str(error))
    if len(indexes) > MAX_INDEXES:
        errors.append(f"more than {MAX_INDEXES} indexes: the first of them count")
        del indexes[MAX_INDEXES:]
    text = _text_index(definition, roots, [path for ((path, _),) in searched], sensitive, errors) if searched else None
    indexed = Indexes(tuple(indexes), 0, tuple(errors), text, of_fields)
    return replace(indexed, layout=_number(indexed.numbers)) if indexed.numbers else indexed


def converts_contents(definition: Definition) -> bool:
    """Returns whether conversion between versions changes contents, by a webhook or rules, not only the apiVersion."""
    return definition.conversion.get("strategy") == "Webhook" or bool(definition.conversion_rules)


# Fields, and whether each is descending.
_Declared = tuple[tuple[Path, bool], ...]


def _parse_declaration(
    text: str, too_many: str = f"an index has at most {MAX_FIELDS} fields", limit: int = MAX_FIELDS
) -> tuple[list[_Declared], list[str]]:
    declared: list[_Declared] = []
    errors: list[str] = []
    for part in split(text, ";"):
        if not part.strip():
            continue
        try:
            fields = tuple(map(_parse_part, split(part, ",")))
        except FieldPathError as error:
            errors.append(str(error))
            continue
        if len(fields) > limit:
            errors.append(too_many)
        elif len({path for path, _ in fields}) < len(fields):
            errors.append(f'"{part.strip()}" names a field twice')
        elif fields not in declared:
            declared.append(fields)
    return declared, errors


def _parse_part(text: str) -> tuple[Path, bool]:
    match = _PART.fullmatch(text.strip())
    assert match is not None
    return parse_path(match[1]), (match[2] or "").lower() == "desc"


def _selectable(definition: Definition) -> list[Path]:
    paths = []
    for text in definition.selectable_fields:
        try:
            paths.append(parse_path(text))
        except FieldPathError:  # of a definition that was accepted under other rules
            continue
    return paths


def _index(
    definition: Definition, roots: Mapping[str, Structural], declared: _Declared, sensitive: Sequence[Path]
) -> Index:
    fields = tuple(_field(roots[definition.storage_version], path, sensitive) for path, _ in declared)
    descending = tuple(turned for _, turned in declared)
    if sum(field.is_array for field in fields) > 1:
        raise FieldPathError(f'"{",".join(field.text for field in fields)}" has more than one array')
    for field, turned in zip(fields, descending, strict=True):
        if field.is_array and turned:
            raise FieldPathError(f'"{field.text}" has many values, which have no order')
    return _numbered_index(definition, roots, fields, descending)


def _text_index(
    definition: Definition,
    roots: Mapping[str, Structural],
    paths: Sequence[Path],
    sensitive: Sequence[Path],
    errors: list[str],
) -> Index | None:
    """Returns the index of the searchable fields; adds problems of others to `errors`."""
    fields: list[QueryField] = []
    for path in paths:
        try:
            field = _field(roots[definition.storage_version], path, sensitive)
        except FieldPathError as error:
            errors.append(str(error))
            continue
        if field.kind is FieldKind.STRING:
            fields.append(field)
        else:
            errors.append(f'"{field.text}" is not text')
    if len(fields) > MAX_SEARCH_FIELDS:
        errors.append(f"more than {MAX_SEARCH_FIELDS} searched fields: the first of them count")
        del fields[MAX_SEARCH_FIELDS:]
    return _numbered_index(definition, roots, tuple(fields), (False,) * len(fields), "text") if fields else None


def _field(root: Structural, path: Path, sensitive: Sequence[Path]) -> QueryField:
    """Returns the field. Raises FieldPathError if there is none that can be indexed."""
    if path in _NEVER:
        raise FieldPathError(f'"{path_text(path)}" cannot be indexed')
    if is_hidden(path, sensitive):
        raise FieldPathError(f'"{path_text(path)}" is sensitive')
    return resolve(root, path)


def _numbered_index(
    definition: Definition,
    roots: Mapping[str, Structural],
    fields: tuple[QueryField, ...],
    descending: tuple[bool, ...],
    *kind: str,
) -> Index:
    """Returns an index of the fields, whose number no other index has unless its entries are computed equally."""
    paths = [field.path for field in fields]
    meaning = {name: [projection(root, path) for path in paths] for name, root in roots.items()}
    same = frozenset(name for name, one in meaning.items() if one == meaning[definition.storage_version])
    what = [_ALGORITHM, definition.name, [list(p) for p in paths], definition.storage_version, meaning, *kind]
    if any(descending):
        what.append(list(descending))
    return Index(_number(what), fields, same, descending)


def _fields_number(definition: Definition) -> int:
    """Returns a number that no definition has whose schemas read other values of the selectable fields from the same
    stored bodies; 0 if none are selected by what is stored."""
    if converts_contents(definition) or not definition.selectable_fields:
        return 0
    roots = {name: version.schema().structural for name, version in definition.versions.items()}
    paths = [tuple(field.split(".")) for field in definition.selectable_fields]
    meaning = {
        name: [[projection(root, path), _has_additional_properties(root, path)] for path in paths]
        for name, root in roots.items()
    }
    return _number([_ALGORITHM, "fields", definition.name, [list(path) for path in paths], meaning])


def _has_additional_properties(root: Structural, path: Path) -> list[bool | None]:
    """Returns whether each schema on the way keeps fields that it does not declare."""
    nodes = (root, *nodes_along(root, path))
    return [None if node.additional_properties is None else bool(node.additional_properties) for node in nodes]


def selects_any_field(definition: Definition) -> bool:
    return definition.queries.get(FIELDS, "").strip() == "*"


def is_hidden(path: Path, sensitive: Sequence[Path]) -> bool:
    """Returns whether a path is at or below one of those."""
    plain = tuple(step for step in path if step != EACH)
    return any(plain[: len(one)] == one for one in sensitive)


def _number(value: Any) -> int:
    digest = hashlib.blake2b(encode_canonical(value).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
