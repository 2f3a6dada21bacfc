"""The results and errors of the decoders. Pure: no HTTP, no SQL, no Kubernetes rules.

    DecodeError
    ├── JsonSyntaxError      the bytes are not JSON
    ├── JsonNumberError      the JSON is well formed, but a number is beyond float64
    ├── CborError            the bytes are not CBOR, or not CBOR that has a JSON form
    ├── YamlError            the bytes are not YAML, or not YAML that has a JSON form
    └── ProtoError           the bytes are not the protobuf message that was expected
    TooManyValues            the bytes may be right, but decoding them would take too long

The text of an error is kube-apiserver's, without its prefix.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from registry.budget import BudgetExceeded

Json = Any  # dict, list, str, int (int64), float, bool or None

# The depth limit of encoding/json and sigs.k8s.io/yaml.
MAX_DEPTH = 10000

# Objects and lists in a body: large bodies are decoded in pieces, so these limits are for the time and memory that one
# request takes. What etcd can hold (1.5 MiB) has fewer unless they are nearly all empty.
MAX_CONTAINERS = 200_000
# Keys in a body of JSON, and in a stored object, whose managedFields name each up to three times. What etcd can hold
# has fewer.
MAX_KEYS = 150_000
MAX_STORED_KEYS = 3 * MAX_KEYS

# The limit of sigs.k8s.io/json on the strict errors of one body.
MAX_STRICT_ERRORS = 100


class Repeated(dict[str, Json]):
    """An object with duplicate keys: a dict of the last values, with all `pairs` in document order."""

    def __init__(self, pairs: list[tuple[str, Json]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class NumberLiteral(float):
    """A number that is no int64, with its `text` in the document: 1e3, 1.50, 18446744073709551616."""

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number

    text: str


@dataclass(slots=True)
class Decoded:
    """A decoded body.

    `duplicates` reports repeated keys (the last one wins), in document order: `duplicate field "spec.a"` for JSON,
    `line 6: key "a" already set in map` for YAML.
    """

    value: Json
    duplicates: list[str] = field(default_factory=list)
    yaml: bool = False

    def strict_errors(self) -> list[str]:
        """The duplicates as items of a `strict decoding error: A, B`; for YAML, all are one item of several lines."""
        if self.yaml and self.duplicates:
            return ["yaml: unmarshal errors:\n" + "\n".join(f"  {text}" for text in self.duplicates)]
        return list(self.duplicates)


class DecodeError(ValueError):
    """Bytes that cannot be decoded. `str(error)` is the whole text."""


class JsonSyntaxError(DecodeError):
    pass


class JsonNumberError(DecodeError):
    """`decoded` is the body with 0.0 for the number: kind and apiVersion are validated before numbers."""

    def __init__(self, literal: str, decoded: Decoded) -> None:
        super().__init__(f"json: cannot unmarshal number {literal} into Go value of type float64")
        self.decoded = decoded


class YamlError(DecodeError):
    pass


class CborError(DecodeError):
    pass


class ProtoError(DecodeError):
    pass


class TooManyValues(BudgetExceeded):
    """`more than 200000 objects and lists`."""

    def __init__(self, limit: int, what: str = "objects and lists") -> None:
        Exception.__init__(self, f"more than {limit} {what}")
