"""The integration suite of apiextensions-apiserver as a black box: its own client, in its own encoding.

`REGISTRY_TEST_OFFICIAL_SUITES` names a folder with `apiextensions.test`, the suite as a compiled Go test program whose fixture
does not start a server, but runs the command in `TENANT_COMMAND` and takes the kubeconfig whose path that prints. Each
test gets a tenant of its own. The sources are not part of this repository, nor is how they are compiled.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.running import RunningServer, data_folder, running_server

_FOLDER: Final = os.environ.get("REGISTRY_TEST_OFFICIAL_SUITES", "")
_SUITE: Final = Path(_FOLDER or "/nonexistent") / "apiextensions.test"
_SECONDS: Final = 120

# Tests that look into etcd, or start the server with a feature gate off.
_NOT_OF_A_BLACK_BOX: Final = {
    "TestCBORStorageEnablement": "reads what etcd holds",
    "TestCustomResourceDefaultingOfMetaFields": "reads what etcd holds",
    "TestEtcdStorage": "reads what etcd holds",
    "TestInvalidObjectMetaInStorage": "writes to etcd",
    "TestPruningFromStorage": "writes to etcd",
    "TestNonStructuralSchemaConditionUpdate": "writes to etcd",
    "TestNonStructuralSchemaConditionForCRDV1Beta1MigratedData": "writes to etcd",
    "TestFieldSelectorDropFields": "has a feature gate off",
    "TestFieldSelectorDisablement": "has a feature gate off",
    "TestRatchetingDropFields": "has a feature gate off",
}
# Tests of which a part runs.
_PARTS: Final = {
    # It runs with a gate on and off: here it is on.
    "TestCBORServingEnablement": "^TestCBORServingEnablement$/^enabled$",
    # The suite's copy of kube-openapi, built with Go 1.27, reads no extension of any v3 document, not even
    # x-kubernetes-group-version-kind; a newer copy reads this document's selectable fields.
    "TestFieldSelectorOpenAPI": "^TestFieldSelectorOpenAPI$/^OpenAPIv2$",
}
# The namespaces that tests write into; a server for definitions alone has none.
_NAMESPACES: Final = (
    "not-the-default",
    "namespace-1",
    "namespace-2",
    "another-default-is-possible",
    "the-cruel-default",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not _SUITE.exists(), reason="REGISTRY_TEST_OFFICIAL_SUITES names no folder with apiextensions.test"
    ),
]


def _tests() -> list[str]:
    if not _SUITE.exists():
        return []
    listed = subprocess.run([_SUITE, "-test.list", "^Test"], capture_output=True, text=True, check=True).stdout
    return listed.split()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    # Webhooks of the suite listen on the loopback.
    with data_folder() as folder, running_server(folder, "--cbor", "--allow-egress-to", "127.0.0.0/8") as server:
        yield server


@pytest.mark.parametrize("name", _tests())
def test_as_upstream(name: str, server: RunningServer, tmp_path: Path) -> None:
    if name in _NOT_OF_A_BLACK_BOX:
        pytest.skip(_NOT_OF_A_BLACK_BOX[name])
    command = tmp_path / "tenant"
    command.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, '-m', __name__, str(server.data_dir)])}\n")
    command.chmod(0o755)
    wanted = _PARTS.get(name, f"^{name}$")
    result = subprocess.run(
        [_SUITE, "-test.v", "-test.timeout", f"{_SECONDS}s", "-test.run", wanted],
        env={**os.environ, "TENANT_COMMAND": str(command), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=_SUITE.parent,
        capture_output=True,
        text=True,
        timeout=_SECONDS + 30,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-8000:]


def make_tenant(data_dir: str) -> Path:
    """A new tenant with the namespaces of the suite; its kubeconfig."""
    name = f"suite-{secrets.token_hex(6)}"
    registry = [sys.executable, "-m", "registry", "tenant"]
    subprocess.run([*registry, "create", "--data-dir", data_dir, name], check=True, capture_output=True)
    made = subprocess.run(
        [*registry, "kubeconfig", "--data-dir", data_dir, name], check=True, capture_output=True, text=True
    )
    kubeconfig = Path(data_dir) / f"{name}.kubeconfig"
    kubeconfig.write_text(made.stdout)
    for namespace in _NAMESPACES:
        subprocess.run(
            ["kubectl", "--kubeconfig", str(kubeconfig), "create", "namespace", namespace],
            check=True,
            capture_output=True,
        )
    return kubeconfig


if __name__ == "__main__":
    print(make_tenant(sys.argv[1]))
