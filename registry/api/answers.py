"""The answers of verbs, before their encoding as JSON, YAML or a Table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from registry.api.served import Object, Served
from registry.api.tables.table import Table
from registry.codec.json_encode import encode_json_text
from registry.codec.stored import decode_stored


class ObjectAnswer:
    """One object at one version: as text, decoded, or both; the missing form is computed on demand."""

    __slots__ = ("_object", "_text", "code", "served")

    def __init__(self, served: Served, *, text: str | None = None, obj: Object | None = None, code: int = 200) -> None:
        assert text is not None or obj is not None
        self.served = served
        self.code = code
        self._text = text
        self._object = obj

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = encode_json_text(self._object)
        return self._text

    @property
    def object(self) -> Object:
        if self._object is None:
            self._object = decode_stored(self.text)
        return self._object

    @property
    def size(self) -> int:
        """The length of the text, as far as it is known: 0 before it is computed."""
        return len(self._text) if self._text is not None else 0


@dataclass(slots=True)
class ListAnswer:
    """Objects in the order of their keys at one revision. `chunks` yields their texts, and can be read once."""

    served: Served
    revision: int
    chunks: AsyncIterator[Sequence[str]]
    continue_: str = ""
    remaining: int | None = None
    # The number of objects on all pages together, if requested.
    total: int | None = None


async def one_chunk(texts: Sequence[str]) -> AsyncIterator[Sequence[str]]:
    yield texts


@dataclass(slots=True)
class DocumentAnswer:
    """Any other JSON document: a Status, a Scale, a review. With a Table it can have every form of an object.

    `items` are the JSON texts of a list that can be long, which the body is sent with.
    """

    body: dict[str, Any]
    code: int = 200
    table: Table | None = None
    items: Sequence[str] | None = None


class Events(Protocol):
    """The events of a watch, in batches. An asynchronous generator is one."""

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]: ...

    def __anext__(self) -> Awaitable[Sequence[Event]]: ...

    async def aclose(self) -> None: ...


@dataclass(slots=True)
class WatchAnswer:
    """A stream of events, until the watch ends."""

    served: Served
    events: Events


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a watch; `text` is the JSON of its object.

    `cache` is the change's, shared by all its watches, and `text_key` is the key of this text in it. Events of this
    watch alone (bookmarks, initial events, errors) have none.
    """

    type: str
    text: str
    cache: dict[Any, Any] | None = None
    text_key: Any = None


Answer = ObjectAnswer | ListAnswer | DocumentAnswer | WatchAnswer


def deleted_status(served: Served, name: str, uid: str, revision: int) -> DocumentAnswer:
    """Returns the Status of a deleted object; `revision` is that of the deletion, 0 if the answer has none."""
    details = {"name": name, "group": served.resource.group, "kind": served.resource.name, "uid": uid}
    return DocumentAnswer(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": str(revision)} if revision else {},
            "status": "Success",
            "details": {k: v for k, v in details.items() if v},
        }
    )
