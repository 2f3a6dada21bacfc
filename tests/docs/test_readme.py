"""Commands in the README and in pages work exactly as written."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from registry.cli.kubeconfig import kubeconfig, with_tenant
from tests.docs.pages import ROOT, commands, run
from tests.folders import data_folder
from tests.processes import wait_until
from tests.running import RunningServer, running_server

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
NEEDS = {"sql": "psql", "history": "jq", "tutorials/reports": "psql", "tutorials/operator": "kopf"}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder / "data") as running:
        yield running


def _part(name: str) -> str:
    """The shell commands between `<!-- name: begin -->` and `<!-- name: end -->`."""
    text = (ROOT / "README.md").read_text()
    return commands(text.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0])


@pytest.mark.slow
@pytest.mark.kubectl
@needs_kubectl
def test_the_tour_works_as_pasted(server: RunningServer, tmp_path: Path) -> None:
    output = run(_part("tour"), server, tmp_path)
    assert "backup.demo.example.com/nightly created" in output
    assert "spec.keep in body should be greater than or equal to 1" in output
    assert "a paused backup must keep more than one" in output
    assert re.search(r"nightly +0 3 \* \* \* +14 +Ready", output)
    if shutil.which("psql") is not None:
        rows = run(_part("sql"), server, tmp_path)
        assert re.search(r"default +\| default +\| nightly +\| 0 3 \* \* \*", rows)
        assert re.search(r"update +\| admin +\| patch +\| +14", rows)
    output = run(_part("tenant"), server, tmp_path)
    assert "namespace/shop created" in output
    assert re.search(r"^acme ", output, re.MULTILINE)


# What each page's commands show, among other things.
PAGES = {
    "access": r"^yes$",
    "admission": r"no more than 3 replicas here",
    "authentication": r"is revoked",
    "cel": r"message: what is suspended has no replicas",
    "conversion": r"edge: v1beta1 to v1, and back: the same",
    "history": r"protected from deletion while it has objects, and it has 3 objects",
    "security": r"",
    "sharing": r"^one +a$",
    "sql": r"crontabs_jobs_example_com \| +ready",
    "tenants": r"tenant beta deleted",
    "tutorials/operator": r"<h1 class=dark>Welcome</h1>",
    "tutorials/reports": r"refused\nERROR:  permission denied for table objects\nrefused|refused$",
    "versions": r"condition met",
}
# The others are followed in a tenant each, so that none meets what another has left. Logins are for a tenant that is
# named, and kubectl's --raw leaves out the path of the server's URL.
IN_DEFAULT = frozenset({"authentication", "history", "sql", "tutorials/reports"})


def _slug(page: str) -> str:
    return page.replace("/", "-")


# Views follow soon after a definition: here they are waited for.
REPORTED = """
kubectl apply -f examples/crontab/definition.yaml
until registry psql --tenant default -- -c "SELECT * FROM reports.definitions" | grep -q 'crontabs_jobs.* ready'; do
    sleep 0.1
done
"""


@pytest.fixture(scope="module")
def kubeconfigs(server: RunningServer) -> dict[str, Path]:
    """The kubeconfig for each page."""
    tenants = [
        {"apiVersion": "tenancy.registry/v1", "kind": "Tenant", "metadata": {"name": f"of-{_slug(page)}"}, "spec": {}}
        for page in PAGES
        if page not in IN_DEFAULT
    ]
    wanted = server.data_dir / "tenants.json"
    wanted.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": tenants}))
    run(f"kubectl create --server {server.url}/clusters/system -f {wanted}", server, server.data_dir)
    found = dict.fromkeys(PAGES, server.kubeconfig)
    for page in PAGES.keys() - IN_DEFAULT:
        found[page] = server.data_dir / f"kubeconfig-{_slug(page)}"
        found[page].write_text(kubeconfig(with_tenant(server.url, f"of-{_slug(page)}"), server.token, server.authority))
    return found


@pytest.mark.slow
@pytest.mark.kubectl
@needs_kubectl
@pytest.mark.parametrize("page", PAGES)
def test_a_page_works_as_pasted(page: str, server: RunningServer, kubeconfigs: dict[str, Path], tmp_path: Path) -> None:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if (program := NEEDS.get(page)) and shutil.which(program, path=programs) is None:
        pytest.skip(f"{program} is not on this machine")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if page == "sql":
        run(REPORTED, server, tmp_path)
    output = run(commands((ROOT / "docs" / f"{page}.md").read_text()), server, tmp_path, kubeconfigs[page])
    assert re.search(PAGES[page], output, re.MULTILINE), output


@pytest.mark.slow
def test_a_page_that_fails_leaves_no_process(server: RunningServer, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="why it failed"):
        run("sleep 600 >/dev/null & echo $! >pid; echo why it failed >its.log; false", server, tmp_path)
    left = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == "zombie", "it has ended")


def test_every_linked_page_is_there() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"
