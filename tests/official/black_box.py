"""What the official suites need of a server that they do not start: a tenant for each test, and a look at what is stored.

The suites are compiled Go test programs whose fixtures were replaced: instead of starting a server, a fixture runs
`TENANT_COMMAND`, which prints the path of a kubeconfig. Instead of reading etcd, the conversion suite runs
`STORED_COMMAND` with the name of the tenant, group, plural, namespace and name, and reads the object in JSON.

    python -m tests.official.black_box tenant DATA_DIR [NAMESPACE ...]
    python -m tests.official.black_box stored DATA_DIR TENANT GROUP PLURAL NAMESPACE NAME
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from registry.cli.servers import database_url
from registry.settings.loading import load
from tests.running import RunningServer

FOLDER: Final = Path(os.environ.get("REGISTRY_TEST_OFFICIAL_SUITES") or "/nonexistent")


def names_of_tests(suite: Path) -> list[str]:
    """The tests of a compiled suite; none if it is not there."""
    if not suite.exists():
        return []
    return subprocess.run([suite, "-test.list", "^Test"], capture_output=True, text=True, check=True).stdout.split()


def run_as_upstream(
    suite: Path,
    server: RunningServer,
    folder: Path,
    wanted: str,
    *,
    namespaces: Sequence[str],
    seconds: int,
    skipped: str = "",
    program: str = "",
) -> None:
    """Runs the tests that match `wanted` and not `skipped`, and fails as they do. `folder` is for scripts.

    `program` is the name that upstream gives the suite, if it is another one: clients are field managers by this name.
    """
    data_dir = str(server.data_dir)
    if program:
        (folder / program).symlink_to(suite)
    result = subprocess.run(
        [
            folder / program if program else suite,
            "-test.v",
            "-test.timeout",
            f"{seconds}s",
            "-test.run",
            wanted,
            "-test.skip",
            skipped or "^$",
        ],
        env={
            **os.environ,
            "TENANT_COMMAND": str(_script(folder / "tenant", "tenant", data_dir, *namespaces)),
            "STORED_COMMAND": str(_script(folder / "stored", "stored", data_dir)),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        cwd=suite.parent,
        capture_output=True,
        text=True,
        timeout=seconds + 30,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8000:]


def _script(path: Path, *arguments: str) -> Path:
    path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-m", __name__, *arguments])} "$@"\n')
    path.chmod(0o755)
    return path


def make_tenant(data_dir: str, *namespaces: str) -> Path:
    """Creates a tenant with the namespaces, and returns the path of its kubeconfig, `TENANT.kubeconfig`."""
    name = f"suite-{secrets.token_hex(6)}"
    registry = [sys.executable, "-m", "registry", "tenant"]
    subprocess.run([*registry, "create", "--data-dir", data_dir, name], check=True, capture_output=True)
    made = subprocess.run(
        [*registry, "kubeconfig", "--data-dir", data_dir, name], check=True, capture_output=True, text=True
    )
    kubeconfig = Path(data_dir) / f"{name}.kubeconfig"
    kubeconfig.write_text(made.stdout)
    if not namespaces:
        return kubeconfig
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces]
    subprocess.run(
        ["kubectl", "--kubeconfig", str(kubeconfig), "create", "-f", "-"],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
        text=True,
        check=True,
        capture_output=True,
    )
    return kubeconfig


def stored_object(data_dir: str, tenant: str, group: str, plural: str, namespace: str, name: str) -> dict[str, Any]:
    """Returns a custom object as its row holds it, with the version that it is stored at."""
    url, _ = database_url(load({"data_dir": data_dir}, {}))
    query = (
        "SELECT o.version, o.body FROM objects o JOIN tenants t ON t.id = o.tenant_id "
        "WHERE t.name = %s AND o.resource = %s AND o.key = %s"
    )
    definition = f"{plural}.{group}"
    with psycopg.connect(url) as connection:
        row = connection.execute(query, (tenant, definition, f"{namespace}/{name}")).fetchone()
        of = connection.execute(
            query, (tenant, "customresourcedefinitions.apiextensions.k8s.io", definition)
        ).fetchone()
    assert row is not None
    assert of is not None
    kind = _decode(of[1])["spec"]["names"]["kind"]
    return {**_decode(row[1]), "apiVersion": f"{group}/{row[0]}", "kind": kind}


def _decode(body: str) -> dict[str, Any]:
    """A body is stored without the beginning, before which the revision is put."""
    found: dict[str, Any] = json.loads('{"metadata":{' + body)
    return found


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    print(make_tenant(*rest) if what == "tenant" else json.dumps(stored_object(*rest)))
