"""kube-web-view, pages over a cluster's resources: lists by the server's tables, single objects, resource types.

Its last release (21.2) needs Jinja2 2, and so a MarkupSafe from before 2.1; the pin that says so is missing from it.
"""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.clients.installed import installed
from tests.clients.kinds import PATIENCE_SECONDS, Kind, connected
from tests.running import RunningServer

PACKAGES = ("kube-web-view==21.2.0", "markupsafe<2.1", "aiohttp<4", "setuptools<81")
# It listens on all addresses, and has no flag to change that.
ON_LOOPBACK = """
import functools, sys
import aiohttp.web
aiohttp.web.run_app = functools.partial(aiohttp.web.run_app, host="127.0.0.1")
from kube_web.main import main
main()
"""


@pytest.fixture(scope="module")
def packages(request: pytest.FixtureRequest) -> Path:
    """A folder with the program and what it needs, which is on no lock of ours."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    assert request.config.cache is not None
    return installed(
        request.config.cache, "kube-web-view", [*command, "--target", ".", *PACKAGES], runtime=platform.python_version()
    )


@pytest.fixture
def pages(server: RunningServer, packages: Path) -> Iterator[httpx.Client]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--kubeconfig-path", str(server.kubeconfig), "--port", str(port)]
    # Its libraries alone, none of ours: -I leaves out the folder and the variables of this run.
    code = f"import sys; sys.path.insert(0, {str(packages)!r}); {ON_LOOPBACK.strip().replace(chr(10), '; ')}"
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", code, *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_SECONDS) as client:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while True:
                if process.poll() is not None:
                    pytest.skip(f"it does not start here: {process.stderr.read().strip().splitlines()[-1:]}")
                try:
                    client.get("/health").raise_for_status()
                    break
                except httpx.ConnectError:
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
            yield client
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_objects_are_listed_and_shown(server: RunningServer, kind: Kind, pages: httpx.Client) -> None:
    with connected(server) as http:
        http.post(kind.path, json=kind.gadget("first", size=17)).raise_for_status()
    (cluster,) = _links(pages.get("/clusters").text)
    root = f"/clusters/{cluster}/namespaces/{kind.namespace}"
    listed = pages.get(f"{root}/{kind.plural}")
    assert listed.status_code == 200
    assert f"{root}/{kind.plural}/first" in listed.text
    shown = pages.get(f"{root}/{kind.plural}/first")
    assert shown.status_code == 200
    assert "17" in shown.text
    assert pages.get(f"{root}/configmaps").status_code == 200
    assert kind.plural in pages.get(f"/clusters/{cluster}/namespaces/{kind.namespace}/_resource-types").text


def _links(page: str) -> set[str]:
    """The clusters that a page links to."""
    return {part.split('"')[0].split("/")[0] for part in page.split('href="/clusters/')[1:]} - {""}
