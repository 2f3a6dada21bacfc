"""A webhook over real TLS whose answers a test chooses, and configurations that call it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from tests.admission.policies import ADMISSION, rule
from tests.api.client import Client
from tests.https import Endpoint

Response = dict[str, Any]


class Hook:
    """`answer` gives the response to the request of a review; `asked` are the requests, with the path first, and
    `queries` the query strings.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.url = endpoint.url
        self.ca_bundle = endpoint.ca_bundle
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.queries: list[str] = []
        self.answer: Callable[[str, dict[str, Any]], Response] = lambda path, request: {"allowed": True}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        review = orjson.loads(body)
        request = review["request"]
        self.asked.append((scope["path"], request))
        self.queries.append(scope["query_string"].decode())
        response = {"uid": request["uid"], **self.answer(scope["path"], request)}
        answer = orjson.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": answer})


def patch(*operations: dict[str, Any]) -> Response:
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(operations)).decode()}


async def configure(api: Client, hook: Hook, *names: str, kind: str = "Validating", **more: Any) -> None:
    """One configuration with a webhook for each name, at the path of its name."""
    webhooks = [
        {
            "name": f"{name}.example.com",
            "rules": [rule()],
            "sideEffects": "None",
            "timeoutSeconds": 20,
            "clientConfig": {"url": f"{hook.url}/{name}", "caBundle": hook.ca_bundle},
            "admissionReviewVersions": ["v1"],
            **more,
        }
        for name in names
    ]
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": f"c-{names[0]}"},
        "webhooks": webhooks,
    }
    (await api.post(f"{ADMISSION}/{kind.lower()}webhookconfigurations", body)).ok(201)
