"""The in-memory form of schemas: compressed, shared within the process, and compiled while in use.

A process holds all definitions of the tenants that it serves, thousands of them, and uses few. So only the compressed
JSON of a schema is kept, shared by all versions and tenants with an equal one; it is decoded and compiled on use. The
memory of compiled schemas is bounded: the oldest are dropped, and compiled again when needed.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections import deque
from weakref import WeakValueDictionary

from registry.codec.json_encode import encode_json
from registry.codec.stored import decode_stored
from registry.definitions.model import Json
from registry.schema.compiled import MAX_COMPILED_BYTES, CompiledSchema, compile_schema

# The fastest level compresses schemas to about a seventh; the best saves another fifth and takes five times as long.
_LEVEL = 1


class PackedSchema:
    """A schema that is compiled when called. Created by `pack`, which returns the same one for equal schemas."""

    __slots__ = ("__weakref__", "_compiled", "_length", "_packed", "digest")

    def __init__(self, digest: bytes, packed: bytes, length: int) -> None:
        self.digest = digest
        self._length = length
        self._packed = packed
        self._compiled: CompiledSchema | None = None

    def __call__(self) -> CompiledSchema:
        compiled = self._compiled
        if compiled is None:
            compiled = compile_schema(self.json)
            _IN_USE.add(self, compiled)
        return compiled

    @property
    def json(self) -> Json:
        """The schema itself, decoded on each access."""
        return decode_stored(zlib.decompress(self._packed).decode())

    @property
    def uncompiled_bytes(self) -> int:
        """The length of the schema that is compiled on the next use; 0 if that is done."""
        return self._length if self._compiled is None else 0

    @property
    def size(self) -> int:
        """The size of the compressed form in bytes."""
        return len(self._packed)


class _InUse:
    """The compiled schemas, of at most `capacity` bytes. Evicts first in, first out: a wrong choice costs little."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._bytes = 0
        self._schemas: deque[PackedSchema] = deque()
        self._lock = threading.Lock()

    def add(self, schema: PackedSchema, compiled: CompiledSchema) -> None:
        with self._lock:
            if schema._compiled is None:
                self._schemas.append(schema)
                self._bytes += compiled.size
            schema._compiled = compiled
            while self._bytes > self._capacity and len(self._schemas) > 1:
                oldest = self._schemas.popleft()
                if oldest._compiled is not None:
                    self._bytes -= oldest._compiled.size
                oldest._compiled = None


_IN_USE = _InUse(MAX_COMPILED_BYTES)
_KNOWN: WeakValueDictionary[bytes, PackedSchema] = WeakValueDictionary()
# Definitions are also loaded in threads.
_LOCK = threading.Lock()


def pack(schema: Json) -> PackedSchema:
    """The packed form of a schema; the same object while any equal schema is referenced."""
    data = encode_json(schema)
    digest = hashlib.blake2b(data, digest_size=16).digest()
    with _LOCK:
        known = _KNOWN.get(digest)
    if known is None:
        packed = PackedSchema(digest, zlib.compress(data, _LEVEL), len(data))
        with _LOCK:
            known = _KNOWN.setdefault(digest, packed)
    return known


def definition_size(characters: int) -> int:
    """Returns about what a definition takes in memory, in bytes: its schema is compressed, in the worst case little."""
    return 5_000 + characters // 2
