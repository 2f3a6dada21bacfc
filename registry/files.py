"""Files that are reloaded when they change, and files that only their owner can read."""

from __future__ import annotations

import os
from pathlib import Path

# Modification time in ns, size and inode: (0, 0, 0) if there is no file.
Stamp = tuple[int, int, int]


def stamp_of(path: Path) -> Stamp:
    """Returns a stamp that changes whenever the file is replaced or rewritten."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return status.st_mtime_ns, status.st_size, status.st_ino


def write_private(path: Path, content: bytes) -> None:
    """Writes a file that only the owner can read, atomically."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
