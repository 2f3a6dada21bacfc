"""Calls to addresses that must never be called, for a network namespace that has nothing but loopback.

    unshare --net python -m tests.webhooks.isolated FOLDER

Every address of ADDRESSES is given to the loopback interface, where a TLS server listens on all of them; a webhook is
called at each by a name and by the address itself. Prints {"NAME or ADDRESS": "the error, or answered"} and, as
"connections", how many the server has seen. FOLDER is for certificates.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from registry.webhooks import connection
from registry.webhooks.answers import decoded_review
from registry.webhooks.client import WebhookClient
from registry.webhooks.egress import EgressPolicy
from registry.webhooks.endpoint import Endpoint, endpoint_of
from registry.webhooks.errors import CallFailed
from registry.webhooks.services import Services
from tests.webhooks.hostile import Server, body, certificates, received

PUBLIC = ("93.184.216.34", "2606:2800:220:1::1")
FORBIDDEN = (
    "127.0.0.1",
    "127.255.255.254",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.100.100.200",
    "192.0.0.8",
    "192.0.0.9",
    "192.0.2.1",
    "192.88.99.1",
    "192.31.196.1",
    "198.18.0.1",
    "203.0.113.1",
    "168.63.129.16",
    "::1",
    "fd00:ec2::254",
    "fec0::1",
    "100::1",
    "2001:db8::1",
    "2001::1",
    "2002:a01:203::1",
    "3fff::1",
    "5f00::1",
    "64:ff9b::a01:203",
    "64:ff9b:1:a00:1::",
    "64:ff9b:1::a01:203",
    "2606:2800:220:1:0:5efe:a01:203",
)
# Passed to the resolver as they are, each of these is loopback.
SPELLINGS = (
    "0177.0.0.1",
    "0x7f.1",
    "127.1",
    "2130706433",
    "localhost.",
    "①②⑦.0.0.1",
    "[::ffff:127.0.0.1]",
    "user@127.0.0.1",
    "%31%32%37.0.0.1",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "127.0.0.1.",
    "0",
)
MAPPED = ("::ffff:127.0.0.1", "::ffff:10.1.2.3", "0.0.0.0", "::")


def main() -> None:
    interfaces = {line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}
    if interfaces != {"lo"}:
        sys.exit(f"there is more than loopback here: {sorted(interfaces)}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for address in (*PUBLIC, *FORBIDDEN):
        if address not in ("127.0.0.1", "::1", "127.255.255.254"):
            length = 128 if ":" in address else 32
            subprocess.run(["ip", "addr", "add", f"{address}/{length}", "dev", "lo"], check=True)
    print(json.dumps(asyncio.run(called(Path(sys.argv[1])))))


async def called(folder: Path) -> dict[str, str | int]:
    addresses = {f"host{i}.example": address for i, address in enumerate((*PUBLIC, *FORBIDDEN, *MAPPED))}
    found = certificates(folder, *addresses, *PUBLIC)
    connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await received(reader)
        writer.write(body(b"{}", connection="close"))
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(handle, ["0.0.0.0", "::"], 8443, ssl=found.context)
    connection._addresses = lambda host, port: [addresses[host]]  # the name server of the attacker
    client = WebhookClient(EgressPolicy(), Services())
    server, results = Server(8443, found.ca), dict[str, str | int]()
    for name, address in addresses.items():
        results[address] = await _call(client, server, name)
    for address in (*PUBLIC, *FORBIDDEN):
        host = f"[{address}]" if ":" in address else address
        results[f"https://{host}"] = await _call(client, server, host)
    for host in SPELLINGS:
        results[f"https://{host}"] = await _call(client, server, host)
    await client.aclose()
    listener.close()
    return {**results, "connections": connections}


async def _call(client: WebhookClient, server: Server, host: str) -> str:
    config = {"url": f"https://{host}:{server.port}/", "caBundle": server.endpoint.ca_bundle}
    try:
        endpoint: Endpoint = endpoint_of(config, client.services)
        await client.call(1, endpoint, b"{}", decoded_review)
    except CallFailed as error:
        return str(error)
    return "answered"


if __name__ == "__main__":
    main()
