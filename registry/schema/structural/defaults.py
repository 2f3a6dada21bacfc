"""Validation of the defaults of a schema against the schema.

Each default is validated by its own node: it must be pruned and valid, with a correct apiVersion, kind and metadata
where it is, or is part of, an embedded resource. Defaults below additionalProperties are not checked.

Follows apiextensions-apiserver pkg/apiserver/schema/defaulting/{validation,surroundingobject}.go at v0.36.2, but visits
properties by name, where kube-apiserver has a random order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from registry.schema.embedded import EmbeddedError, EmbeddedResources
from registry.schema.field import FieldError, invalid, key
from registry.schema.formats.formats import FormatAsWritten
from registry.schema.model import UNSET, Structural
from registry.schema.pruning import META_FIELDS, prune
from registry.schema.validation import validate
from registry.schema.values import Json, deep_copy, same

# Evaluates the validation rules of a node on a value: (node, whether it is a resource, value, path).
Rules = Callable[[Structural, bool, Json, str], list[FieldError]]

# The other members of an embedded resource, when a default for a part of its metadata is validated.
_TYPE_META = {"kind": "Validation", "apiVersion": "validation/v1"}


def validate_defaults(schema: Structural, path: str, rules: Rules) -> list[FieldError]:
    """The errors of all defaults in the schema of a resource, which must be structural.

    Metadata of an embedded resource in a default is decoded in place, as kube-apiserver does: its unknown fields are
    dropped from the definition.
    """
    errors: list[FieldError] = []
    root = replace(schema, embedded_resource=True)
    _check(root, path, _DefaultPlace(root, (), False), rules, errors)
    return errors


@dataclass(frozen=True, slots=True)
class _DefaultPlace:
    """The position of a node: its resource, and the path from the resource's root (None for an item of a list)."""

    resource: Structural
    way: tuple[str | None, ...]
    inside_meta: bool


def _check(schema: Structural, path: str, place: _DefaultPlace, rules: Rules, errors: list[FieldError]) -> None:
    if schema.embedded_resource:
        place = _DefaultPlace(schema, (), False)
    if schema.default is not UNSET:
        errors.extend(_check_default(schema, f"{path}.default", place, rules))
    if schema.items is not None:
        _check(schema.items, f"{path}.items", replace(place, way=(*place.way, None)), rules, errors)
    for name in sorted(schema.properties):
        inside_meta = place.inside_meta or (schema.embedded_resource and name in META_FIELDS)
        below = _DefaultPlace(place.resource, (*place.way, name), inside_meta)
        _check(schema.properties[name], key(f"{path}.properties", name), below, rules, errors)


def _check_default(schema: Structural, path: str, place: _DefaultPlace, rules: Rules) -> list[FieldError]:
    value = schema.default
    unpruned: list[FieldError] = []
    if place.inside_meta:
        why = _unfit_metadata(value, place)
        if why:
            return [invalid(path, value, f"must result in valid metadata: {why}")]
    else:
        pruned = deep_copy(value)
        prune(pruned, schema, is_root=schema.embedded_resource)
        if not same(pruned, value):
            unpruned = [invalid(path, value, "must not have unknown fields")]
        resources = EmbeddedResources(schema)
        try:
            resources.coerce(value, None, path)
        except EmbeddedError as error:
            return [*unpruned, error.error]
        errors = resources.validate(value, path)
        if errors:
            return unpruned + errors
    value = _wide_as_floats(value)
    errors = validate(_as_written(schema), value, prefix=path)
    return unpruned + (errors or rules(schema, schema is place.resource, value, path))


def _wide_as_floats(value: Json) -> Json:
    """A default with integers beyond 64 bits as floats, as kube-apiserver decodes them; they are stored as integers."""
    if type(value) is int:
        return value if -(1 << 63) <= value < 1 << 63 else float(value)
    if type(value) is dict:
        return {name: _wide_as_floats(item) for name, item in value.items()}
    return [_wide_as_floats(item) for item in value] if type(value) is list else value


def _as_written(schema: Structural) -> Structural:
    """The schema as kube-apiserver sees it here: x-kubernetes-int-or-string is replaced by its anyOf, and formats count
    that it ignores in objects."""
    additional = schema.additional_properties
    return replace(
        schema,
        int_or_string=False,
        format=FormatAsWritten(schema.format),
        properties={name: _as_written(s) for name, s in schema.properties.items()},
        items=_as_written(schema.items) if schema.items is not None else None,
        additional_properties=_as_written(additional) if isinstance(additional, Structural) else additional,
        all_of=tuple(map(_as_written, schema.all_of)),
        any_of=tuple(map(_as_written, schema.any_of)),
        one_of=tuple(map(_as_written, schema.one_of)),
        not_=_as_written(schema.not_) if schema.not_ is not None else None,
    )


def _unfit_metadata(value: Json, place: _DefaultPlace) -> str:
    """The error of a resource that has only `value` at this path and what is required."""
    resource = deep_copy(value)
    for step in reversed(place.way):
        resource = [resource] if step is None else {step: resource}
    resource = {**_TYPE_META, **resource}
    resources = EmbeddedResources(place.resource)
    try:
        resources.coerce(resource, None)
    except EmbeddedError as error:
        return str(error)
    texts = list(dict.fromkeys(e.message() for e in resources.validate(resource)))
    return f"[{', '.join(texts)}]" if len(texts) > 1 else "".join(texts)
