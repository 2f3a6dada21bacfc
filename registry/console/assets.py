"""The files that browsers load: read, compressed and hashed when they are first requested, then kept.

A path of a request names a file only by plain letters, so it cannot leave the folder.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).with_name("static")
INDEX: Final = "index.html"
MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image" + "/svg+xml",  # in one piece it would look like a file of image/
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}
# Compressed once for all requests, so the best level is worth its time.
_GZIP_LEVEL: Final = 9
_NAME: Final = re.compile(r"(?:[A-Za-z]+/)*[A-Za-z]+\.(?:html|css|js|svg|txt|json)")


@dataclass(frozen=True, slots=True)
class Asset:
    """`etag` with its quotes; the same for both encodings, which have the same meaning."""

    media_type: str
    etag: str
    body: bytes
    gzipped: bytes


class Assets:
    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._loaded: dict[str, tuple[tuple[int, int], Asset]] = {}
        # A thousand first requests for a file would otherwise compress it a thousand times, on all processors.
        self._loading = asyncio.Lock()

    async def find(self, name: str) -> Asset | None:
        """The file of a path below /console/ ('pages/objects.js'), or None. A changed file is read again."""
        if not _NAME.fullmatch(name):
            return None
        path = self._folder / name
        try:
            stat = path.stat()
        except (OSError, ValueError):
            return None
        stamp = (stat.st_mtime_ns, stat.st_size)
        if (asset := self._current(name, stamp)) is not None:
            return asset
        async with self._loading:
            asset = self._current(name, stamp)
            if asset is None:
                asset = await asyncio.to_thread(_read, path)
                self._loaded[name] = (stamp, asset)
        return asset

    def _current(self, name: str, stamp: tuple[int, int]) -> Asset | None:
        known = self._loaded.get(name)
        return known[1] if known is not None and known[0] == stamp else None


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    etag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Asset(MEDIA_TYPES[path.suffix], etag, body, gzip.compress(body, _GZIP_LEVEL, mtime=0))
