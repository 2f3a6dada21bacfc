"""What a Go type is to the decoder: the base of typed.py, and its errors and paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from registry.codec.go_text import json_type
from registry.codec.model import MAX_STRICT_ERRORS

# A link of the path to a value: its parent, the step (a field's name, a map's key, or a position), the struct whose
# field the step is (None for keys and positions), and whether the value has a decoder of its own.
Link = tuple[Any, str | int, str | None, bool]


class RepeatedField(str):
    """The path of a field that was given twice, among those of unknown fields."""


class StructDecodeError(ValueError):
    """The body is not of the type; the text is Go's: `json: cannot unmarshal string into Go struct field ...`."""


# The reference notes no more than MAX_STRICT_ERRORS unknown fields; their paths may be very long, too. What is beyond
# either bound is dropped silently.
MAX_UNKNOWN_CHARACTERS = 1 << 18


@dataclass(slots=True)
class Context:
    """`unknown` gets the paths of unknown fields and, as RepeatedField, of repeated ones, in the document's order."""

    unknown: list[str]
    quiet: int = 0  # below a type with its own decoder unknown fields are dropped without a word
    characters: int = 0  # in the paths of unknown fields

    def note(self, link: Link, kind: type[str] = str) -> None:
        """Notes an unknown field, or a repeated one."""
        if not self.quiet and len(self.unknown) < MAX_STRICT_ERRORS and self.characters < MAX_UNKNOWN_CHARACTERS:
            path = _path(link)
            self.unknown.append(path if kind is str else kind(path))
            self.characters += len(path)


class GoType:
    """A Go type. `go` is its name in error texts, such as `[]string` or `v1.ObjectMeta`."""

    go: str
    zero: Any = None
    by_reference = False  # nil-able: required, but absent, it is written as null

    def decode(self, value: Any, link: Link, context: Context) -> Any:
        raise NotImplementedError

    def encode(self, value: Any) -> Any:
        return value

    def merge(self, before: Any, value: Any) -> Any:
        """What a field holds that was given twice, both decoded: Go decodes the second time into what is there."""
        return value

    def is_empty(self, value: Any) -> bool:
        """What `omitempty` leaves out. Of a pointer nothing but nil is empty."""
        return not value


def mismatch(value: Any, link: Link, go: str) -> StructDecodeError:
    return mismatch_of(json_type(value), link, go)


def mismatch_of(printed: str, link: Link, go: str) -> StructDecodeError:
    """The same for a value with the text `printed`, such as `number 1.5`."""
    return StructDecodeError(_text(printed, link, go))


def _text(value: str, link: Link, go: str) -> str:
    names: list[str] = []
    struct: str | None = None
    step: Link | None = link
    while step is not None:
        parent, name, owner, own_decoder = step
        if owner is not None:
            names.append(str(name))
            # The innermost struct is named, but a type with its own decoder only knows the struct that holds it.
            if struct is None or own_decoder:
                struct = owner
        step = parent
    if struct is None:
        return f"json: cannot unmarshal {value} into Go value of type {go}"
    return f"json: cannot unmarshal {value} into Go struct field {struct}.{'.'.join(reversed(names))} of type {go}"


def _path(link: Link) -> str:
    steps: list[str] = []
    step: Link | None = link
    while step is not None and step[0] is not None:
        parent, name, _, _ = step
        steps.append(f"[{name}]" if isinstance(name, int) else f".{name}")
        step = parent
    return "".join(reversed(steps)).removeprefix(".")
