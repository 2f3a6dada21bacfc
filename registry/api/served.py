"""A resource at one served version, and the conversion of its objects to text and back.

A stored body is the object's JSON without its beginning (registry/store/types.py, Row), so that serving it is

    served.head + "7" + '",' + body      # {"apiVersion":"g/v1","kind":"K","metadata":{"resourceVersion":"7",...

as long as the schema that processed the body is the requested one. Otherwise the object takes the slow path:
decoded, converted, pruned, defaulted, encoded.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from registry.api.conversions import Conversions, SharedConversions, VersionGone
from registry.api.errors import Qualified, too_large
from registry.api.extraction import Extraction
from registry.api.tables.builtin import builtin_table
from registry.api.tables.table import Table, custom_table
from registry.budget import Budget
from registry.builtin import definitions as builtin_definitions
from registry.codec.json_encode import encode_canonical, encode_json_text
from registry.codec.json_size import has_more_keys
from registry.codec.model import MAX_STORED_KEYS
from registry.codec.stored import decode_stored
from registry.definitions.compiled import schema_digest
from registry.definitions.model import Definition, Version
from registry.definitions.warnings import deprecation_warning
from registry.query.indexes import converts_contents
from registry.schema.pruning import META_FIELDS
from registry.store.own_changes import FEW_LABELS
from registry.store.types import ObjectKey, Replaced, ResourceName, Row, TenantId

if TYPE_CHECKING:
    from registry.api.strategies.base import Strategy

Object = dict[str, Any]


class StoredForm(NamedTuple):
    """The version, the identity of the schema that has processed the body, the body, and what selectors match."""

    version: str
    schema: int
    body: str
    labels: list[str]


# A client's body has at most 3 MiB, and managedFields may take as much again.
MAX_BODY_CHARACTERS = 8 * 1024 * 1024


class Served:
    """One resource of a tenant at one version.

    If the definition converts by webhook or by rules, each request has its own, with the `conversions` made for it.
    `lenient` accepts objects stored at another version as if only its name differed: for reads, never for writes.
    """

    def __init__(
        self, definition: Definition, version: Version, strategy: Strategy, conversions: Conversions | None = None
    ) -> None:
        self.definition = definition
        self.version = version
        self.strategy = strategy
        self.conversions = conversions
        self.lenient = False
        names, group = definition.names, definition.group
        self.api_version = f"{group}/{version.name}" if group else version.name
        self.resource = Qualified(names.plural, group)
        self.kind = Qualified(names.kind, group)
        self.translation = strategy.translation
        self.resource_name = ResourceName(self.translation.plural if self.translation else definition.name)
        self.namespaced = definition.namespaced
        self.head = head_of(self.api_version, names.kind)
        storage = definition.versions[definition.storage_version]
        self.is_storage = version is storage
        self._storage_version = storage
        self._storage_api_version = f"{group}/{storage.name}" if group else storage.name
        self._parts: dict[str, Served] = {}
        self._lenient: Served | None = None

    @cached_property
    def deprecation(self) -> str:
        """The warning in every answer at this version; empty if it is not deprecated."""
        return deprecation_warning(self.definition, self.version)

    @cached_property
    def table(self) -> Table:
        if self.definition.builtin:
            return builtin_table(self.definition.group, self.definition.names.kind)
        return custom_table(self.version.columns)

    @cached_property
    def subresources(self) -> tuple[str, ...]:
        """The subresources of this version: status, scale, and those of a built-in kind."""
        version = self.version
        enabled = (("status", version.status), ("scale", version.scale is not None))
        return (*(name for name, on in enabled if on), *self.strategy.subresources)

    def part(self, subresource: str) -> Served:
        """Returns this resource as a subresource writes it: the same objects under another strategy."""
        part = self._parts.get(subresource)
        if part is None:
            strategy = self.strategy.part(subresource)
            part = self._parts[subresource] = Served(self.definition, self.version, strategy, self.conversions)
        return part

    @cached_property
    def extraction(self) -> Extraction:
        """What queries and SQL reports find the objects by."""
        return Extraction(self.definition, self.version, translated=self.translation is not None)

    @cached_property
    def identity(self) -> int:
        """The identity of the schema that processes objects of this version."""
        return self.version.schema().identity

    def key(self, namespace: str, name: str) -> ObjectKey:
        return ObjectKey(f"{namespace}/{name}" if self.namespaced else name)

    # -- out of the store
    def text(self, row: Row) -> str:
        """Returns the object of a row as JSON text at this version."""
        return self.text_of(row.revision, row.version, row.schema, row.body)

    def stored_texts(self, rows: Sequence[Row]) -> list[str] | None:
        """Returns the texts of rows if all are stored as this version serves them; else None."""
        head, identity, name, same = self.head, self.identity, self.version.name, self._by_name
        texts = []
        for _, _, _, revision, version, schema, body in rows:
            if schema != identity or (version != name and version not in same):
                return None
            texts.append(f'{head}{revision}",{body}')
        return texts

    def text_of(self, revision: int, version: str, schema: int, body: str) -> str:
        if schema == self.identity and (version == self.version.name or version in self._by_name):
            return f'{self.head}{revision}",{body}'
        return encode_json_text(self._decode_and_convert(revision, version, schema, body))

    def object(self, row: Row) -> Object:
        """Returns the object of a row, decoded, at this version."""
        return self.object_of(row.revision, row.version, row.schema, row.body)

    def object_of(self, revision: int, version: str, schema: int, body: str) -> Object:
        if schema == self.identity and (version == self.version.name or version in self._by_name):
            return decode_stored(f'{self.head}{revision}",{body}')
        return self._decode_and_convert(revision, version, schema, body)

    def is_passthrough(self, version: str, schema: int) -> bool:
        """Whether a stored body is served unchanged."""
        return schema == self.identity and (version == self.version.name or version in self._by_name)

    def _decode_and_convert(self, revision: int, version: str, schema: int, body: str) -> Object:
        if self.translation is not None:
            head = head_of(self.translation.api_version, self.definition.names.kind)
            return self.translation.read(decode_stored(f'{head}{revision}",{body}'))
        obj = self.at_storage_version(revision, version, schema, body)
        if version != self.version.name:
            obj = self.convert(obj, self.api_version)
            self.version.schema().prune(obj)
        return obj

    def at_storage_version(self, revision: int, version: str, schema: int, body: str) -> Object:
        """Returns the object at its stored version, with that version's defaults. Raises VersionGone if it is gone."""
        names, group = self.definition.names, self.definition.group
        api_version = f"{group}/{version}" if group else version
        stored = self.definition.versions.get(version)
        if stored is None and not self.lenient:
            raise VersionGone(api_version)
        obj = decode_stored(f'{head_of(api_version, names.kind)}{revision}",{body}')
        if stored is not None and schema != stored.schema().identity:
            with Budget():
                stored.schema().prune_and_default(obj)
        return obj

    # -- conversion
    @cached_property
    def converts_contents(self) -> bool:
        """Whether a webhook or rules convert objects between versions, not the strategy None."""
        return converts_contents(self.definition)

    @cached_property
    def _by_name(self) -> frozenset[str]:
        """The versions with the same bodies as this one: by strategy None, with the same schema."""
        if self.converts_contents:
            return frozenset()
        return frozenset(n for n, v in self.definition.versions.items() if v.schema().identity == self.identity)

    @cached_property
    def form_key(self) -> str:
        """What the form of a stored object at this version depends on, in addition to what is stored.

        Every schema counts: an object gets the defaults of its stored version, which may be any. A text, whose hash is
        computed once.
        """
        definition = self.definition
        schemas = {name: schema_digest(version) for name, version in definition.versions.items()}
        reading = [schemas, definition.conversion, definition.conversion_rules]
        return f"{definition.uid} {self.head} {encode_canonical(reading)}"

    def converting(self, shared: SharedConversions, tenant: TenantId) -> Served:
        """Returns this resource for one request, whose objects may need conversion by a webhook or by rules."""
        return self._copy(Conversions(shared, self.definition, tenant), lenient=False)

    def leniently(self) -> Served:
        """Returns this resource as it is read leniently; created once, since each watch has it for as long as it
        lasts."""
        if self._lenient is None:
            self._lenient = self._copy(self.conversions, lenient=True)
        return self._lenient

    def _copy(self, conversions: Conversions | None, *, lenient: bool) -> Served:
        self.extraction  # noqa: B018 - made here, so that all copies share it
        own = copy.copy(self)
        own.conversions, own.lenient = conversions, lenient
        own._parts = {}
        own._lenient = None
        return own

    def translated_from(self, source: Served, obj: Object) -> Object:
        """Converts `obj` from a resource of another group with the same stored objects. It may be changed in place."""
        stored = source.translation.write(obj) if source.translation is not None else obj
        return self.translation.read(stored) if self.translation is not None else stored

    def convert(self, obj: Object, api_version: str) -> Object:
        """Converts `obj`, which may be changed in place, without pruning it.

        Raises ConversionNeeded (registry/api/conversions.py).
        """
        if self.conversions is not None and not self.lenient:
            return self.conversions.convert_object(obj, api_version)
        obj["apiVersion"] = api_version
        return obj

    # -- into the store
    def storable(self, obj: Object, spec: str | None = None) -> StoredForm:
        """Returns `stored_form` of a client's object; `spec` is the text of its spec, if known. Raises 413 if patches,
        defaults or managedFields made it too large."""
        form = self.stored_form(obj, spec)
        if len(form.body) > MAX_BODY_CHARACTERS:
            raise too_large(f"the object would have {len(form.body)} characters, limit is {MAX_BODY_CHARACTERS}")
        if form.body.count(":") > MAX_STORED_KEYS and has_more_keys(form.body.encode(), MAX_STORED_KEYS):
            raise too_large(f"the object would have more than {MAX_STORED_KEYS} keys")
        return form

    def stored_form(self, obj: Object, spec: str | None = None) -> StoredForm:
        """Returns the stored form of an object that this version's schema has processed.

        The version is the storage version. An object that has not been processed by that version's own schema is
        marked with no schema, so that reading it takes the slow path.
        """
        if self.translation is not None:
            labels = labels_of(obj, self.strategy)
            stored = core_version(self.translation.plural) if self.is_storage else self._storage_version
            body = body_of(self.translation.write(dict(obj)))
            return StoredForm(stored.name, stored.schema().identity, body, labels)
        storage = self._storage_version
        identity = self.identity
        if not self.is_storage and (self.converts_contents or storage.schema().identity != identity):
            obj = self.convert({**obj, "metadata": dict(obj["metadata"])}, self._storage_api_version)
            storage.schema().prune(obj)
            identity, spec = 0, None
        body = body_of(obj, spec)
        if identity == 0 and self.definition.selectable_fields and not self.converts_contents:
            # Selectors match the object as it will be read (at_storage_version).
            obj = self.at_storage_version(0, storage.name, identity, body)
        return StoredForm(storage.name, identity, body, labels_of(obj, self.strategy))


@cache
def core_version(plural: str) -> Version:
    """Returns the version at which objects of a kind of the core group are stored."""
    stored = next(d for d in builtin_definitions() if not d.group and d.names.plural == plural)
    return stored.versions[stored.storage_version]


def head_of(api_version: str, kind: str) -> str:
    return f'{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"resourceVersion":"'


def kind_of(served: Served, obj: Mapping[str, Any]) -> Qualified:
    """Returns the kind that an object itself states, for errors, which may be about it.

    An object that is stored as another kind has that kind: an event of events.k8s.io is an `Event`.
    """
    if served.translation is not None:
        return Qualified(served.kind.name, served.translation.api_version.rpartition("/")[0])
    api_version = obj.get("apiVersion") or served.api_version
    return Qualified(obj.get("kind") or served.kind.name, api_version.rpartition("/")[0])


# In no JSON text.
_MARK = "\0"


def body_of(obj: Mapping[str, Any], spec: str | None = None) -> str:
    """Returns the JSON of an object without apiVersion, kind and resourceVersion, to be appended to a head; `spec` is
    the text of its spec, if known.

    `{"apiVersion": .., "kind": .., "metadata": {"name": "a"}, "spec": {}}` gives `"name":"a"},"spec":{}}`.
    """
    metadata = {k: v for k, v in obj["metadata"].items() if k != "resourceVersion"}
    rest = {k: v for k, v in obj.items() if k not in META_FIELDS}
    text = encode_canonical(metadata)[1:]
    if spec is None or "spec" not in rest:
        return f"{text},{encode_canonical(rest)[1:]}" if rest else f"{text}}}"
    members = [(name, spec if name == "spec" else encode_canonical(rest[name])) for name in sorted(rest)]
    return f"{text},{','.join([f'{encode_canonical(name)}:{value}' for name, value in members])}}}"


def stored_spec(row: Row, obj: Mapping[str, Any]) -> str | None:
    """Returns the text of the spec of a stored object: `obj` is the object of the row. None if it is stored otherwise
    than `body_of` writes it."""
    before, _, after = body_of(obj, _MARK).partition(_MARK)
    body = row.body
    if not after or len(body) <= len(before) + len(after) or not (body.startswith(before) and body.endswith(after)):
        return None
    return body[len(before) : len(body) - len(after)]


def labels_of(obj: Object, strategy: Strategy) -> list[str]:
    """Returns what selectors match: `key=value` of labels, `f:spec.color=red` of selectable fields.

    Of a row they are right while schemas read the same values from its body: see `Indexes.fields`
    (registry/query/indexes.py).
    """
    labels = obj["metadata"].get("labels")
    labelled = [f"{k}={v}" for k, v in labels.items()] if labels else []
    labelled += [f"f:{path}={value}" for path, value in strategy.selectable(obj) if value]
    return labelled


def replaced_by(row: Row, obj: Object, strategy: Strategy) -> Replaced:
    """Returns what a write replaces: `obj` is the object of the row. It has no labels if there are many: their texts
    would take longer than reading the change from the log."""
    is_few = len(obj["metadata"].get("labels") or ()) <= FEW_LABELS
    return Replaced(row, labels_of(obj, strategy) if is_few else None)


def field_value(obj: Mapping[str, Any], path: str) -> str:
    """Returns the text of a selectable field: `spec.color` of {"spec": {"color": "red"}} is "red"; missing is ""."""
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return ""
        value = value.get(part)
    match value:
        case None | dict() | list():
            return ""
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def owners_of(obj: Mapping[str, Any]) -> list[str]:
    """Returns the uids in an object's owner references."""
    references = obj["metadata"].get("ownerReferences")
    return [r["uid"] for r in references if r.get("uid")] if references else []
