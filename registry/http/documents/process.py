"""What the process says of itself: its version, its metrics, and the paths that it serves."""

from __future__ import annotations

import platform
from typing import Final

from starlette.types import Receive, Scope, Send

from registry.api.errors import method_not_allowed
from registry.http import metrics
from registry.http.documents.answers import send_document, send_json

# The version of Kubernetes whose API this is; clients decide by it what they can use.
MAJOR, MINOR, GIT_VERSION = "1", "36", "v1.36.2"

_PATHS: Final = [
    "/.well-known/openid-configuration",
    "/api",
    "/api/v1",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/openid/v1/jwks",
    "/readyz",
    "/version",
]


async def index(scope: Scope, receive: Receive, send: Send) -> None:
    await send_json(send, scope, {"paths": _PATHS})


async def version(scope: Scope, receive: Receive, send: Send) -> None:
    """The build is this Python; the API is Kubernetes'."""
    if scope["method"] not in ("GET", "HEAD"):
        raise method_not_allowed()
    await send_json(
        send,
        scope,
        {
            "major": MAJOR,
            "minor": MINOR,
            "emulationMajor": MAJOR,
            "emulationMinor": MINOR,
            "minCompatibilityMajor": MAJOR,
            "minCompatibilityMinor": "35",
            "gitVersion": GIT_VERSION,
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "",
            "goVersion": "",
            "compiler": platform.python_implementation(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        },
    )


async def exposition(scope: Scope, receive: Receive, send: Send) -> None:
    await send_document(send, scope, 200, "text/plain; version=0.0.4; charset=utf-8", metrics.exposition())
