"""Every condition that the log reports has its entry in docs/troubleshooting.md, and what monitoring asks for exists."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.api.client import Client
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text()
EXAMPLES = ROOT / "examples/monitoring"
# Of the Python process itself, of the scrape, and of requests that need not have come yet.
ALWAYS = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}


def conditions() -> list[str]:
    found = []
    for path in (ROOT / "registry").rglob("*.py"):
        text = path.read_text()
        found += re.findall(r"Condition\(\s*logger,\s*f?\"([^\"]+)\"", text)
    return sorted(found)


def test_the_log_has_conditions() -> None:
    assert "PostgreSQL is away" in conditions()
    assert len(conditions()) >= 7


@pytest.mark.parametrize("begins", conditions())
def test_each_condition_of_the_log_has_an_entry(begins: str) -> None:
    assert re.sub(r"\{[^}]*\}", "<name>", begins) in PAGE


def expressions() -> list[str]:
    rules = yaml.safe_load((EXAMPLES / "alerts.yaml").read_text())["groups"][0]["rules"]
    dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
    panels = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [rule["expr"] for rule in rules] + panels


async def test_alerts_and_dashboard_ask_for_metrics_that_there_are(api: Client) -> None:
    exposed = (await api.get("/metrics")).text
    families = set(re.findall(r"^# TYPE (\w+)", exposed, re.MULTILINE)) | ALWAYS
    asked = {name for one in expressions() for name in re.findall(r"\b([a-z]+_[a-z_]+|up)\b(?=[{\[)\s]|$)", one)}
    named = {re.sub(r"_(bucket|total)$", "", name) for name in asked} - {"histogram_quantile"}
    known = families | {re.sub(r"_total$", "", name) for name in families}
    assert named <= known, sorted(named - known)
    assert "kubernetes_healthcheck" in named


@pytest.mark.parametrize(
    "link", sorted(set(re.findall(r"docs/troubleshooting\.md#([\w-]+)", (EXAMPLES / "alerts.yaml").read_text())))
)
def test_each_runbook_of_an_alert_is_there(link: str) -> None:
    headings = [
        re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-")
        for line in PAGE.splitlines()
        if line.startswith("#")
    ]
    assert link in headings
