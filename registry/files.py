"""Files that are read again when they change."""

from __future__ import annotations

from pathlib import Path

# Time of modification in ns, length and inode: (0, 0, 0) where there is no file.
Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp:
    """Differs whenever the file has been replaced or rewritten."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino
