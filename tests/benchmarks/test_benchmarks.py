"""Every benchmark still runs. Its figures are not checked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import deliveries, report, schemas, soak, together
from benchmarks.data import definition, thing
from benchmarks.load import _read
from registry.schema.compiled import compile_schema

WRK = """Running 2s test @ https://127.0.0.1:7560
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    10.00ms    2.00ms  50.00ms   90.00%
    Req/Sec     3.10k   200.00     3.50k    70.00%
  Latency Distribution
     50%  500.00us
     75%   11.00ms
     90%   14.00ms
     99%    1.20s
  6200 requests in 2.00s, 12.00MB read
  Socket errors: connect 0, read 2, write 0, timeout 1
  Non-2xx or 3xx responses: 7
Requests/sec:   3100.25
Transfer/sec:      6.00MB
"""


def test_what_wrk_tells_is_read() -> None:
    measured = _read(WRK)
    assert (measured.requests, measured.rate, measured.p50_ms, measured.p99_ms, measured.failed) == (
        6200,
        3100.25,
        0.5,
        1200.0,
        10,
    )


@pytest.mark.parametrize("text, counts", [("1", [1]), ("1,2", [1, 2])])
def test_workers(text: str, counts: list[int]) -> None:
    assert command.parser().parse_args(["--workers", text]).workers == counts


@pytest.mark.parametrize("text", ["0", "1,x", "", "65"])
def test_wrong_numbers_of_workers(text: str) -> None:
    with pytest.raises(SystemExit):
        command.parser().parse_args(["--workers", text])


@pytest.mark.parametrize("size", [2_000, 3_000])
def test_objects_are_right_and_of_their_size(size: int) -> None:
    obj = thing("g.example.com", "one", size)
    assert len(json.dumps(obj, separators=(",", ":"))) == size
    schema = compile_schema(definition("g.example.com")["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    unknown: list[str] = []
    schema.process(obj, unknown)
    assert unknown == []
    assert schema.validate(obj) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("wrk") is None, reason="without wrk it takes longer than a test may")
def test_the_server_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert command.main(["--quick", "--workers", "1", "--database-url", database_url]) == 0
    printed = capsys.readouterr().out
    (kept,) = tmp_path.glob("quick-*.json")
    rows = json.loads(kept.read_text())["workers"]["1"]["rows"]
    assert len(rows) == 14
    for row in rows:
        assert row["name"] in printed
        assert row["value"] >= 0
        assert row["failed"] == 0


@pytest.mark.slow
def test_schemas_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert schemas.main(["--definitions", "40", "--tenants", "10"]) == 0
    (kept,) = tmp_path.glob("schemas-*.json")
    rows = {row["name"]: row["value"] for row in json.loads(kept.read_text())["rows"]}
    equal, different = (value for name, value in rows.items() if "equal" in name)
    assert equal < different


@pytest.mark.slow
def test_tenants_are_measured_together() -> None:
    rows = together.measure([1, 2], seconds=0.2)
    assert [(row["request"], row["tenants"], row["failed"]) for row in rows] == [
        (kind, tenants, 0) for kind in ("create", "patch", "get") for tenants in (1, 2)
    ]
    assert all(row["rate"] > 0 for row in rows)


@pytest.mark.slow
def test_everything_at_once_is_right() -> None:
    findings = soak.run(tenants=2, clients=6, seconds=3.0)
    assert findings.texts == []
    assert len(findings.seconds) > 5


@pytest.mark.slow
def test_deliveries_are_measured() -> None:
    found = deliveries.measure(tenants=2, each=3, rate=20, seconds=1.0)
    assert (found["watches"], found["writes"], found["missing_events"]) == (6, 20, 0)
    assert found["answer_ms"]["p50"] > 0
    assert found["delivery_ms"]["p50"] > 0
