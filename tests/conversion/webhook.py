"""The webhook of examples/conversion-webhook, served and counted."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import yaml
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.https import Endpoint

EXAMPLE = Path(__file__).parents[2] / "examples/conversion-webhook"


class Webhook:
    """`calls` counts the requests; `application` may be replaced while it runs."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.application: ASGIApp = example()
        self.url = f"{endpoint.url}/convert"
        self.ca_bundle = endpoint.ca_bundle
        self.calls = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.calls += 1
        await self.application(scope, receive, send)

    def definition(self) -> dict[str, Any]:
        """The example's definition, with this address and CA."""
        made: dict[str, Any] = yaml.safe_load((EXAMPLE / "definition.yaml").read_text())
        made["spec"]["conversion"]["webhook"]["clientConfig"] = {"url": self.url, "caBundle": self.ca_bundle}
        return made


def example() -> Starlette:
    """The application of examples/conversion-webhook."""
    spec = importlib.util.spec_from_file_location("conversion_webhook", EXAMPLE / "webhook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    app: Starlette = module.app
    return app
