"""An aggregated API server in Starlette: `crontabmetrics`, computed from the CronTabs of the registry before it.

    REGISTRY=https://127.0.0.1:6443 TOKEN_FILE=token CA_FILE=ca.crt \\
        uvicorn server:app --port 9443 --ssl-certfile server.crt --ssl-keyfile server.key \\
        --ssl-ca-certs front-proxy.crt --ssl-cert-reqs 2

The registry says who asks in X-Remote-* headers. They are true because TLS lets nobody in but the registry: it demands
a certificate of the CA in front-proxy.crt, which signs for no other. Whether the user may is asked by a
SubjectAccessReview, as every aggregated server of Kubernetes does.
"""

from __future__ import annotations

import datetime
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

GROUP, VERSION, PLURAL, KIND = "metrics.example.com", "v1", "crontabmetrics", "CronTabMetrics"
BASE = f"/apis/{GROUP}/{VERSION}"
CRONTABS = "/apis/jobs.example.com/v1"
# How long a decision of the registry counts, as with kube-apiserver's own delegation.
DECISION_SECONDS = 10

Object = dict[str, Any]
decisions: dict[tuple[str, ...], tuple[float, bool]] = {}


# --- what is asked of the registry


class Token(httpx.Auth):
    """The token in a file, which somebody renews before it expires."""

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = Path(os.environ["TOKEN_FILE"]).read_text().strip()
        request.headers["authorization"] = f"Bearer {token}"
        yield request


def connect() -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=os.environ["REGISTRY"],
        auth=Token(),
        verify=ssl.create_default_context(cafile=os.environ["CA_FILE"]),
        timeout=httpx.Timeout(10, read=None),
    )


registry = connect()


def crontabs_of(namespace: str) -> str:
    # A path is appended to that of the registry's URL, which may name a tenant.
    return f"{CRONTABS}/namespaces/{namespace}/crontabs" if namespace else f"{CRONTABS}/crontabs"


async def authorize(request: Request, verb: str) -> None:
    """Raises HTTPException unless the user may; the registry decides by its own RBAC."""
    user, groups = request.headers["x-remote-user"], request.headers.getlist("x-remote-group")
    namespace, name = request.path_params.get("namespace", ""), request.path_params.get("name", "")
    key = (user, *groups, verb, namespace, name)
    known = decisions.get(key)
    if known is None or known[0] < time.monotonic():
        attributes = {
            "group": GROUP, "version": VERSION, "resource": PLURAL, "verb": verb, "namespace": namespace, "name": name,
        }  # fmt: skip
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
        }
        answer = await registry.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", json=review)
        if len(decisions) > 10_000:
            decisions.clear()
        known = decisions[key] = (time.monotonic() + DECISION_SECONDS, answer.json()["status"]["allowed"])
    if not known[1]:
        raise HTTPException(403, f"{PLURAL}.{GROUP} is forbidden: {user} cannot {verb} it")


# --- metrics


def metrics_of(crontab: Object) -> Object:
    metadata = crontab["metadata"]
    created = datetime.datetime.fromisoformat(metadata["creationTimestamp"])
    age = datetime.datetime.now(datetime.UTC) - created
    kept = ("name", "namespace", "labels", "uid", "resourceVersion", "creationTimestamp")
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {name: metadata[name] for name in kept if name in metadata},
        "ageSeconds": int(age.total_seconds()),
        "bytes": len(json.dumps(crontab)),
        "replicas": crontab["spec"].get("replicas", 0),
    }


def status(code: int, message: str, reason: str = "") -> JSONResponse:
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return JSONResponse({**body, "reason": reason, "code": code}, code)


async def get(request: Request) -> Response:
    await authorize(request, "get")
    name, namespace = request.path_params["name"], request.path_params["namespace"]
    answer = await registry.get(f"{crontabs_of(namespace)}/{name}")
    if answer.status_code == 404:
        return status(404, f'{PLURAL}.{GROUP} "{name}" not found', "NotFound")
    found = metrics_of(answer.json())
    return table([found], request) if wants_table(request) else JSONResponse(found)


async def list_or_watch(request: Request) -> Response:
    watch = request.query_params.get("watch") in ("1", "true")
    await authorize(request, "watch" if watch else "list")
    namespace = request.path_params.get("namespace", "")
    passed_on = {
        name: request.query_params[name]
        for name in ("labelSelector", "fieldSelector", "resourceVersion", "timeoutSeconds")
        if name in request.query_params
    }
    if watch:
        return StreamingResponse(events(namespace, passed_on, wants_table(request)), media_type="application/json")
    answer = (await registry.get(crontabs_of(namespace), params=passed_on)).json()
    found = [metrics_of(item) for item in answer["items"]]
    metadata = {"resourceVersion": answer["metadata"]["resourceVersion"]}
    if wants_table(request):
        return table(found, request, metadata)
    kind = {"apiVersion": f"{GROUP}/{VERSION}", "kind": f"{KIND}List"}
    return JSONResponse({**kind, "metadata": metadata, "items": found})


async def events(namespace: str, query: dict[str, str], as_table: bool) -> AsyncIterator[bytes]:
    """A watch of the CronTabs, each event with the metrics of its object."""
    watched = {**query, "watch": "true"}
    async with registry.stream("GET", crontabs_of(namespace), params=watched) as answer:
        async for line in answer.aiter_lines():
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED", "DELETED"):
                found = metrics_of(event["object"])
                event["object"] = rows([found]) if as_table else found
            yield json.dumps(event).encode() + b"\n"


# --- tables, which kubectl shows


def wants_table(request: Request) -> bool:
    return "as=Table" in request.headers.get("accept", "").split(",")[0]


def table(found: list[Object], request: Request, metadata: Object | None = None) -> JSONResponse:
    return JSONResponse({**rows(found), "metadata": metadata or {}})


def rows(found: list[Object]) -> Object:
    columns = [("Name", "string"), ("Age-Seconds", "integer"), ("Bytes", "integer"), ("Replicas", "integer")]
    return {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "Table",
        "columnDefinitions": [
            {"name": name, "type": kind, "format": "", "description": "", "priority": 0} for name, kind in columns
        ],
        "rows": [
            {
                "cells": [item["metadata"]["name"], item["ageSeconds"], item["bytes"], item["replicas"]],
                "object": {
                    "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": item["metadata"],
                },
            }
            for item in found
        ],
    }  # fmt: skip


# --- what the registry and kubectl ask a server for before anything else

RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {
            "name": PLURAL, "singularName": "crontabmetric", "namespaced": True, "kind": KIND, "shortNames": ["ctm"],
            "verbs": ["get", "list", "watch"],
        }
    ],
}  # fmt: skip

_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_KIND_NAME = f"com.example.metrics.{VERSION}.{KIND}"
OPENAPI: Object = {
    "openapi": "3.0.0",
    "info": {"title": "crontabmetrics", "version": VERSION},
    "paths": {
        f"{BASE}/namespaces/{{namespace}}/{PLURAL}/{{name}}": {
            "get": {
                "operationId": "readCronTabMetrics",
                "x-kubernetes-action": "get",
                "x-kubernetes-group-version-kind": {"group": GROUP, "version": VERSION, "kind": KIND},
                "responses": {"200": {"description": "OK"}},
            }
        }
    },
    "components": {
        "schemas": {
            _META: {"description": "The metadata of the CronTab.", "type": "object"},
            _KIND_NAME: {
                "description": "CronTabMetrics says how old and how large a CronTab is.",
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"allOf": [{"$ref": f"#/components/schemas/{_META}"}], "default": {}},
                    "ageSeconds": {"description": "Seconds since the CronTab was created.", "type": "integer"},
                    "bytes": {"description": "The length of the CronTab in JSON.", "type": "integer"},
                    "replicas": {"description": "The replicas that it asks for.", "type": "integer"},
                },
                "x-kubernetes-group-version-kind": [{"group": GROUP, "version": VERSION, "kind": KIND}],
            },
        }
    },
}


async def resources(request: Request) -> Response:
    return JSONResponse(RESOURCES)


async def openapi_index(request: Request) -> Response:
    path = BASE.strip("/")
    return JSONResponse({"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={VERSION}"}}})


async def openapi(request: Request) -> Response:
    return JSONResponse(OPENAPI)


# The reasons and, for what Starlette refuses, the messages of Kubernetes: kubectl prints them.
REASONS = {403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed"}
MESSAGES = {
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
}


async def refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = error.status_code
    return status(code, MESSAGES.get(code, error.detail), REASONS.get(code, ""))


app = Starlette(
    routes=[
        Route(BASE, resources),
        Route(f"{BASE}/{PLURAL}", list_or_watch),
        Route(f"{BASE}/namespaces/{{namespace}}/{PLURAL}", list_or_watch),
        Route(f"{BASE}/namespaces/{{namespace}}/{PLURAL}/{{name}}", get),
        Route("/openapi/v3", openapi_index),
        Route(f"/openapi/v3{BASE}", openapi),
    ],
    exception_handlers={HTTPException: refused},
)
