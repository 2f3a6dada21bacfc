"""A conversion webhook in Starlette: endpoints with a `hostPort` at v1beta1 have `host` and `port` at v1.

    uvicorn webhook:app --port 8443 --ssl-certfile server.crt --ssl-keyfile server.key

Objects come many in one review; the answer has them all, in the same order, or says that it failed. Nothing but the
fields that differ is touched: of the metadata only labels and annotations would be taken anyway.
"""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

Object = dict[str, Any]


async def convert(request: Request) -> JSONResponse:
    review = await request.json()
    asked = review["request"]
    response: Object = {"uid": asked["uid"]}
    try:
        response["convertedObjects"] = [converted(obj, asked["desiredAPIVersion"]) for obj in asked["objects"]]
        response["result"] = {"status": "Success"}
    except ValueError as problem:
        response["result"] = {"status": "Failed", "message": str(problem)}
    return JSONResponse({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})


def converted(obj: Object, api_version: str) -> Object:
    """The object at another version; a ValueError where it cannot be had."""
    spec = dict(obj.get("spec") or {})
    match api_version.rpartition("/")[2]:
        case "v1" if "hostPort" in spec:
            host, colon, port = spec.pop("hostPort").rpartition(":")
            if not colon or not port.isdigit():
                raise ValueError(f"{obj['metadata']['name']}: hostPort is not HOST:PORT")
            spec |= {"host": host, "port": int(port)}
        case "v1beta1" if "host" in spec:
            spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port', 443)}"
    return {**obj, "apiVersion": api_version, "spec": spec}


app = Starlette(routes=[Route("/convert", convert, methods=["POST"])])
