"""Endpoints of the process itself: its version and its metrics."""

from __future__ import annotations

import asyncio
import platform

from starlette.types import Receive, Scope, Send

from registry.emulation import emulated
from registry.http import metrics
from registry.http.documents.answers import require_get, require_route, send_document
from registry.http.forms import encode_document
from registry.http.negotiation import Representation


async def version(scope: Scope, receive: Receive, send: Send) -> None:
    """Returns the version: the build is this Python's, the API the emulated one, by which clients detect features."""
    require_route(scope, ["application/json"])
    require_get(scope, "application/json")
    version = emulated()
    document = encode_document(
        {
            "major": "1",
            "minor": str(version.minor),
            "emulationMajor": "1",
            "emulationMinor": str(version.minor),
            "minCompatibilityMajor": "1",
            "minCompatibilityMinor": str(version.minor - 1),
            "gitVersion": version.git_version,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "",
            "goVersion": "",
            "compiler": platform.python_implementation(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        },
        Representation(pretty=True),
    )
    await send_document(send, scope, 200, "application/json", document)


class MetricsEndpoint:
    """Serves the metrics. Requests that arrive while these are being made share them."""

    def __init__(self) -> None:
        self._making: asyncio.Task[bytes] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._making is None or self._making.done():
            # At most a hundred thousand lines, which take a second: in a thread, so that other requests do not wait.
            self._making = asyncio.create_task(asyncio.to_thread(metrics.exposition))
        lines = await asyncio.shield(self._making)
        await send_document(send, scope, 200, "text/plain; version=0.0.4; charset=utf-8", lines)
