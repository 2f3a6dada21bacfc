"""Embedded resources: objects within objects, marked by x-kubernetes-embedded-resource.

Decoding requires that their apiVersion and kind are strings and decodes their metadata as ObjectMeta, as at the root.
Validation requires apiVersion and kind, and applies the rules of a new object to their metadata.

Follows apiextensions-apiserver pkg/apiserver/schema/objectmeta/{algorithm,validation}.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from registry.codec.structs.base import StructDecodeError
from registry.schema.field import FieldError, child, index, invalid, key, required
from registry.schema.model import Structural, nodes_with
from registry.schema.names import dns1035_label, name_is_path_segment
from registry.schema.objectmeta.decoding import decode_object_meta, drop_malformed
from registry.schema.objectmeta.rules import validate_object_meta
from registry.schema.values import Json


class EmbeddedError(StructDecodeError):
    """An embedded resource that cannot be decoded; the text is the error with its path."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(error.message())
        self.error = error


class EmbeddedResources:
    def __init__(self, schema: Structural) -> None:
        self._schema = schema
        self._nodes = nodes_with(schema, lambda node: node.embedded_resource)
        self.present = schema in self._nodes

    def coerce(self, obj: Json, unknown: list[str] | None, path: str = "") -> None:
        """Decodes the metadata of embedded resources in place and appends their unknown fields to `unknown`, sorted.

        `path` is the path of `obj`. Raises EmbeddedError: `spec.t.kind: Invalid value: 3: must be a string`.
        """
        if self.present:
            paths: list[str] | None = None if unknown is None else []
            for resource, where in self._resources(obj, self._schema, path):
                _coerce_one(resource, where, paths)
            if unknown is not None and paths:
                unknown.extend(sorted(paths))

    def decode_applied(self, obj: Json) -> None:
        """Decodes the metadata of embedded resources in place, without fields of another type, which an apply accepts
        in a few cases: `{"creationTimestamp": "x", "name": null}`."""
        for resource, _ in self._resources(obj, self._schema, ""):
            if isinstance(metadata := resource.get("metadata"), dict):
                resource["metadata"] = decode_object_meta(drop_malformed(metadata), unknown=None)

    def validate(self, obj: Json, path: str = "") -> list[FieldError]:
        errors: list[FieldError] = []
        if self.present:
            for resource, where in self._resources(obj, self._schema, path):
                _validate_one(resource, where, errors)
        return errors

    def _resources(self, value: Json, schema: Structural, path: str) -> Iterator[tuple[dict[str, Json], str]]:
        """Yields each embedded resource in `value` with its path, outer ones first; the caller may change them."""
        if value.__class__ is dict:
            if schema.embedded_resource:
                yield value, path
            for name, inner in value.items():
                inner_schema = schema.properties.get(name)
                if inner_schema is not None:
                    if inner_schema in self._nodes:
                        yield from self._resources(inner, inner_schema, child(path, name))
                else:
                    additional = schema.additional_properties
                    if isinstance(additional, Structural) and additional in self._nodes:
                        yield from self._resources(inner, additional, key(path, name))
        elif value.__class__ is list and schema.items is not None and schema.items in self._nodes:
            for place, item in enumerate(value):
                yield from self._resources(item, schema.items, index(path, place))


def _coerce_one(value: dict[str, Json], path: str, unknown: list[str] | None) -> None:
    for name in ("apiVersion", "kind"):
        if name in value and value[name].__class__ is not str:
            raise EmbeddedError(invalid(child(path, name), value[name], "must be a string"))
    if "metadata" in value:
        where = child(path, "metadata")
        try:
            value["metadata"] = decode_object_meta(value["metadata"], unknown=unknown, path=where)
        except StructDecodeError as error:
            raise EmbeddedError(invalid(where, value["metadata"], str(error))) from error


def _validate_one(value: dict[str, Json], path: str, errors: list[FieldError]) -> None:
    errors.extend(required(child(path, name)) for name in ("apiVersion", "kind") if name not in value)
    for name, inner in value.items():
        if name == "apiVersion":
            _check_api_version(inner, child(path, name), errors)
        elif name == "kind":
            _check_kind(inner, child(path, name), errors)
        elif name == "metadata":
            _check_metadata(inner, child(path, name), errors)


def _check_api_version(value: Json, path: str, errors: list[FieldError]) -> None:
    if value.__class__ is not str:
        errors.append(invalid(path, value, "must be a string"))
    elif not value:
        errors.append(invalid(path, value, "must not be empty"))
    elif value.count("/") > 1:
        errors.append(invalid(path, value, f"unexpected GroupVersion string: {value}"))


def _check_kind(value: Json, path: str, errors: list[FieldError]) -> None:
    if value.__class__ is not str:
        errors.append(invalid(path, value, "must be a string"))
    elif not value:
        errors.append(invalid(path, value, "must not be empty"))
    elif faults := dns1035_label(value.lower()):
        errors.append(invalid(path, value, "may have mixed case, but should otherwise match: " + ",".join(faults)))


def _check_metadata(value: Json, path: str, errors: list[FieldError]) -> None:
    try:
        meta = decode_object_meta(value, unknown=None)
    except StructDecodeError as error:
        errors.append(invalid(path, value, str(error)))
        return
    if not meta.get("name"):
        meta = {**meta, "name": "fakename"}  # the name is not checked here, but must be valid
    errors.extend(
        validate_object_meta(
            meta, namespaced=bool(meta.get("namespace")), name_function=name_is_path_segment, path=path
        )
    )
