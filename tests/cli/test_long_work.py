"""Long-running commands: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import errno
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.console.seed import client, define, definition, ok
from tests.folders import data_folder
from tests.processes import ROOT, environment, refusal, registry
from tests.running import RunningServer, running_server

pytestmark = pytest.mark.slow

GROUP = "demo.example.com"
PARTS = f"/apis/{GROUP}/v1/namespaces/default/parts"
TENANTS = "/clusters/system/apis/tenancy.registry/v1/tenants"
MERGE = {"Content-Type": "application/merge-patch+json"}
ANNOTATIONS = {"answer": "no", "number": "1e3", "lines": "a\nb"}
# Far more than anything here takes: only what hangs is to be found out.
PATIENCE_SECONDS = 300.0
# More than one batch of 64 at 25 a second: the server has reported before the end.
OBJECTS = 70


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with (
        data_folder() as folder,
        running_server(folder / "data", "--migrate-storage-rate", "25", "--no-sql-views") as running,
    ):
        with client(running) as http:
            define(http, _parts("v1"), tenant="")
            for number in range(OBJECTS):
                part = {"apiVersion": f"{GROUP}/v1", "kind": "Part", "metadata": {"name": f"part-{number}"}, "spec": {}}
                ok(http.post(PARTS, json=part))
        yield running


def _parts(storage: str) -> dict[str, Any]:
    """v1 and v2, with another default."""
    wanted = definition("parts", "Part", {"spec": {"type": "object", "properties": {}}})
    [first] = wanted["spec"]["versions"]
    color = {"color": {"type": "string", "default": "red"}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": color}}}}
    second = {**first, "name": "v2", "schema": schema}
    wanted["spec"]["versions"] = [{**one, "storage": one["name"] == storage} for one in (first, second)]
    return wanted


def _tenant(name: str) -> dict[str, Any]:
    return {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": name}}


def _store_at(server: RunningServer, version: str) -> None:
    with client(server) as http:
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/parts.{GROUP}"
        ok(http.patch(path, json={"spec": _parts(version)["spec"]}, headers=MERGE))


def on_terminal(*arguments: str, **variables: str) -> tuple[int, str]:
    """The exit code of `registry <arguments>`, and all that it writes on a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "registry", *arguments],
        env=environment(**variables), cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
    watchdog.start()
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError as error:  # Linux says so when the other side is closed
        if error.errno != errno.EIO:
            raise
    finally:
        watchdog.cancel()
        os.close(ours)
    return process.wait(60), written.decode()


def test_a_storage_migration_on_a_terminal_and_in_a_file(server: RunningServer) -> None:
    kubeconfig = str(server.kubeconfig)
    _store_at(server, "v2")
    code, written = on_terminal("migrate-storage", "parts", KUBECONFIG=kubeconfig)
    assert code == 0, written
    assert f"\r\x1b[Kobjects rewritten  [{'=' * 30}]  {OBJECTS} of {OBJECTS}" in written
    assert "parts: all objects are stored at the storage version" in written
    _store_at(server, "v1")
    done = registry("migrate-storage", "part", KUBECONFIG=kubeconfig)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"{OBJECTS} of {OBJECTS} objects rewritten"
    assert "\x1b" not in done.stderr
    with client(server) as http:
        found = ok(http.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/parts.{GROUP}"))
    assert found["status"]["storedVersions"] == ["v1"]


def test_a_storage_migration_may_run_in_the_background(server: RunningServer) -> None:
    done = registry("migrate-storage", "configmaps", "--no-wait", KUBECONFIG=str(server.kubeconfig))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("storageversionmigration configmaps-")
    assert "doesn't have a resource type" in refusal(
        registry("migrate-storage", "nosuch", KUBECONFIG=str(server.kubeconfig))
    )


def test_the_deletion_of_a_tenant_on_a_terminal(server: RunningServer) -> None:
    with client(server) as http:
        ok(http.post(TENANTS, json=_tenant("old")))
        for number in range(3):
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}
            ok(http.post("/clusters/old/api/v1/namespaces/default/configmaps", json=made))
    code, written = on_terminal(
        "tenant", "delete", "old", "--purge", "--wait", "--yes", "--data-dir", str(server.data_dir)
    )
    assert code == 0, written
    assert "tenant old deleted" in written


def test_an_export_can_be_applied_elsewhere(server: RunningServer, tmp_path: Path) -> None:
    with client(server) as http:
        owner = ok(http.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "owner"}}))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        about = {"name": "exported", "ownerReferences": [reference], "annotations": ANNOTATIONS}
        ok(http.post(PARTS, json={"apiVersion": f"{GROUP}/v1", "kind": "Part", "metadata": about, "spec": {}}))
    file = tmp_path / "parts.yaml"
    done = registry("export", "crd", "parts", "-A", "--to", file, KUBECONFIG=str(server.kubeconfig))
    assert done.returncode == 0, done.stderr
    assert file.stat().st_mode & 0o777 == 0o600
    assert done.stderr.splitlines()[-1] == f"{OBJECTS + 1} of {OBJECTS + 1} parts exported"
    first, *parts = yaml.safe_load_all(file.read_text())
    assert first["metadata"]["name"] == f"parts.{GROUP}"
    assert "status" not in first
    [part] = [one for one in parts if one["metadata"]["name"] == "exported"]
    assert part["apiVersion"] == f"{GROUP}/v2", "at the preferred version"
    assert part["metadata"] == {"name": "exported", "namespace": "default", "annotations": ANNOTATIONS}
    assert 'number: "1e3"' in file.read_text(), "text that other readers of YAML take for a number is quoted"
    with client(server) as http:
        ok(http.post(TENANTS, json=_tenant("elsewhere")))
        define(http, first, tenant="/clusters/elsewhere")
        ok(http.post(f"/clusters/elsewhere{PARTS.replace('v1', 'v2')}", json=part))
        ok(http.delete(f"{PARTS}/exported"))
    code, written = on_terminal("export", "parts", KUBECONFIG=str(server.kubeconfig))
    assert code == 0
    assert f"parts exported  [{'=' * 30}]" in written
