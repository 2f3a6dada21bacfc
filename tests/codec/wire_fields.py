"""The fields of any message, read by the library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values in the order of the message; a message within it is bytes."""
    found = UnknownFieldSet(Empty.FromString(data))
    for place in range(len(found)):
        yield found[place].field_number, found[place].data
