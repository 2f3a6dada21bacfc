"""Schemas of definitions as they lie in memory: packed, each once in a process, compiled for as long as they are used.

A process knows all definitions of the tenants that it serves, thousands of them, and works with few. So of a schema
only its compressed JSON is kept, shared by all versions and tenants that have an equal one; decoded and compiled it is
on use. What has been compiled is bounded in number: the eldest are given up, and compiled again if they are needed.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections import deque
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from registry.codec.json_encode import encode_json
from registry.codec.stored import decode_stored
from registry.schema.compiled import MAX_COMPILED, CompiledSchema, compile_schema

Json = Mapping[str, Any]

# The fastest level packs schemas to about a seventh; the best one wins a fifth more and takes five times as long.
_LEVEL = 1


class PackedSchema:
    """A schema that is compiled when it is called. Made by `pack`, which gives one for all equal schemas."""

    __slots__ = ("__weakref__", "_compiled", "_packed", "digest")

    def __init__(self, digest: bytes, packed: bytes) -> None:
        self.digest = digest
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
        """The schema itself, decoded again each time."""
        return decode_stored(zlib.decompress(self._packed).decode())

    @property
    def size(self) -> int:
        """Bytes that its packed form takes."""
        return len(self._packed)


class _InUse:
    """Those that are compiled, at most so many. First in, first out: a wrong choice costs little."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._schemas: deque[PackedSchema] = deque()
        self._lock = threading.Lock()

    def add(self, schema: PackedSchema, compiled: CompiledSchema) -> None:
        with self._lock:
            if schema._compiled is None:
                self._schemas.append(schema)
            schema._compiled = compiled
            while len(self._schemas) > self._size:
                self._schemas.popleft()._compiled = None


_IN_USE = _InUse(MAX_COMPILED)
_KNOWN: WeakValueDictionary[bytes, PackedSchema] = WeakValueDictionary()
# Definitions are read in threads too.
_LOCK = threading.Lock()


def pack(schema: Json) -> PackedSchema:
    """The packed form of a schema; the same object for as long as any equal schema is kept."""
    data = encode_json(schema)
    digest = hashlib.blake2b(data, digest_size=16).digest()
    with _LOCK:
        known = _KNOWN.get(digest)
    if known is None:
        made = PackedSchema(digest, zlib.compress(data, _LEVEL))
        with _LOCK:
            known = _KNOWN.setdefault(digest, made)
    return known
