"""Many of something: watches, webhooks, quotas, namespaces, requests, definitions."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from itertools import count, cycle
from random import Random
from typing import Any

from benchmarks.attacks.attacker import (
    ADMISSION,
    ANYTHING,
    DEFINITIONS,
    MAPS,
    TENANT,
    Attacker,
    a_definition,
    an_object,
)
from benchmarks.client import JSON, tls

APPLY = "application/apply-patch+yaml"


async def many_webhooks(attacker: Attacker) -> None:
    """1,000 webhooks, whose conditions have to be evaluated for each write and let none through."""
    path = await attacker.define("conditioned", ANYTHING)
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["conditioned"]}
    for start in range(10):
        hooks = [
            {
                "name": f"h{start}-{i}.example.com",
                "rules": [rule],
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "matchConditions": [{"name": "never", "expression": f"object.spec.list.exists(x, x == {5000 + i})"}],
            }
            for i in range(100)
        ]
        made = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"many{start}"},
            "webhooks": hooks,
        }
        await attacker.ask("POST", f"{ADMISSION}/validatingwebhookconfigurations", made)

    async def work(one: Attacker) -> None:
        await one.ask("POST", f"{path}?dryRun=All", an_object(path, "", {"list": [*range(1000)]}))

    await attacker.parallel(4, work)


async def quotas(attacker: Attacker) -> None:
    """300 quotas of one namespace, each counting what is made and deleted."""
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {}}
    for i in range(300):
        body["metadata"]["name"] = f"q{i}"
        body["spec"] = {"hard": {"count/configmaps": str(100_000 + i), "count/secrets": "1000"}}
        await attacker.ask("POST", f"{TENANT}/api/v1/namespaces/default/resourcequotas", body)
    numbers = count()

    async def work(one: Attacker) -> None:
        name = f"m{next(numbers)}"
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        await one.ask("POST", MAPS, made)
        await one.ask("DELETE", f"{MAPS}/{name}")

    await attacker.parallel(4, work)


async def escapes(attacker: Attacker) -> None:
    """Queries of 20,000 escapes on a hundred connections, without a token."""
    head = b"GET /version?a=" + b"%41" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"

    async def work(one: Attacker) -> None:
        reader, writer = await one.open()
        try:
            for _ in range(20):
                writer.write(head)
                await writer.drain()
                answer = await reader.readuntil(b"}")
                one.answers[answer[9:12].decode()] += 1
        except asyncio.IncompleteReadError:
            one.answers["closed"] += 1
        finally:
            writer.transport.abort()

    await attacker.parallel(100, work)


async def watches(attacker: Attacker) -> None:
    """Watches that are opened and dropped, each beginning at the first revision of a long history."""
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "watched"}, "data": {"text": "x" * 20_000}}
    await attacker.ask("POST", MAPS, made)
    for i in range(500):
        body = {"metadata": {"annotations": {"n": str(i)}}}
        await attacker.ask("PATCH", f"{MAPS}/watched", body, kind="application/merge-patch+json")

    async def work(one: Attacker) -> None:
        reader, writer = await one.open()
        try:
            writer.write(one.head("GET", f"{MAPS}?watch=true&resourceVersion=1&allowWatchBookmarks=true", 0))
            one.answers[(await reader.readline())[9:12].decode() or "closed"] += 1
        except OSError:
            one.answers["closed"] += 1
        finally:
            writer.transport.abort()

    await attacker.parallel(50, work)


async def timeouts(attacker: Attacker) -> None:
    """Lists, writes and deletions that are cancelled after a few milliseconds, at their own wish."""
    path = await attacker.define("timed", ANYTHING)
    for i in range(50):
        await attacker.ask("POST", path, an_object(path, f"o{i}", {"text": "x" * 20_000}))
    large = json.dumps(an_object(path, "", {"lists": [[]] * 20_000})).encode()
    requests = cycle(
        [("GET", f"{path}?limit=200", b""), ("POST", f"{path}?", large), ("DELETE", f"{path}?dryRun=All", b"")]
    )
    limits = cycle([1, 2, 4, 8, 16])

    async def work(one: Attacker) -> None:
        method, of, body = next(requests)
        await one.ask(method, f"{of}&timeout={next(limits)}ms", body)

    await attacker.parallel(20, work)


async def discovery(attacker: Attacker) -> None:
    """All documents of 100 definitions, of which one changes all the time."""
    wide = {"type": "object", "properties": {f"f{i}": {"type": "string", "description": "x" * 80} for i in range(200)}}
    for i in range(100):
        await attacker.ask("POST", DEFINITIONS, a_definition(f"wide{i}", wide))
    documents = cycle(["/openapi/v2", "/openapi/v3", "/apis", "/apis/wide1.example.com/v1", "/openapi/v3/apis/apps/v1"])
    numbers = count()

    async def work(one: Attacker) -> None:
        change = {"spec": {"names": {"categories": [f"c{next(numbers)}"]}}}
        name = "wide1.wide1.example.com"
        await one.ask("PATCH", f"{DEFINITIONS}/{name}", change, kind="application/merge-patch+json")
        await one.ask("GET", f"{TENANT}{next(documents)}")

    await attacker.parallel(4, work)


async def definitions(attacker: Attacker) -> None:
    """Definitions of a megabyte, with rules by the hundred, tried and not kept."""
    properties = {
        f"f{i}": {
            "type": "array",
            "maxItems": 10,
            "items": {"type": "string", "maxLength": 10, "pattern": f"^[a-z]{{1,{i % 50 + 1}}}$"},
            "x-kubernetes-validations": [{"rule": f"self.all(x, x != 'v{i}')"}],
        }
        for i in range(2_000)
    }
    tree: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        tree = {"type": "object", "properties": {"a": tree, "b": {"type": "array", "items": {"type": "string"}}}}
    kinds = cycle([a_definition("ruled", {"type": "object", "properties": properties}), a_definition("deeper", tree)])

    async def work(one: Attacker) -> None:
        await one.ask("POST", f"{DEFINITIONS}?dryRun=All", next(kinds))

    await attacker.parallel(4, work)


async def applies(attacker: Attacker) -> None:
    """Applies of 8,000 list elements, each by another manager."""
    item = {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}}
    listed = {"type": "array", "items": {**item, "required": ["name"]}}
    listed |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    path = await attacker.define("applied", {"type": "object", "properties": {"items": listed}})
    numbers = count()

    async def work(one: Attacker) -> None:
        i = next(numbers)
        body = an_object(path, "a", {"items": [{"name": f"n{j}", "value": i} for j in range(8_000)]})
        await one.ask("PATCH", f"{path}/a?fieldManager=m{i}&force=true", json.dumps(body).encode(), kind=APPLY)

    await attacker.parallel(4, work)


async def conflicts(attacker: Attacker) -> None:
    """Applies of 60,000 list elements that another manager owns, and errors about all of them."""
    item = {"type": "object", "properties": {"name": {"type": "string"}, "value": {"type": "integer"}}}
    listed = {"type": "array", "items": {**item, "required": ["name"]}}
    listed |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    path = await attacker.define("contested", {"type": "object", "properties": {"items": listed}})
    places = [*range(60_000)]
    Random(1).shuffle(places)
    numbers = count()

    async def work(one: Attacker) -> None:
        i = next(numbers)
        body = an_object(path, "a", {"items": [{"name": f"n{j}", "value": i} for j in places]})
        await one.ask("PATCH", f"{path}/a?fieldManager=m{i}", json.dumps(body).encode(), kind=APPLY)

    await work(attacker)
    await attacker.parallel(4, work)


async def namespaces(attacker: Attacker) -> None:
    """Namespaces that are made, filled and deleted."""
    numbers = count()
    path = f"{TENANT}/api/v1/namespaces"

    async def work(one: Attacker) -> None:
        name = f"ns{next(numbers)}"
        await one.ask("POST", path, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for i in range(5):
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{i}"}}
            await one.ask("POST", f"{path}/{name}/configmaps", made)
        await one.ask("DELETE", f"{path}/{name}")
        await one.ask("DELETE", f"{path}/{name}/configmaps", accept=JSON)

    await attacker.parallel(4, work)


async def lists(attacker: Attacker) -> None:
    """Long lists, three hundred at a time."""
    for i in range(600):
        await attacker.ask("POST", MAPS, {"metadata": {"name": f"listed{i}"}, "data": {"a": "x" * 1500}})

    async def work(one: Attacker) -> None:
        await one.ask("GET", MAPS)

    await attacker.parallel(300, work)


async def crowds(attacker: Attacker) -> None:
    """A thousand connections that get an object."""

    async def work(one: Attacker) -> None:
        await one.ask("GET", f"{MAPS}/nothing")

    await attacker.parallel(1_000, work)


async def rewrites(attacker: Attacker) -> None:
    """A definition whose schema changes without end, while fifty clients watch its objects and others write them."""
    path = await attacker.define("rewritten", ANYTHING)
    numbers = count()
    fields = {f"f{i}": {"type": "string"} for i in range(200)}

    async def rewrite(one: Attacker) -> None:
        change = {"type": "object", "properties": {**fields, f"n{next(numbers) % 1000}": {"type": "string"}}}
        version = {"name": "v1", "served": True, "storage": True}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": change}}}
        body = json.dumps({"spec": {"versions": [{**version, "schema": schema}]}}).encode()
        name = f"{DEFINITIONS}/rewritten.rewritten.example.com"
        await one.ask("PATCH", name, body, kind="application/merge-patch+json")

    async def work(one: Attacker) -> None:
        match next(numbers) % 4:
            case 0:
                await rewrite(one)
            case 1:
                await one.ask("POST", path, an_object(path, "", {"f1": "a"}, generateName="x-"))
            case _:
                await one.ask("GET", f"{path}?watch=true&timeoutSeconds=1&resourceVersion=0")

    await attacker.parallel(50, work)


async def strangers(attacker: Attacker) -> None:
    """Requests in another tenant's name without a credential, and with tokens that nobody has issued."""
    path = "/clusters/neighbour/api/v1/namespaces/default/configmaps/a"
    numbers = count()

    async def work(one: Attacker) -> None:
        i = next(numbers)
        token = f"registry.neighbour.{base64.b32encode(i.to_bytes(10)).decode().lower()}.{'A' * 43}" if i % 2 else ""
        one.target = type(one.target)(one.target.url, token)
        await one.ask("GET", path)

    await attacker.parallel(500, work)


async def records(attacker: Attacker) -> None:
    """Bodies without a token, each byte of which is a TLS record of its own."""
    host, port = attacker.target.address

    async def work(one: Attacker) -> None:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            session = tls().wrap_bio(incoming, outgoing)
            while True:
                try:
                    session.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    writer.write(outgoing.read())
                    received = await reader.read(65536)
                    if not received:
                        raise ConnectionResetError from None
                    incoming.write(received)
            session.write(b"POST /version HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n")
            for _ in range(30):
                for _ in range(4000):
                    session.write(b"x")
                writer.write(outgoing.read())
                await writer.drain()
            one.answers["sent"] += 1
            writer.transport.abort()
        except OSError:
            one.answers["closed"] += 1

    await attacker.parallel(64, work)
