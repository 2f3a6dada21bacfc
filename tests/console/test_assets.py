"""The files of the console are read and compressed once."""

from __future__ import annotations

import asyncio
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from registry.console.app import Assets


@pytest.fixture
def compressed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What has been compressed."""
    texts: list[bytes] = []
    compress = gzip.compress

    def note(data: bytes, *arguments: Any, **named: Any) -> bytes:
        texts.append(data)
        return compress(data, *arguments, **named)

    monkeypatch.setattr(gzip, "compress", note)
    return texts


async def test_many_first_requests_compress_a_file_once(tmp_path: Path, compressed: list[bytes]) -> None:
    """A thousand at once compressed it in as many threads as the process has, which kept all processors."""
    (tmp_path / "a.js").write_bytes(b"let a = 1\n" * 50_000)
    assets = Assets(tmp_path)
    found = await asyncio.gather(*(assets.find("a.js") for _ in range(100)))
    assert len(compressed) == 1
    assert found[0] is not None
    assert all(asset is found[0] for asset in found)
    assert gzip.decompress(found[0].gzipped) == compressed[0]


async def test_a_changed_file_is_read_again(tmp_path: Path, compressed: list[bytes]) -> None:
    path = tmp_path / "a.js"
    path.write_text("a")
    assets = Assets(tmp_path)
    before = await assets.find("a.js")
    path.write_text("b")
    os.utime(path, ns=(1, 1))
    after = await assets.find("a.js")
    assert (before and before.body, after and after.body) == (b"a", b"b")
    assert compressed == [b"a", b"b"]
    path.unlink()
    assert await assets.find("a.js") is None
