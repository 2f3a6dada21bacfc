"""What the decoders give and how they fail. Pure: no HTTP, no SQL, no Kubernetes rules.

    DecodeError
    ├── JsonSyntaxError      the bytes are not JSON
    ├── JsonNumberError      the JSON is well formed, but a number is beyond float64
    ├── CborError            the bytes are not CBOR, or not CBOR that has a JSON form
    ├── YamlError            the bytes are not YAML, or not YAML that has a JSON form
    └── ProtoError           the bytes are not the protobuf message that was expected

The text of an error is the one that kube-apiserver puts after its own prefix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Json = Any  # dict, list, str, int (int64), float, bool or None

# encoding/json and sigs.k8s.io/yaml both stop at this depth.
MAX_DEPTH = 10000

# sigs.k8s.io/json keeps no more than this many strict errors of one body.
MAX_STRICT_ERRORS = 100


class Repeated(dict[str, Json]):
    """An object in which a key was given more than once: a dict of the last values, with all `pairs` in their order."""

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


@dataclass(slots=True)
class Decoded:
    """A decoded body.

    `duplicates` tells of keys given twice (the last one won), in document order: `duplicate field "spec.a"` from JSON,
    `line 6: key "a" already set in map` from YAML.
    """

    value: Json
    duplicates: list[str] = field(default_factory=list)
    yaml: bool = False

    def strict_errors(self) -> list[str]:
        """The duplicates as items of a `strict decoding error: A, B`: YAML gives them all as one item of many lines."""
        if self.yaml and self.duplicates:
            return ["yaml: unmarshal errors:\n" + "\n".join(f"  {text}" for text in self.duplicates)]
        return list(self.duplicates)


class DecodeError(ValueError):
    """Bytes that do not decode. `str(error)` is the whole text."""


class JsonSyntaxError(DecodeError):
    pass


class JsonNumberError(DecodeError):
    """`decoded` is what the body holds, with 0.0 for the number: kind and apiVersion are validated before numbers."""

    def __init__(self, literal: str, decoded: Decoded) -> None:
        super().__init__(f"json: cannot unmarshal number {literal} into Go value of type float64")
        self.decoded = decoded


class YamlError(DecodeError):
    pass


class CborError(DecodeError):
    pass


class ProtoError(DecodeError):
    pass
