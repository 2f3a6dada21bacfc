"""Files that are read again when they change, and files that only their owner reads."""

from __future__ import annotations

import os
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


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only the owner can read, whole or not at all."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
