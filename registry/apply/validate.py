"""Validation of a value against its merge type, in kube-apiserver's words and with Go's formatting of values.

Only applied objects are checked with this: stored ones have been validated by their schema. Follows
structured-merge-diff typed/{validate,helpers}.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from registry.apply.fieldtexts import element_text
from registry.apply.owned import BadItem, item_element
from registry.apply.types import Items, MergeType, Scalar
from registry.codec.go_text import go_number, go_quote, go_type
from registry.schema.field import below
from registry.schema.model import Json

# kube-apiserver has no limit, but each error costs a path, and more are of no use to a reader.
MAX_ERRORS = 100


@dataclass(frozen=True, slots=True)
class GoValue:
    """A value of Go that is no decoded JSON, and fits nowhere: its type, as `%v` and as `%#v` print it."""

    type: str
    plain: str
    syntax: str


@dataclass(frozen=True, slots=True)
class TypeMismatch:
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def validate(value: Json, node: MergeType, *, duplicates: bool = False) -> list[TypeMismatch]:
    """The errors, at most MAX_ERRORS. `duplicates` allows equal items in sets and keyed lists."""
    errors: list[TypeMismatch] = []
    _validate(value, node, "", duplicates, errors)
    return errors[:MAX_ERRORS]


def errors_text(errors: list[TypeMismatch]) -> str:
    """`.spec.x: field not declared in schema`; several are indented below `errors:`."""
    if len(errors) == 1:
        return str(errors[0])
    return "\n".join(["errors:", *(f"  {error}" for error in errors)])


def _validate(value: Json, node: MergeType, path: str, duplicates: bool, errors: list[TypeMismatch]) -> None:
    if value is None or node.anything or len(errors) >= MAX_ERRORS:
        return
    kind = type(value)
    if kind is dict and node.is_map:
        _validate_members(value, node, path, duplicates, errors)
    elif kind is list and node.is_list:
        _validate_items(value, node, path, duplicates, errors)
    elif kind not in node.accepts:
        errors.append(TypeMismatch(path, _unfit(value, node)))


def _validate_members(
    value: dict[str, Json], node: MergeType, path: str, duplicates: bool, errors: list[TypeMismatch]
) -> None:
    for name, part in value.items():
        field = node.fields.get(name)
        type_ = node.element if field is None else field[1]
        if type_ is None:
            # kube-apiserver stops checking the map at its first unknown member.
            errors.append(TypeMismatch(below(path, f".{name}"), "field not declared in schema"))
            return
        if type(part) not in type_.accepts:
            _validate(part, type_, below(path, f".{name}"), duplicates, errors)


def _validate_items(
    value: list[Json], node: MergeType, path: str, duplicates: bool, errors: list[TypeMismatch]
) -> None:
    item_type = node.item
    assert item_type is not None
    if node.items is Items.ATOMIC:
        item_type = node.checked or item_type
        if not item_type.anything:
            for index, item in enumerate(value):
                _validate(item, item_type, below(path, f"[{index}]"), duplicates, errors)
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        if type(item) is GoValue and node.items is not Items.KEYED:
            errors.append(TypeMismatch(below(path, "[={{undefined}}]"), _unfit(item, item_type)))
            continue
        try:
            element = item_element(item, node, any_key=True)
        except BadItem as error:
            errors.append(TypeMismatch(path, f"element {index}: {error}"))
            return
        if element in seen and not duplicates:
            errors.append(TypeMismatch(path, f"duplicate entries for key {element_text(element)}"))
        seen.add(element)
        if type(item) not in item_type.accepts:
            before = len(errors)
            _validate(item, item_type, "", duplicates, errors)
            # Paths of items are only built where there is an error.
            here = below(path, element_text(element)) if len(errors) > before else ""
            errors[before:] = [TypeMismatch(below(here, error.path), error.message) for error in errors[before:]]


def _unfit(value: Json, node: MergeType) -> str:
    if node.is_map:
        return f"expected map, got &{{{go_plain(value)}}}"
    if node.scalar is Scalar.NUMERIC:
        return f"expected numeric (int or float), got {value.type if isinstance(value, GoValue) else go_type(value)}"
    if node.scalar is Scalar.STRING:
        return f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}"
    if node.scalar is Scalar.BOOLEAN:
        return f"expected boolean, got &{{{go_plain(value)}}}"
    if node.scalar is Scalar.ANY:
        return f"expected any scalar, got &{{{go_plain(value)}}}"
    return f"expected list, got &{{{go_plain(value)}}}"


def go_plain(value: Json, depth: int = 0) -> str:
    """A decoded value as fmt's `%v` prints it: `map[a:b c:[1 2]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{go_plain(value[name], depth + 1)}" for name in _some(value, depth)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_plain(item, depth + 1) for item in _some_items(value, depth)) + "]"
    return _go_scalar(value, "<nil>") if not isinstance(value, str) else value


def go_text(value: Json, depth: int = 0) -> str:
    """A decoded value as fmt's `%s` prints it, which names the type of what is no text: `[a %!s(int64=1)]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{go_text(value[name], depth + 1)}" for name in _some(value, depth)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(go_text(item, depth + 1) for item in _some_items(value, depth)) + "]"
    if value is None:
        return "<nil>" if depth else "%!s(<nil>)"
    return value if isinstance(value, str) else f"%!s({go_type(value)}={go_plain(value)})"


def go_syntax(value: Json, depth: int = 0) -> str:
    """A decoded value as fmt's `%#v` prints it: `map[string]interface {}{"a":"b"}`."""
    if isinstance(value, dict):
        members = (f"{go_quote(name)}:{go_syntax(value[name], depth + 1)}" for name in _some(value, depth))
        return "map[string]interface {}{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(go_syntax(item, depth + 1) for item in _some_items(value, depth)) + "}"
    return go_quote(value) if isinstance(value, str) else _go_scalar(value, "interface {}(nil)", syntax=True)


# A message contains what was sent, but not megabytes of it, nor thousands of levels.
_MAX_SHOWN = 1000
_MAX_SHOWN_DEPTH = 100


def _some(value: dict[str, Json], depth: int) -> list[str]:
    return sorted(value)[:_MAX_SHOWN] if depth < _MAX_SHOWN_DEPTH else []


def _some_items(value: list[Json], depth: int) -> list[Json]:
    return value[:_MAX_SHOWN] if depth < _MAX_SHOWN_DEPTH else []


def _go_scalar(value: Json, nil: str, *, syntax: bool = False) -> str:
    if isinstance(value, GoValue):
        return value.syntax if syntax else value.plain
    if value is None:
        return nil
    if isinstance(value, bool):
        return "true" if value else "false"
    return go_number(value)
