"""Tenant commands: rights of tenant administrators, storage of credentials, confirmation of deletions."""

from __future__ import annotations

import re
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.folders import data_folder
from tests.processes import ROOT, environment, refusal, registry
from tests.running import RunningServer, running_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder / "data") as running:
        yield running


@pytest.fixture(scope="module")
def acme(server: RunningServer) -> dict[str, Any]:
    """The kubeconfig that `registry tenant create acme` has written."""
    done = registry("tenant", "create", "acme", "--data-dir", server.data_dir)
    assert done.returncode == 0, done.stderr
    path = server.data_dir / "kubeconfigs" / "acme"
    assert f"export KUBECONFIG={path}" in done.stdout
    assert _mode(path) == 0o600
    assert _mode(path.parent) == 0o700
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _token(kubeconfig: dict[str, Any]) -> str:
    return str(kubeconfig["users"][0]["user"]["token"])


def _ask(server: RunningServer, token: str, method: str, path: str, body: Any = None) -> httpx.Response:
    verify = ssl.create_default_context(cafile=server.authority)
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, verify=verify) as client:
        return client.request(method, path, json=body)


def _create(server: RunningServer, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = registry("tenant", "create", name, "--data-dir", server.data_dir, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def test_the_administrator_has_all_rights_in_the_tenant(server: RunningServer, acme: dict[str, Any]) -> None:
    assert acme["clusters"][0]["cluster"]["server"] == f"{server.url}/clusters/acme"
    assert _token(acme) != server.token
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "any"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}  # fmt: skip
    roles = "/clusters/acme/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert _ask(server, _token(acme), "POST", roles, role).status_code == 201
    assert _ask(server, _token(acme), "GET", "/clusters/acme/api/v1/secrets").status_code == 200
    # A bare path is its own tenant.
    spaces = _ask(server, _token(acme), "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/any")
    assert spaces.status_code == 200


@pytest.mark.parametrize("tenant", ["default", "system", "beta", "below", "*"])
@pytest.mark.parametrize(
    "method, path, body",
    [
        ("GET", "/api/v1/namespaces", None),
        ("GET", "/apis/tenancy.registry/v1/tenants", None),
        ("GET", "/api/v1/namespaces/default/configmaps?watch=true", None),
        ("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}),
        ("DELETE", "/apis/tenancy.registry/v1/tenants/beta", None),
    ],
)
def test_the_administrator_has_no_rights_elsewhere(
    server: RunningServer, acme: dict[str, Any], tenant: str, method: str, path: str, body: Any
) -> None:
    """Not even in tenants below it."""
    if tenant in ("beta", "below") and _ask(server, server.token, "GET", f"/clusters/{tenant}/version").is_error:
        _create(server, tenant, "--no-administrator", *(["--parent", "acme"] if tenant == "below" else []))
    answer = _ask(server, _token(acme), method, f"/clusters/{tenant}{path}", body)
    assert answer.status_code in (403, 404, 405), answer.text


def test_a_tenant_can_be_created_without_an_administrator(server: RunningServer) -> None:
    done = _create(server, "bare", "--no-administrator")
    assert "KUBECONFIG" not in done.stdout
    accounts = _ask(server, server.token, "GET", "/clusters/bare/api/v1/namespaces/kube-system/serviceaccounts").json()
    assert "tenant-administrator" not in [item["metadata"]["name"] for item in accounts["items"]]


def test_a_kubeconfig_is_written_to_the_given_file(server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "gamma.kubeconfig"
    _create(server, "gamma", "--kubeconfig", str(file), "--expires", "12h")
    assert _mode(file) == 0o600
    assert yaml.safe_load(file.read_text())["current-context"] == "gamma"


@pytest.mark.parametrize("command", [["kubeconfig", "--tenant"], ["tenant", "kubeconfig"]], ids=" ".join)
class TestKubeconfig:
    """One job, by either name."""

    def test_the_kubeconfig_is_that_of_the_administrator(
        self, command: list[str], server: RunningServer, acme: dict[str, Any]
    ) -> None:
        done = registry(*command, "acme", "--data-dir", server.data_dir)
        assert done.returncode == 0, done.stderr
        assert server.token not in done.stdout
        found = yaml.safe_load(done.stdout)
        assert found["clusters"] == acme["clusters"]
        assert _ask(server, _token(found), "GET", "/clusters/acme/api/v1/secrets").status_code == 200
        assert _ask(server, _token(found), "GET", "/clusters/default/api/v1/secrets").status_code == 403

    def test_a_kubeconfig_for_a_missing_tenant_is_refused(self, command: list[str], server: RunningServer) -> None:
        for name in ("absent", "a/b", ".."):
            for flags in ([], ["--platform-admin"], ["--token", "another's"]):
                done = registry(*command, name, *flags, "--data-dir", server.data_dir)
                assert (done.returncode, done.stdout) == (1, "")
                assert done.stderr == f"registry: there is no tenant {name!r}\n"

    def test_a_kubeconfig_has_platform_rights_only_with_the_flag(
        self, command: list[str], server: RunningServer
    ) -> None:
        done = registry(*command, "default", "--platform-admin", "--data-dir", server.data_dir)
        assert _token(yaml.safe_load(done.stdout)) == server.token
        done = registry(*command, "default", "--token", "another's", "--data-dir", server.data_dir)
        assert _token(yaml.safe_load(done.stdout)) == "another's"

    def test_a_kubeconfig_for_several_tenants_requires_a_token(self, command: list[str], server: RunningServer) -> None:
        for name in ("*", "*.shop"):
            assert "name --token" in refusal(registry(*command, name, "--data-dir", server.data_dir))
            done = registry(*command, name, "--platform-admin", "--data-dir", server.data_dir)
            assert yaml.safe_load(done.stdout)["clusters"][0]["cluster"]["server"] == f"{server.url}/clusters/{name}"


def test_the_kubeconfig_of_the_platform_is_the_written_one(server: RunningServer) -> None:
    printed = registry("kubeconfig", "--platform-admin", "--data-dir", server.data_dir).stdout
    assert printed == server.kubeconfig.read_text()
    other = registry("kubeconfig", "--platform-admin", "--data-dir", server.data_dir, "--server", "https://r.example")
    assert yaml.safe_load(other.stdout)["clusters"][0]["cluster"]["server"] == "https://r.example"


def test_a_file_that_credentials_are_redirected_to_becomes_private(server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    with open(file, "w") as out:
        file.chmod(0o644)
        command = [sys.executable, "-m", "registry", "kubeconfig", "--data-dir", str(server.data_dir)]
        subprocess.run(command, stdout=out, env=environment(), check=True, timeout=180, cwd=ROOT)
    assert _token(yaml.safe_load(file.read_text()))
    assert _mode(file) == 0o600


def _delete(server: RunningServer, name: str, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "registry", "tenant", "delete", name, "--data-dir", str(server.data_dir), *arguments],
        input=answer, env=environment(), capture_output=True, text=True, timeout=180, check=False, cwd=ROOT,
    )  # fmt: skip


def _phase(server: RunningServer, name: str) -> str:
    answer = _ask(server, server.token, "GET", f"/clusters/system/apis/tenancy.registry/v1/tenants/{name}")
    return str(answer.json()["status"]["phase"]) if answer.is_success else str(answer.status_code)


@pytest.mark.parametrize("answer", ["", "yes\n", "Doomed\n"], ids=["none", "yes", "another name"])
def test_a_deletion_lists_its_effects_and_asks_for_confirmation(server: RunningServer, answer: str) -> None:
    if _phase(server, "doomed") == "404":
        _create(server, "doomed", "--no-administrator")
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        assert _ask(server, server.token, "POST", "/clusters/doomed/api/v1/namespaces", space).is_success
    done = _delete(server, "doomed", answer=answer)
    assert done.returncode == 1
    assert "5 namespaces" in done.stderr
    assert done.stderr.endswith("registry: not confirmed: nothing was deleted\n")
    assert _phase(server, "doomed") == "Active"


def test_a_deleted_tenant_can_be_undeleted(server: RunningServer) -> None:
    _create(server, "phoenix", "--no-administrator")
    path = "/clusters/phoenix/api/v1/namespaces/default/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "y"}}
    assert _ask(server, server.token, "POST", path, body).is_success
    done = _delete(server, "phoenix", answer="phoenix\n")
    assert done.returncode == 0, done.stderr
    assert "registry tenant undelete phoenix" in done.stdout
    assert _phase(server, "phoenix") == "Terminating"
    assert registry("tenant", "undelete", "phoenix", "--data-dir", server.data_dir).returncode == 0
    assert _ask(server, server.token, "GET", f"{path}/a").json()["data"] == {"x": "y"}
    assert "already exists" in refusal(registry("tenant", "undelete", "phoenix", "--data-dir", server.data_dir))


def test_a_purged_tenant_is_gone(server: RunningServer) -> None:
    _create(server, "gone", "--no-administrator")
    done = _delete(server, "gone", "--purge", "--wait", "--yes")
    assert (done.returncode, done.stdout) == (0, "tenant gone deleted\n"), done.stderr
    assert _phase(server, "gone") == "404"
    assert "not found" in refusal(registry("tenant", "undelete", "gone", "--data-dir", server.data_dir))


@pytest.mark.parametrize("keep", ["1", "x", "5m", "-1d", "999999999d"])
def test_an_invalid_time_deletes_nothing(server: RunningServer, keep: str) -> None:
    done = _delete(server, "default", "--yes", f"--keep={keep}")
    assert refusal(done).startswith("registry: --keep: must be a time such as")


def test_granting_does_not_move_a_login_to_another_tenant(server: RunningServer) -> None:
    for name in ("one", "two"):
        _create(server, name, "--no-administrator")

    def grant(*arguments: str) -> subprocess.CompletedProcess[str]:
        return registry("sql", "grant", "bi", *arguments, "--data-dir", server.data_dir)

    assert grant("--tenant", "one").returncode == 0
    assert grant("--tenant", "one", "--timeout", "5").returncode == 0, "the same tenant"
    for other, name in ((["--tenant", "two"], "tenant two"), (["--all-tenants"], "all tenants")):
        assert f"bi is a login for tenant one: add --move to give it {name} instead" in refusal(grant(*other))
    assert grant("--tenant", "two", "--move").returncode == 0
    listed = registry("sql", "list", "--data-dir", server.data_dir).stdout
    assert re.search(r"^bi +two ", listed, re.MULTILINE)
