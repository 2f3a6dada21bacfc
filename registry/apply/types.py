"""Merge types of server-side apply: a schema reduced to how its values merge and which parts can have owners.

A MergeType says of a value whether it is a scalar, a map or a list (an untyped one may be any of them), whether a map
or list is owned as a whole (atomic) or by part, and how the items of a list are identified. Types are compiled once per
schema and immutable. They are finite: below UNTYPED_DEPTH levels of data without a schema, and below SCHEMA_DEPTH
levels of a schema, a value is owned as a whole. So no walk over a value by its type goes deeper than the sum of both,
however deep the value; kube-apiserver has no such limit.

Follows kube-openapi pkg/schemaconv (ToSchemaFromOpenAPI) over what apiextensions-apiserver publishes for a definition.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from registry.apply.fieldtexts import json_text
from registry.codec.go_text import go_quote_all
from registry.codec.structs.base import GoType
from registry.codec.structs.scalars import Bytes, GoScalar, Integer, Number
from registry.codec.structs.structs import GoMap, GoSlice, Pointer, Struct
from registry.schema.model import UNSET, Json, Structural

SCHEMA_DEPTH = 100
UNTYPED_DEPTH = 64


class Scalar(enum.Enum):
    """The kinds of scalars; null is valid for each."""

    NUMERIC = "numeric"
    STRING = "string"
    BOOLEAN = "boolean"
    ANY = "untyped"


class Items(enum.Enum):
    """How the items of a list are owned."""

    ATOMIC = "atomic"
    SET = "set"
    KEYED = "map"


@dataclass(slots=True, eq=False)
class MergeType:
    """One node. `fields` are the declared members: the name as a path element (`f:spec`), the type, what it accepts.

    `element` is the type of undeclared members, None if there are none. `keys` are those of KEYED items, sorted, each
    with its beginning in a path element (`"port":`) and the text of its default, None if it has none; `keys_text`
    names them as declared (`["port" "proto"]`). `accepts` are the Python types of scalars that fit. `anything`: every
    value is of this type. `exact`: no value of this type contains a number where another may contain a boolean, so that
    Python's `==` distinguishes them. `collapsing` are the declared members in which an old entry may be finer than the
    type is now, and `collapses` says whether there are any here or below. `checked` is what the items of a list that is
    owned as a whole must be, where that is more than `item` says.
    """

    scalar: Scalar | None = None
    accepts: frozenset[type] = field(init=False)
    is_map: bool = False
    map_atomic: bool = False
    fields: dict[str, Field] = field(default_factory=dict)
    element: MergeType | None = None
    is_list: bool = False
    items: Items = Items.ATOMIC
    item: MergeType | None = None
    checked: MergeType | None = None
    keys: tuple[tuple[str, str, str | None], ...] = ()
    # The name of the key and the beginning of its elements, if there is only one: `name` and `k:{"name":`.
    key: tuple[str, str] | None = None
    keys_text: str = "[]"
    anything: bool = False
    exact: bool = False
    collapses: bool = False
    collapsing: tuple[tuple[str, MergeType], ...] = ()

    def __post_init__(self) -> None:
        self.accepts = _ACCEPTS[self.scalar]

    def declare(self, members: Mapping[str, MergeType]) -> None:
        self.fields.update({name: (f"f:{name}", member, member.accepts) for name, member in members.items()})

    @property
    def is_whole(self) -> bool:
        """Whether a map or list is owned as a whole; for an untyped node that depends on the value."""
        return self.map_atomic if self.is_map else self.is_list and self.items is Items.ATOMIC

    def finish(self) -> MergeType:
        """Computes the derived attributes. Call it once all parts are finished."""
        parts = [member for _, member, _ in self.fields.values()]
        parts += [part for part in (self.element, self.item) if part is not None]
        self.exact = self.scalar is not Scalar.ANY and all(part.exact for part in parts)
        self.collapsing = tuple((element, member) for element, member, _ in self.fields.values() if member.collapses)
        self.collapses = self.is_whole or any(part.collapses for part in parts)
        return self


# A member of a map: its name as a path element, its type, and the types of scalars that this accepts.
Field = tuple[str, MergeType, frozenset[type]]

_NULL = frozenset({type(None)})
_ACCEPTS: dict[Scalar | None, frozenset[type]] = {
    None: _NULL,
    Scalar.NUMERIC: _NULL | {int, float},
    Scalar.STRING: _NULL | {str},
    Scalar.BOOLEAN: _NULL | {bool},
    Scalar.ANY: _NULL | {int, float, str, bool},
}


def _whole() -> MergeType:
    """Any value, owned as a whole."""
    node = MergeType(Scalar.ANY, is_map=True, map_atomic=True, is_list=True, anything=True)
    node.element = node.item = node
    return node


def _untyped_node() -> MergeType:
    """Any value; maps are owned by member down to UNTYPED_DEPTH, lists as a whole."""
    node = WHOLE
    for _ in range(UNTYPED_DEPTH):
        node = MergeType(Scalar.ANY, is_map=True, element=node, is_list=True, item=WHOLE, anything=True)
    return node


WHOLE = _whole()
UNTYPED = _untyped_node()


def compile_type(schema: Structural) -> MergeType:
    """The type of the objects of a definition: `schema` is that of the whole object, its root."""
    root = _compile(schema, False, 0)
    root.is_map, root.is_list, root.scalar, root.accepts = True, False, None, _NULL
    root.declare(_RESOURCE)
    if not schema.preserve_unknown_fields and schema.additional_properties is None:
        root.element = None
    return root.finish()


def _compile(schema: Structural, preserve: bool, depth: int) -> MergeType:
    if depth > SCHEMA_DEPTH:
        return WHOLE
    preserve = preserve or schema.preserve_unknown_fields
    kind = schema.type
    node = MergeType(_scalar_of(kind, schema.format))
    if kind in ("", "object"):
        _compile_map(node, schema, preserve, depth)
    if kind in ("", "array"):
        _compile_list(node, schema, preserve, depth)
    return node.finish()


def _scalar_of(kind: str, format: str) -> Scalar | None:
    if kind in ("integer", "number"):
        return Scalar.NUMERIC
    if kind == "boolean":
        return Scalar.BOOLEAN
    if kind == "string" and format in ("", "byte"):
        return Scalar.STRING
    # A string of another format may be a type other than string in Go.
    return Scalar.ANY if kind in ("", "string") else None


def _compile_map(node: MergeType, schema: Structural, preserve: bool, depth: int) -> None:
    node.is_map = True
    node.map_atomic = schema.map_type == "atomic"
    node.declare({name: _compile(member, preserve, depth + 1) for name, member in schema.properties.items()})
    additional = schema.additional_properties
    if isinstance(additional, Structural):
        node.element = _compile(additional, preserve, depth + 1)
    elif additional or (additional is None and (preserve or not schema.properties)):
        node.element = UNTYPED
    if schema.embedded_resource:
        node.declare(_RESOURCE)


def _compile_list(node: MergeType, schema: Structural, preserve: bool, depth: int) -> None:
    node.is_list = True
    node.item = WHOLE if schema.items is None else _compile(schema.items, preserve, depth + 1)
    if schema.list_type == "set":
        node.items = Items.SET
    elif schema.list_type == "map" and schema.items is not None:
        properties = schema.items.properties
        key_items(node, {key: properties[key].default if key in properties else UNSET for key in schema.list_map_keys})


def key_items(node: MergeType, keys: dict[str, Json]) -> None:
    """`keys` are the names of the key fields with their defaults, in the declared order."""
    node.items = Items.KEYED
    node.keys = tuple(
        (key, f"{json_text(key)}:", None if keys[key] is UNSET else json_text(keys[key])) for key in sorted(keys)
    )
    if len(node.keys) == 1:
        node.key = (node.keys[0][0], f"k:{{{node.keys[0][1]}")
    node.keys_text = go_quote_all(keys)


def _scalar(scalar: Scalar) -> MergeType:
    return MergeType(scalar).finish()


def _map(
    strings: str = "", *, atomic: bool = False, element: MergeType | None = None, **others: MergeType
) -> MergeType:
    """`strings` are the names of the members that are strings."""
    node = MergeType(is_map=True, map_atomic=atomic, element=element)
    node.declare({**dict.fromkeys(strings.split(), STRING), **others})
    return node.finish()


def _list(items: Items, item: MergeType, keys: dict[str, Json] | None = None) -> MergeType:
    """`keys` of a keyed list come with their defaults; Go's empty string counts as one."""
    node = MergeType(is_list=True, items=items, item=item)
    if keys:
        key_items(node, keys)
    return node.finish()


STRING = _scalar(Scalar.STRING)
_BOOLEAN = _scalar(Scalar.BOOLEAN)
_NUMERIC = _scalar(Scalar.NUMERIC)
_TIME = _scalar(Scalar.ANY)  # a string with a format
_STRINGS = _map(element=STRING)

OBJECT_META = _map(
    "name generateName namespace uid resourceVersion selfLink",
    annotations=_STRINGS,
    labels=_STRINGS,
    creationTimestamp=_TIME,
    deletionTimestamp=_TIME,
    deletionGracePeriodSeconds=_NUMERIC,
    generation=_NUMERIC,
    finalizers=_list(Items.SET, STRING),
    managedFields=_list(
        Items.ATOMIC, _map("apiVersion fieldsType manager operation subresource", fieldsV1=WHOLE, time=_TIME)
    ),
    ownerReferences=_list(
        Items.KEYED,
        _map("apiVersion kind name uid", atomic=True, blockOwnerDeletion=_BOOLEAN, controller=_BOOLEAN),
        {"uid": ""},
    ),
)

# The metadata of every resource, including embedded ones.
_RESOURCE = {"apiVersion": STRING, "kind": STRING, "metadata": OBJECT_META}

# autoscaling/v1, Kind=Scale
SCALE = _map(
    "apiVersion kind", metadata=OBJECT_META, spec=_map(replicas=_NUMERIC), status=_map("selector", replicas=_NUMERIC)
)


# -- Go structs, for parts of built-in kinds that no structural schema describes, as none is recursive
def struct_type(go_type: GoType, keys: Mapping[str, str]) -> MergeType:
    """The merge type of a Go type. `keys` are the key fields of keyed lists by their types: all others are atomic.

    Only `validate` uses it, below lists that are owned as a whole. Types that decode themselves have no type in
    OpenAPI, and so may hold anything. Follows what kube-openapi generates of the structs, and structured-merge-diff
    schema/elements.go.

    A key field that is missing counts as the empty text: OpenAPI has that as the default of each text in Go that is
    always there.
    """
    return _compile_go(go_type, keys, {})


def _compile_go(go_type: GoType, keys: Mapping[str, str], known: dict[GoType, MergeType]) -> MergeType:
    if isinstance(go_type, Pointer):
        return _compile_go(go_type.element, keys, known)
    node = known.get(go_type)
    if node is not None:
        return node
    match go_type:
        case Struct(fields=fields):
            node = known[go_type] = MergeType(is_map=True)
            node.declare({field.name: _compile_go(field.type, keys, known) for field in fields})
            node.element = None if fields else UNTYPED
        case GoMap(element=element):
            node = known[go_type] = MergeType(is_map=True)
            node.element = _compile_go(element, keys, known)
        case GoSlice(element=element):
            node = known[go_type] = MergeType(is_list=True)
            node.item = _compile_go(element, keys, known)
            if go_type.go in keys:
                key_items(node, {keys[go_type.go]: ""})
        case GoScalar(json_type=json_type):
            node = MergeType(Scalar.BOOLEAN if json_type is bool else Scalar.STRING)
        case Integer() | Number():
            node = MergeType(Scalar.NUMERIC)
        case Bytes():
            node = MergeType(Scalar.STRING)
        case _:
            node = UNTYPED
    return node
