"""History, diff, restore, undelete and other object commands, also as a kubectl plugin."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.folders import data_folder
from tests.processes import ROOT, environment, refusal, registry, wait_until
from tests.running import RunningServer, running_server

pytestmark = pytest.mark.slow

API = "/apis/shop.example.com/v1/namespaces/default/orders"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "orders.shop.example.com"},
    "spec": {
        "group": "shop.example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "orders",
            "singular": "order",
            "kind": "Order",
            "listKind": "OrderList",
            "shortNames": ["o"],
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    },
}


class Registry:
    """A server, with an `ask` of its administrator and the command line under their kubeconfig."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        verify = ssl.create_default_context(cafile=server.authority)
        self._client = httpx.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}, verify=verify, timeout=60
        )

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self._client.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text
        return answer.json()

    def close(self) -> None:
        self._client.close()

    def is_served(self, path: str) -> bool:
        return self._client.get(path).is_success

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return registry(*arguments, KUBECONFIG=str(self.server.kubeconfig))

    def order(self, name: str, **spec: Any) -> str:
        """Its revision."""
        body = {"apiVersion": "shop.example.com/v1", "kind": "Order", "metadata": {"name": name}, "spec": spec}
        made = self.ask("POST", API, body)
        return str(made["metadata"]["resourceVersion"])

    def change(self, name: str, **spec: Any) -> str:
        patch = {"Content-Type": "application/merge-patch+json"}
        return str(self.ask("PATCH", f"{API}/{name}", {"spec": spec}, **patch)["metadata"]["resourceVersion"])


@pytest.fixture(scope="module")
def shop() -> Iterator[Registry]:
    with data_folder() as folder, running_server(folder / "data") as server:
        made = Registry(server)
        made.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        wait_until(lambda: made.is_served(API), "the definition is established")
        yield made
        made.close()


def lines(done: subprocess.CompletedProcess[str], code: int = 0) -> list[list[str]]:
    """The cells of a table."""
    assert done.returncode == code, done.stderr
    return [re.split(r" {3,}", line) for line in done.stdout.splitlines()]


def test_history_lists_time_user_manager_and_fields(shop: Registry) -> None:
    first = shop.order("a", size=1, color="red")
    second = shop.change("a", size=2, color=None, extra={"deep": 1})
    header, newest, oldest = lines(shop.run("history", "order", "a"))
    assert header == ["WHEN", "REVISION", "OPERATION", "USER", "BY", "FIELDS"]
    assert newest[1:4] == [second, "Update", "admin"]
    assert newest[5] == "-spec.color, spec.extra.deep, spec.size"
    assert oldest[1:] == [first, "Create", "admin", "python-httpx (create)", "-"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", newest[0])
    entries = json.loads(shop.run("history", "orders/a", "-o", "json", "--limit", "1").stdout)
    assert [entry["resourceVersion"] for entry in entries] == [second]


@pytest.mark.parametrize(
    "target",
    [["order", "n"], ["orders", "n"], ["Order", "n"], ["o", "n"], ["o/n"], ["orders.shop.example.com", "n"],
     ["order.v1.shop.example.com/n"]],
    ids=" ".join,
)  # fmt: skip
def test_a_kind_is_named_as_kubectl_names_it(shop: Registry, target: list[str]) -> None:
    if is_missing(shop, "n"):
        shop.order("n", size=1)
    assert len(lines(shop.run("history", *target))) == 2


def is_missing(shop: Registry, name: str) -> bool:
    return name not in [item["metadata"]["name"] for item in shop.ask("GET", API)["items"]]


@pytest.mark.parametrize(
    "target, why",
    [
        (["nosuch", "a"], 'the server doesn\'t have a resource type "nosuch"'),
        (["order", "nosuch"], 'orders.shop.example.com "nosuch" not found'),
        (["order"], "name one object: KIND NAME, or KIND/NAME"),
        (["order", "a", "b"], "name one object"),
        (["order/a", "b"], "name one object"),
        (["secret", "a"], "the past of secrets cannot be read"),
    ],
)
def test_an_object_without_history_is_reported_in_one_line(shop: Registry, target: list[str], why: str) -> None:
    assert why in refusal(shop.run("history", *target))


def test_a_diff_of_two_states(shop: Registry) -> None:
    first = shop.order("d", size=1)
    second = shop.change("d", size=2)
    shop.change("d", size=3)
    done = shop.run("diff", "order", "d", "--from", first, "--to", second)
    assert done.returncode == 1
    assert {"-  size: 1", "+  size: 2"} <= set(done.stdout.splitlines())
    assert "managedFields" not in done.stdout
    assert "+  size: 3" in shop.run("diff", "order/d").stdout.splitlines(), "the last change"
    same = shop.run("diff", "order", "d", "--from", second, "--to", second)
    assert (same.returncode, same.stdout) == (0, "")


def test_an_object_is_restored(shop: Registry) -> None:
    first = shop.order("r", size=1)
    shop.change("r", size=2)
    dry = shop.run("restore", "order", "r", "--to", first, "--dry-run")
    assert dry.stdout == f"orders r restored from {first} (dry run)\n"
    assert shop.ask("GET", f"{API}/r")["spec"] == {"size": 2}
    assert shop.run("restore", "order", "r", "--to", first).returncode == 0
    assert shop.ask("GET", f"{API}/r")["spec"] == {"size": 1}


def test_a_deleted_object_is_listed_and_undeleted(shop: Registry) -> None:
    shop.order("u", size=1)
    shop.ask("DELETE", f"{API}/u")
    listed = lines(shop.run("deleted", "orders"))
    assert listed[0] == ["NAMESPACE", "NAME", "DELETED", "BY", "REVISION", "UID"]
    assert [row[:2] for row in listed[1:]] == [["default", "u"]]
    assert len(lines(shop.run("deleted", "orders", "-n", "other"))) == 1
    assert shop.run("undelete", "order", "u").stdout == "orders u undeleted\n"
    assert shop.ask("GET", f"{API}/u")["spec"] == {"size": 1}
    assert "already exists" in refusal(shop.run("undelete", "order", "u"))


def test_a_definition_a_namespace_and_a_tenant_are_protected(shop: Registry) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}
    shop.ask("POST", "/api/v1/namespaces", space)
    assert shop.run("protect", "namespace", "kept", "--policy", "Always").returncode == 0
    answer = shop.ask("GET", "/api/v1/namespaces/kept")
    assert answer["metadata"]["annotations"]["tenancy.registry/deletion-protection"] == "Always"
    assert shop.run("protect", "crd/orders.shop.example.com").returncode == 0
    tenants = "/clusters/system/apis/tenancy.registry/v1/tenants"
    shop.ask("POST", tenants, {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": "kept"}})
    assert shop.run("protect", "tenant", "kept").returncode == 0
    assert shop.ask("GET", f"{tenants}/kept")["spec"]["protected"] is True
    assert "orders cannot be protected" in refusal(shop.run("protect", "order", "a"))


def test_usage_and_tenants_are_tables(shop: Registry) -> None:
    name = {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": "small"},
            "spec": {"quotas": {"objects": 1000}}}  # fmt: skip
    shop.ask("POST", "/clusters/system/apis/tenancy.registry/v1/tenants", name)
    rows = {row[0]: row[1:] for row in lines(shop.run("usage", "small"))}
    assert rows["objects"][1] == "1000"
    assert rows["objects"][2].endswith("%")
    assert rows["bytes"][1:] == ["-", "-"]
    names = [row[0] for row in lines(shop.run("tenants"))]
    assert {"NAME", "default", "small", "system"} <= set(names)
    # The administrator of a tenant does not see the others.
    kubeconfig = shop.server.data_dir / "small.kubeconfig"
    kubeconfig.write_text(registry("kubeconfig", "--tenant", "small", "--data-dir", shop.server.data_dir).stdout)
    assert "forbidden" in refusal(registry("tenants", KUBECONFIG=str(kubeconfig)))


def test_top_shows_the_busiest_tenants_first(shop: Registry) -> None:
    tenants = "/clusters/system/apis/tenancy.registry/v1/tenants"
    shop.ask("POST", tenants, {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": "busy"}})
    for number in range(300):
        shop.ask("GET", f"/clusters/busy/api/v1/namespaces/default/configmaps?limit={number + 1}")
    header, first, *_ = lines(shop.run("top"))
    assert header == ["NAME", "REQUESTS/MIN", "WRITES/MIN", "WATCHES"]
    assert first[0] == "busy"
    assert int(first[1]) >= 300
    assert first[2:] == ["0", "0"]


def test_the_flags_choose_the_tenant_and_the_context(shop: Registry, tmp_path: Path) -> None:
    assert "doesn't have a resource type" in refusal(shop.run("history", "order", "a", "--tenant", "system"))
    config = yaml.safe_load(shop.server.kubeconfig.read_text())
    config["contexts"].append({"name": "bad", "context": {"cluster": "absent", "user": "admin"}})
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    file = ["--kubeconfig", str(tmp_path / "config")]
    assert shop.run("deleted", "orders", *file, "--context", "registry").returncode == 0
    assert "it has no cluster 'absent'; it has: registry" in refusal(
        shop.run("deleted", "orders", *file, "--context", "bad")
    )
    assert "it has no context 'none'; it has: bad, registry" in refusal(
        shop.run("deleted", "orders", *file, "--context", "none")
    )
    assert "does not exist" in refusal(registry("deleted", "orders", KUBECONFIG=str(tmp_path / "none")))


def test_the_files_of_kubeconfig_are_merged(shop: Registry, tmp_path: Path) -> None:
    """Of two entries with one name the first counts; paths are relative to the file that has them."""
    config = yaml.safe_load(shop.server.kubeconfig.read_text())
    (entry,), (user,) = config["clusters"], config["users"]
    user["user"] = {"tokenFile": "token"}
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / "token").write_text(shop.server.token)
    (tmp_path / "users" / "config").write_text(yaml.safe_dump({"users": [user]}))
    other = {"name": "registry", "cluster": {"server": "https://127.0.0.1:1"}}
    rest = {"contexts": config["contexts"], "clusters": [entry, other], "current-context": "registry"}
    (tmp_path / "rest").write_text(yaml.safe_dump(rest))
    files = [tmp_path / "absent", tmp_path / "users" / "config", tmp_path / "rest"]
    assert registry("deleted", "orders", KUBECONFIG=os.pathsep.join(map(str, files))).returncode == 0
    assert "no current context" in refusal(registry("deleted", "orders", KUBECONFIG=str(files[1])))


def test_control_characters_of_objects_are_escaped(shop: Registry) -> None:
    shop.order("esc", text="\x1b[31mred\x07")
    shop.change("esc", text="\x1b]0;title\x07")
    assert "\x1b" not in shop.run("diff", "order", "esc").stdout


def test_a_query_filters_sorts_and_counts(shop: Registry) -> None:
    for name, size in (("q1", 1), ("q2", 2), ("q3", 3), ("q4", 4)):
        shop.ask("POST", API, {"apiVersion": "shop.example.com/v1", "kind": "Order", "spec": {"size": size},
                               "metadata": {"name": name, "labels": {"of": "query"}}})  # fmt: skip
    label = 'object.metadata.labels.of == "query"'
    done = shop.run("query", "orders", "--where", f'{label} && object.metadata.name != "q2"', "--order-by",
                    "metadata.name desc", "-o", "name")  # fmt: skip
    assert (done.stdout.splitlines(), done.returncode) == (["orders/q4", "orders/q3", "orders/q1"], 0), done.stderr
    done = shop.run("query", "orders", "-A", "--where", label, "--limit", "1", "--offset", "1", "--count")
    assert [re.split(r" {3,}", line)[:2] for line in done.stdout.splitlines()] == [
        ["NAMESPACE", "NAME"],
        ["default", "q2"],
        ["4 match"],
    ]
    assert "undefined field 'nosuch'" in shop.run("query", "orders", "--where", "object.nosuch == 1").stderr
    assert len(json.loads(shop.run("query", "orders", "-l", "of=query", "-o", "json").stdout)["items"]) == 4


def test_a_query_groups_and_aggregates(shop: Registry) -> None:
    for name, of in (("g1", "x"), ("g2", "x"), ("g3", "y")):
        shop.ask("POST", API, {"apiVersion": "shop.example.com/v1", "kind": "Order", "spec": {},
                               "metadata": {"name": name, "labels": {"grouped.by/of": of}}})  # fmt: skip
    done = shop.run("query", "orders", 'object.metadata.name.startsWith("g")', "--group-by",
                    "metadata.labels['grouped.by/of']", "--aggregate", "n=count()", "--aggregate",
                    "max(metadata.name)", "--order-by", "n desc")  # fmt: skip
    assert lines(done) == [["GROUPED_BY_OF", "N", "MAX_NAME"], ["x", "2", "g2"], ["y", "1", "g3"]]
    spec = ("query", "orders", "-l", "grouped.by/of", "-A", "--group-by", "metadata.name")
    done = shop.run(*spec, "--limit", "1", "--offset", "1")
    assert done.stdout.splitlines() == ["NAME", "g2", "1 more rows"]
    found = json.loads(shop.run(*spec, "-o", "json").stdout)
    assert [row["name"] for row in found["rows"]] == ["g1", "g2", "g3"]
    assert "no such field" in shop.run("query", "orders", "--group-by", "nosuch").stderr
    assert "must declare one such reference" in shop.run("query", "orders", "--join", "configmaps").stderr
    done = shop.run("query", "orders", "--join-owner", "orders", "--left", "-l", "grouped.by/of")
    assert done.stdout.splitlines() == ["COUNT", "3"]


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
def test_kubectl_runs_it_as_a_plugin(shop: Registry, tmp_path: Path) -> None:
    """By the name of the script that the package installs."""
    script = tmp_path / "kubectl-registry"
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom registry.cli.root import main\nsys.exit(main())\n")
    script.chmod(0o755)
    variables = environment(
        PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}", KUBECONFIG=str(shop.server.kubeconfig), HOME=str(tmp_path),
        PYTHONPATH=str(ROOT),
    )  # fmt: skip

    def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["kubectl", "registry", *arguments], env=variables, capture_output=True, text=True,
                              timeout=180, check=False)  # fmt: skip

    assert lines(kubectl("tenants"))[0][0] == "NAME"
    assert kubectl("history", "--help").stdout.startswith("usage: kubectl registry history")


@pytest.mark.parametrize(
    "words, found",
    [
        (["hist"], ["history"]),
        (["tenant", ""], ["create", "delete", "kubeconfig", "list", "undelete"]),
        (["tenant", "delete", "x", "--pu"], ["--purge"]),
        (["protect", "crd", "x", "--policy", "W"], ["WhileUsed"]),
        (["migrate", "u"], ["up"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["history", "orde"], ["orders"]),
        (["history", "order", "comp"], ["complete"]),
        (["history", "--limit", "1", "order", "comp"], ["complete"]),
        (["migrate-storage", "orde"], ["orders"]),
        (["export", "configmaps", "orde"], ["orders"]),
        (["worke"], []),
    ],
    ids=lambda words: " ".join(words),
)
def test_the_shell_completes(shop: Registry, words: list[str], found: list[str]) -> None:
    if is_missing(shop, "complete"):
        shop.order("complete", size=1)
    assert shop.run("__complete", *words).stdout.splitlines() == found


@pytest.mark.parametrize("shell, check", [("bash", ["-n"]), ("zsh", ["-n"]), ("fish", ["--no-execute"])])
def test_completion_scripts_are_valid(shell: str, check: list[str], tmp_path: Path) -> None:
    script = registry("completion", shell).stdout
    assert "registry __complete" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine")
    (tmp_path / "script").write_text(script)
    subprocess.run([shell, *check, str(tmp_path / "script")], check=True)
