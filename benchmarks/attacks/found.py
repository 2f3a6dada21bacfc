"""The attacks that the review of the first release found."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import gzip
import ipaddress
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from itertools import count, cycle
from pathlib import Path
from random import Random
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from benchmarks.attacks.attacker import (
    ADMISSION,
    ANYTHING,
    DEFINITIONS,
    MAPS,
    MERGE_PATCH,
    TABLE,
    TENANT,
    Attacker,
    an_object,
)
from benchmarks.client import JSON

# ---- without a token


async def _pour(one: Attacker, first: bytes, piece: bytes) -> None:
    """Sends a chunked body, a piece again and again until the server has enough of it."""
    reader, writer = await one.open()
    ended = asyncio.create_task(_read(reader))
    try:
        writer.write(b"POST /version HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + first)
        for _ in range(400):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)  # for the end of the connection, which drain does not wait for
            if ended.done():
                one.answers["closed"] += 1
                break
    except OSError:
        one.answers["closed"] += 1
    finally:
        ended.cancel()
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> None:
    """Returns when the server has closed the connection."""
    with contextlib.suppress(OSError):
        await reader.read()


async def trailers(attacker: Attacker) -> None:
    """Chunked trailers without end."""

    async def work(one: Attacker) -> None:
        await _pour(one, b"0\r\n", b"a:\r\n" * 25_000)

    await attacker.parallel(4, work)


async def chunks(attacker: Attacker) -> None:
    """Bodies of chunks of one byte, without a token."""

    async def work(one: Attacker) -> None:
        await _pour(one, b"", b"1\r\nx\r\n" * 10_000)

    await attacker.parallel(4, work)


# ---- what is evaluated


async def columns(attacker: Attacker) -> None:
    """Printer columns with several `..` on deep objects, as a Table."""
    column = {"name": "A", "type": "string", "jsonPath": ".spec..a..a..a.zz"}
    path = await attacker.define("columns", ANYTHING, additionalPrinterColumns=[column])
    spec: Any = {"a": {}}
    for _ in range(400):
        spec = {"a": spec}
    for i in range(20):
        await attacker.ask("POST", path, an_object(path, f"deep-{i}", spec))

    async def work(one: Attacker) -> None:
        await one.ask("GET", path, accept=TABLE)

    await attacker.parallel(4, work)


async def re2(attacker: Attacker) -> None:
    """Patterns of many states on long texts."""
    text = {"type": "string", "pattern": "[ab]*a[ab]{900}c"}
    path = await attacker.define("patterns", {"type": "object", "properties": {"text": text}})
    lengths = iter([60_000, 2_900_000] * 1_000_000)

    async def work(one: Attacker) -> None:
        await one.ask("POST", path, an_object(path, "", {"text": "ab" * (next(lengths) // 2)}))

    await attacker.parallel(4, work)


async def find_all(attacker: Attacker) -> None:
    """CEL's findAll over long texts."""
    path = await attacker.define("findings", ANYTHING)
    await attacker.policy("findings", "object.spec.text.findAll('[a-z]').size() != 1", "findings")

    async def work(one: Attacker) -> None:
        await one.ask("POST", path, an_object(path, "", {"text": "a" * 40_000}))

    await attacker.parallel(4, work)


async def policies(attacker: Attacker) -> None:
    """Nested comprehensions of policies over untyped lists."""
    path = await attacker.define("numbers", ANYTHING)
    expression = "object.spec.list.all(x, object.spec.list.exists(y, y == x + 1 || y == 3999))"
    await attacker.policy("numbers", expression, "numbers")

    async def work(one: Attacker) -> None:
        await one.ask("POST", path, an_object(path, "", {"list": [*range(4000)]}))

    await attacker.parallel(4, work)


async def owners(attacker: Attacker) -> None:
    """2,000 owner references, and 800 of which each is the controller."""
    path = await attacker.define("owned", ANYTHING)

    def references(count: int, *, controller: bool) -> list[dict[str, Any]]:
        return [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": f"n{i}", "uid": f"u{i}", "controller": controller}
            for i in range(count)
        ]

    kinds = iter([references(2000, controller=False), references(800, controller=True)] * 1_000_000)

    async def work(one: Attacker) -> None:
        await one.ask("POST", path, an_object(path, "", {}, ownerReferences=next(kinds)))

    await attacker.parallel(4, work)


async def any_of(attacker: Attacker) -> None:
    """500 alternatives for each of 20,000 items."""
    branches = [{"required": [f"a{i}"]} for i in range(500)]
    items = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "anyOf": branches}
    path = await attacker.define("branches", {"type": "object", "properties": {"l": {"type": "array", "items": items}}})

    async def work(one: Attacker) -> None:
        await one.ask("POST", path, an_object(path, "", {"l": [{}] * 20_000}))

    await attacker.parallel(4, work)


async def json_patch(attacker: Attacker) -> None:
    """3,000 inserts into a long list."""
    path = await attacker.define("patched", ANYTHING)
    await attacker.ask("POST", path, an_object(path, "long", {"l": [0] * 500_000}))
    patch = [{"op": "add", "path": "/spec/l/0", "value": 1}] * 3000

    async def work(one: Attacker) -> None:
        await one.ask("PATCH", f"{path}/long", patch, kind="application/json-patch+json")

    await attacker.parallel(4, work)


async def containers(attacker: Attacker) -> None:
    """A million lists in a body, which take C code some tenths of a second and a hundred megabytes."""
    path = await attacker.define("contained", ANYTHING)
    texts = [b"[]," * 900_000 + b"[]", b"[[[[]]]]," * 300_000 + b"[]", b"{}," * 900_000 + b"{}"]
    frame = json.dumps(an_object(path, "", 0)).encode()
    bodies = cycle([frame.replace(b'"spec": 0', b'"spec": {"l": [' + text + b"]}") for text in texts])

    async def work(one: Attacker) -> None:
        await one.ask("POST", f"{path}?dryRun=All", next(bodies))

    await attacker.parallel(4, work)


async def keys(attacker: Attacker) -> None:
    """Objects of as many keys as a body may have, which are made, patched and read; and bodies of more."""
    path = await attacker.define("keyed", ANYTHING)
    names = [f"k{i}" for i in range(149_000)]
    Random(1).shuffle(names)
    many = dict.fromkeys(names, 0)
    await attacker.ask("POST", path, an_object(path, "kept", many))
    more = an_object(path, "", many | dict.fromkeys([f"m{i}" for i in range(200_000)], 0))
    numbers = count()

    async def work(one: Attacker) -> None:
        match (n := next(numbers)) % 4:
            case 0:
                await one.ask("POST", f"{path}?dryRun=All", an_object(path, "", many))
            case 1:
                await one.ask("PATCH", f"{path}/kept", {"spec": {"k1": n}}, kind=MERGE_PATCH)
            case 2:
                await one.ask("GET", path)
            case _:
                await one.ask("POST", path, more)

    await attacker.parallel(4, work)


# ---- what is large


async def pages(attacker: Attacker) -> None:
    """Large objects of one letter: lists that are read, lists and watches that are not."""
    spec = {"type": "object", "properties": {"text": {"type": "string"}}}
    path = await attacker.define("texts", spec)
    for i in range(30):
        await attacker.ask("POST", path, an_object(path, f"t{i}", {"text": "a" * 2_900_000}))
    opened = []
    for i in range(18):
        reader, writer = await attacker.open()
        writer.write(attacker.head("GET", f"{path}?watch=true" if i % 3 == 0 else path, 0))
        await reader.readuntil(b"\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        opened.append((reader, writer))
    numbers = iter(range(10**9))

    async def work(one: Attacker) -> None:
        i = next(numbers)
        change = {"metadata": {"annotations": {"n": str(i)}}}
        await one.ask("PATCH", f"{path}/t{i % 30}", change, kind="application/merge-patch+json")
        if i % 10 == 0:
            await one.ask("GET", f"{path}?limit=500")

    await attacker.parallel(3, work)


async def yaml(attacker: Attacker) -> None:
    """Deep objects as YAML and indented, which is a hundred times as long."""
    path = await attacker.define("deep", ANYTHING)
    deep = json.dumps(an_object(path, "deep", 0)).replace('"spec": 0', f'"spec": {"".join(_nested(9_000))}').encode()
    await attacker.ask("POST", path, deep)
    forms = iter(["?pretty=true", ""] * 1_000_000)

    async def work(one: Attacker) -> None:
        form = next(forms)
        await one.ask("GET", f"{path}/deep{form}", accept=JSON if form else "application/yaml")
        await one.ask("POST", f"{path}?dryRun=All", b"[" * 59_000, kind="application/yaml")

    await attacker.parallel(4, work)


def _nested(levels: int) -> list[str]:
    return ['{"a":'] * levels + ["{}"] + ["}"] * levels


async def uploads(attacker: Attacker) -> None:
    """200 bodies that stop one byte short."""
    body = b"a" * 2_900_000

    async def work(one: Attacker) -> None:
        reader, writer = await one.open()
        try:
            writer.write(one.head("POST", MAPS, len(body) + 1))
            for start in range(0, len(body), 65536):  # so that the other connections go on
                writer.write(body[start : start + 65536])
                await writer.drain()
            async with asyncio.timeout(20):
                found = await reader.readline()
            one.answers[found[9:12].decode() or "closed"] += 1
        except TimeoutError:
            one.answers["waits"] += 1
        except OSError:
            one.answers["closed"] += 1
        finally:
            writer.close()

    await attacker.parallel(200, work)


async def accept(attacker: Attacker) -> None:
    """An Accept of 120 kB."""
    long = ",".join(["a/b;q=0.1;c=d"] * 9_000)[:120_000]

    async def work(one: Attacker) -> None:
        await one.ask("GET", MAPS, accept=long)

    await attacker.parallel(8, work)


async def metrics(attacker: Attacker) -> None:
    """Definitions that are made and deleted: once each had its lines in /metrics for ever."""
    numbers = iter(range(10**9))

    async def work(one: Attacker) -> None:
        plural = f"m{next(numbers)}"
        path = await one.define(plural, ANYTHING)
        await one.ask("POST", path, an_object(path, "a", {}))
        await one.ask("DELETE", f"{DEFINITIONS}/{plural}.{plural}.example.com")
        await one.ask("GET", f"{TENANT}/metrics")

    await attacker.parallel(2, work)


async def webhooks(attacker: Attacker) -> None:
    """Answers of 66 MB of small values, also compressed."""
    plain = b"[" + b"[]," * 22_000_000 + b"[]]"
    packed = gzip.compress(plain, 1)
    heads = iter([(b"", plain), (b"content-encoding: gzip\r\n", packed)] * 1_000_000)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
            more, body = next(heads)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + more)
            writer.write(b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
            await writer.drain()
        writer.close()

    async with tls_server(answer) as (port, authority):
        path = await attacker.define("hooked", ANYTHING)
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["hooked"]}
        hook = {
            "name": "hook.example.com",
            "rules": [rule],
            "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": base64.b64encode(authority).decode()},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }
        kind = "ValidatingWebhookConfiguration"
        made = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "hook"},
            "webhooks": [hook],
        }
        await attacker.ask("POST", f"{ADMISSION}/validatingwebhookconfigurations", made)

        async def work(one: Attacker) -> None:
            await one.ask("POST", path, an_object(path, "", {}))

        await attacker.parallel(4, work)


async def hanging_webhooks(attacker: Attacker) -> None:
    """Webhooks that never answer, or with interim answers without end, while 200 clients delete a large object."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            while b"/interim" in head and not writer.is_closing():
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
                await writer.drain()
                await asyncio.sleep(0)
            await reader.read()
        writer.close()

    async with tls_server(answer) as (port, authority):
        path = await attacker.define("hung", ANYTHING)
        await attacker.ask("POST", path, an_object(path, "large", {"list": [{"k": i} for i in range(150_000)]}))
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["hung"]}
        webhooks = [
            {
                "name": f"{name}.example.com",
                "rules": [rule],
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}/{name}",
                    "caBundle": base64.b64encode(authority).decode(),
                },
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 30,
                "failurePolicy": "Ignore",
            }
            for name in ("interim", "never")
        ]
        made = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "hung"},
            "webhooks": webhooks,
        }
        await attacker.ask("POST", f"{ADMISSION}/mutatingwebhookconfigurations", made)

        async def work(one: Attacker) -> None:
            await one.ask("DELETE", f"{path}/large?dryRun=All")

        await attacker.parallel(200, work)


@contextlib.asynccontextmanager
async def tls_server(handler: Any) -> AsyncIterator[tuple[int, bytes]]:
    """Port and certificate of a server of ours on 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hostile")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        both = Path(folder) / "both.pem"
        form = serialization.PrivateFormat.PKCS8
        private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        both.write_bytes(pem + private)
        context.load_cert_chain(both)
    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], pem
