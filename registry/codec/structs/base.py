"""The base of Go types for the decoder, its errors and paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from registry.codec.go_text import json_type
from registry.codec.model import MAX_STRICT_ERRORS

# One step of the path to a value: its parent, the step (a field's name, a map's key, or an index), the struct that
# the field belongs to (None for keys and indices), and whether the value has a custom decoder.
Link = tuple[Any, str | int, str | None, bool]
ROOT: Final[Link] = (None, "", None, False)


class RepeatedField(str):
    """The path of a repeated field, among those of unknown fields."""


class StructDecodeError(ValueError):
    """The body is not of the Go type; the text is Go's: `json: cannot unmarshal string into Go struct field ...`."""


# kube-apiserver reports at most MAX_STRICT_ERRORS unknown fields; their paths may be very long, too. Those beyond
# either limit are dropped silently.
MAX_UNKNOWN_CHARACTERS = 1 << 18


@dataclass(slots=True)
class DecodingContext:
    """One decoding of a value.

    `unknown` collects the paths of unknown fields and, as RepeatedField, of repeated ones, in document order; None
    drops them silently. `is_reencoded` says that the value was decoded and encoded before it is decoded as a struct:
    its members are sorted, each stands once, and whole floats are integers. `has_repeated` says that some object may
    have members of the same name.
    """

    unknown: list[str] | None
    is_reencoded: bool = False
    has_repeated: bool = True
    characters: int = 0  # in the paths of unknown fields
    fault: StructDecodeError | None = None

    def note(self, link: Link, kind: type[str] = str) -> None:
        """Records an unknown or repeated field."""
        unknown = self.unknown
        if unknown is not None and len(unknown) < MAX_STRICT_ERRORS and self.characters < MAX_UNKNOWN_CHARACTERS:
            path = _path(link)
            unknown.append(path if kind is str else kind(path))
            self.characters += len(path)

    def mismatch(self, value: Any, link: Link, go: str, printed: str = "") -> None:
        """Saves the first value of a wrong type: Go goes on, and an error of a type that decodes itself comes first."""
        if self.fault is None:
            self.fault = mismatch(value, link, go, printed)

    def finish(self, value: Any) -> Any:
        """Returns the decoded value. Raises the error that was saved."""
        fault, self.fault = self.fault, None
        if fault is None:
            return value
        try:
            raise fault
        finally:
            del fault  # it refers to this frame


class GoType:
    """A Go type. `go` is its name in error texts, such as `[]string` or `v1.ObjectMeta`.

    `decode` saves the first value of a wrong type in the context, and gives None for one. Types with an UnmarshalJSON
    of their own raise StructDecodeError, which ends the decoding.
    """

    go: str
    zero: Any = None
    by_reference = False  # nil-able: if required and absent, it is written as null

    def decode(self, value: Any, link: Link, context: DecodingContext) -> Any:
        raise NotImplementedError

    def encode(self, value: Any) -> Any:
        return value

    def merge(self, before: Any, value: Any) -> Any:
        """The value of a field that was given twice, both decoded: Go decodes the second into the first."""
        return value

    def is_empty(self, value: Any) -> bool:
        """Whether `omitempty` omits the value. A pointer is only empty if nil."""
        return not value


def mismatch(value: Any, link: Link, go: str, printed: str = "") -> StructDecodeError:
    """The error of a value of a wrong type; `printed` stands for a value such as `number 1.5`."""
    return StructDecodeError(_text(printed or json_type(value), link, go))


def _text(value: str, link: Link, go: str) -> str:
    names: list[str] = []
    struct: str | None = None
    step: Link | None = link
    while step is not None:
        parent, name, owner, own_decoder = step
        if owner is not None:
            names.append(str(name))
            # The innermost struct is named, but a custom decoder only knows the struct that contains it.
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
