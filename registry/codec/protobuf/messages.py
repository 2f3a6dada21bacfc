"""The message classes of messages.txt, created on first use.

    message_class("v1/ConfigMap")
    kind_key("rbac.authorization.k8s.io/v1", "Role")    # "rbac.authorization.k8s.io/v1/Role"

On the wire a field is its number, so the fields of the classes are called f1, f2, ...; `json_name` of a field's
descriptor is its name in JSON, or a point for an inlined field, whose members belong to the enclosing message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

INLINE: Final = "."

_PACKAGE: Final = "registry"
_META: Final = "meta.k8s.io/v1"
_SCALARS: Final = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
}
# Kinds of every group and version, whose messages are mostly those of v1.
_COMMON: Final = frozenset(
    ("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "Status", "WatchEvent")
)
# Versions that share the messages of another where they have none of their own.
_SAME_AS: Final = {
    "apiextensions.k8s.io/v1beta1": "apiextensions.k8s.io/v1",
    "meta.k8s.io/v1beta1": _META,
    "storagemigration.k8s.io/v1": "storagemigration.k8s.io/v1beta1",
}


def kind_key(api_version: str, kind: str) -> str | None:
    """The message of a kind; None if there is none."""
    version = _META if kind in _COMMON else api_version
    facts, key = _facts(), f"{version}/{kind}"
    if key not in facts and version in _SAME_AS:
        key = f"{_SAME_AS[version]}/{kind}"
    return key if key in facts else None


def fields_of(key: str) -> Iterator[tuple[str, str]]:
    """The names in JSON of a message's fields, with their types: those of the values for maps and lists."""
    for _, name, _, type_ in _facts()[key]:
        yield name, type_


@cache
def message_class(key: str) -> type[Message]:
    return GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{_identifier(key)}"))


def key_of(full_name: str) -> str:
    """The key in messages.txt of the message with this descriptor name: `v1/ConfigMap` for v1_ConfigMap."""
    return _keys()[full_name.removeprefix(f"{_PACKAGE}.")]


def type_of(field: FieldDescriptor) -> Descriptor:
    """The message type of a field that is a message."""
    assert field.message_type is not None
    return field.message_type


# --- from facts to descriptors

# Number, name in JSON, label (repeated, map or none) and type of each field, by message.
_Field = tuple[int, str, str, str]


@cache
def _facts() -> Mapping[str, list[_Field]]:
    facts: dict[str, list[_Field]] = {}
    text = resources.files(__package__).joinpath("messages.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith(" "):
            key, _, listed = line.partition(" ")
            fields = facts[key] = []
            if listed:  # "+List": the kind has a list
                facts[f"{key}List"] = [(1, "metadata", "", f"{_META}/ListMeta"), (2, "items", "repeated", key)]
            continue
        number, name, *label, type_ = line.split()
        fields.append((int(number), name, label[0] if label else "", type_))
    return facts


@cache
def _keys() -> Mapping[str, str]:
    return {_identifier(key): key for key in _facts()}


@cache
def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    file = FileDescriptorProto(name="messages.txt", package=_PACKAGE, syntax="proto2")
    file.message_type.extend(_descriptor(key, fields) for key, fields in _facts().items())
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _descriptor(key: str, fields: list[_Field]) -> DescriptorProto:
    message = DescriptorProto(name=_identifier(key))
    for number, name, label, type_ in fields:
        field = message.field.add(name=f"f{number}", number=number, json_name=name)
        field.label = FieldDescriptorProto.LABEL_REPEATED if label else FieldDescriptorProto.LABEL_OPTIONAL
        if label == "map":
            entry = message.nested_type.add(name=f"F{number}Entry")
            entry.options.map_entry = True
            entry.field.extend(_entry_fields(type_))
            _set_message_type(field, f"{message.name}.{entry.name}")
        else:
            _set_type(field, type_)
    return message


def _entry_fields(type_: str) -> Iterator[FieldDescriptorProto]:
    for number, name, of in ((1, "key", "string"), (2, "value", type_)):
        field = FieldDescriptorProto(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        _set_type(field, of)
        yield field


def _set_type(field: FieldDescriptorProto, type_: str) -> None:
    if type_ in _SCALARS:
        field.type = _SCALARS[type_]
    else:
        _set_message_type(field, _identifier(type_))


def _set_message_type(field: FieldDescriptorProto, name: str) -> None:
    field.type = FieldDescriptorProto.TYPE_MESSAGE
    field.type_name = f".{_PACKAGE}.{name}"


def _identifier(key: str) -> str:
    """`rbac.authorization.k8s.io/v1/Role` gives `rbac_authorization_k8s_io_v1_Role`."""
    return key.replace(".", "_").replace("/", "_")
