"""An application in this process that writes an audit log."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.api.client import Client
from tests.application import serving

EVERYTHING = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {level: RequestResponse}\n"


@contextlib.asynccontextmanager
async def auditing(url: str, folder: Path, policy: str, **more: Any) -> AsyncIterator[Client]:
    (folder / "policy.yaml").write_text(policy)
    settings = {"audit_policy_file": folder / "policy.yaml", "audit_log_path": folder / "audit.log"} | more
    async with serving(url, folder, **settings) as client:
        yield client
