"""The informer of @kubernetes/client-node: a list, then watches, kept as a cache."""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.clients.installed import installed
from tests.clients.kinds import PATIENCE_SECONDS, Kind, connected
from tests.running import RunningServer

# By their major versions: each has a way of its own to call, and to be stopped. The newest needs node 22.15.
PACKAGES = {"0": "@kubernetes/client-node@0.22", "1": "@kubernetes/client-node@1", "2": "@kubernetes/client-node@2"}
NODE_FOR_NEWEST = (22, 15)


@pytest.fixture(scope="session", params=PACKAGES)
def major(request: pytest.FixtureRequest) -> str:
    """The major version of the client."""
    return str(request.param)


@pytest.fixture(scope="session")
def node_modules(major: str, request: pytest.FixtureRequest) -> Path:
    """The client, installed; or in the folder that REGISTRY_TEST_NODE_MODULES names."""
    given = os.environ.get("REGISTRY_TEST_NODE_MODULES")
    if given:
        found = json.loads((Path(given) / "@kubernetes" / "client-node" / "package.json").read_text())["version"]
        if not found.startswith(f"{major}."):
            pytest.skip(f"REGISTRY_TEST_NODE_MODULES has version {found}")
        return Path(given)
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    version = subprocess.run([node, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    newer = tuple(int(part) for part in version.removeprefix("v").split(".")[:2]) >= NODE_FOR_NEWEST
    if major == max(PACKAGES) and not newer:
        pytest.skip(f"version {major} of the client needs node 22.15 or newer, not {version}")
    # By itself npm tries for a minute before it gives up, whatever the reason.
    retries = ("--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=2000")
    flags = ("--loglevel=error", "--logs-max=0", *retries, "--no-audit", "--no-fund", "--no-save")
    command = [npm, "install", "--prefix", ".", *flags, PACKAGES[major]]
    assert request.config.cache is not None
    # node does not know the variable by which Python, curl and others find the authorities of a proxy.
    with pytest.MonkeyPatch.context() as patch:
        if "SSL_CERT_FILE" in os.environ:
            patch.setenv("NODE_EXTRA_CA_CERTS", os.environ.get("NODE_EXTRA_CA_CERTS", os.environ["SSL_CERT_FILE"]))
        return installed(request.config.cache, f"client-node-{major}", command, runtime=version) / "node_modules"


class Informer:
    """The script informer.mjs; each line that it prints is one event."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, lines: Any) -> None:
        for line in lines:
            self._lines.put(line)

    def next(self) -> list[Any]:
        event: list[Any] = json.loads(self._lines.get(timeout=PATIENCE_SECONDS))
        return event


def test_informer(server: RunningServer, kind: Kind, node_modules: Path, major: str) -> None:
    script = node_modules.parent / "informer.mjs"
    shutil.copy(Path(__file__).with_name("node") / "informer.mjs", script)
    command = ["node", str(script), kind.group, kind.version, kind.namespace, kind.plural, major]
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    with connected(server) as http:
        http.post(kind.path, json=kind.gadget("before", size=1)).raise_for_status()
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        try:
            informer = Informer(process)
            assert informer.next() == ["connect"]
            assert informer.next() == ["add", "before", 1]
            http.post(kind.path, json=kind.gadget("a", size=1)).raise_for_status()
            assert informer.next() == ["add", "a", 1]
            http.patch(
                f"{kind.path}/a", json={"spec": {"size": 2}}, headers={"Content-Type": "application/merge-patch+json"}
            ).raise_for_status()
            assert informer.next() == ["update", "a", 2]
            http.delete(f"{kind.path}/before").raise_for_status()
            assert informer.next() == ["delete", "before", 1]
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
