"""The queries of examples/reporting run, and the dashboard's too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import yaml

from tests.reporting.reports import Reports

ROOT = Path(__file__).parents[2]


async def test_every_query_runs(reports: Reports) -> None:
    crd = yaml.safe_load((ROOT / "examples/crontab/definition.yaml").read_text())
    crd["status"] = {"acceptedNames": {"plural": "crontabs"}}
    outcome = await reports.define("acme", crd)
    await reports.put("acme", crd, "a", {"spec": {"schedule": "* * * * *"}})
    await reports.reporting.make_wildcard_views()
    assert outcome.view == "crontabs_jobs_example_com"
    queries = sorted((ROOT / "examples/reporting").glob("*.sql"))
    assert queries
    with psycopg.connect(reports.url, options="-c registry.tenant=acme -c search_path=reports") as connection:
        for query in queries:
            connection.execute(query.read_bytes())
        text = (ROOT / "examples/reporting/grafana/dashboards/registry.json").read_text()
        dashboard: dict[str, Any] = json.loads(text)
        for panel in dashboard["panels"]:
            text = panel["targets"][0]["rawSql"].replace("$tenant", "'acme'")
            assert connection.execute(text.encode()).fetchall() is not None
