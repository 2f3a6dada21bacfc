"""docs/aggregation.md works as pasted, with the server of examples/aggregated-server, in a tenant beside another."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from registry.cli.kubeconfig import kubeconfig, with_tenant
from tests.docs.pages import ROOT, commands, run
from tests.folders import data_folder
from tests.replication import free_port
from tests.running import running_server


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.skipif(
    shutil.which("kubectl") is None or shutil.which("openssl") is None, reason="kubectl or openssl is not here"
)
def test_the_page_works_as_pasted(tmp_path: Path) -> None:
    port = str(free_port())
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    setup = tmp_path / "examples/aggregated-server/setup.yaml"
    setup.write_text(setup.read_text().replace("9443", port))
    script = commands((ROOT / "docs/aggregation.md").read_text()).replace("9443", port)
    with data_folder() as folder, running_server(folder / "data", "--allow-egress-to", "127.0.0.1/32") as server:
        of = {}
        for name in ("acme", "globex"):
            run(f"registry tenant create {name}", server, tmp_path)
            of[name] = tmp_path / f"{name}.kubeconfig"
            of[name].write_text(kubeconfig(with_tenant(server.url, name), server.token, server.authority))
        # While the server runs, the other tenant knows nothing of it.
        other = f"""
kubectl --kubeconfig {of["globex"]} get crontabmetrics 2>&1 | sed 's/^/globex: /' || true
kubectl --kubeconfig {of["globex"]} get apiservices -o name | grep -c metrics.example.com | sed 's/^/globex has /' || true
"""
        output = run(script + other, server, tmp_path, of["acme"])
    assert re.search(r"v1.metrics.example.com +kube-system/crontab-metrics +True ", output), output
    assert re.search(r"v1.jobs.example.com +Local +True ", output), output
    assert re.search(r"^report +\d+ +\d+ +2$", output, re.MULTILINE), output
    assert "Seconds since the CronTab was created." in output
    assert re.search(r"^ADDED +backup +\d+ +\d+ ", output, re.MULTILINE), output
    assert re.search(r"^no$", output, re.MULTILINE), output
    assert re.search(r"^backup +\d+ +\d+ +\d+$", output, re.MULTILINE), output
    assert 'globex: error: the server doesn\'t have a resource type "crontabmetrics"' in output
    assert "globex has 0" in output
