"""The comparison with kube-apiserver. Its figures are not checked."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import reference, report
from benchmarks.measures import Row
from benchmarks.reference import Comparison


@pytest.mark.parametrize(
    "ours, theirs, unit, ratio",
    [
        pytest.param(30.0, 10.0, "/s", 3.0, id="a higher rate is better"),
        pytest.param(2.0, 10.0, "ms", 5.0, id="a shorter time is better"),
        pytest.param(100.0, 50.0, "MB", 0.5, id="less memory is better"),
        pytest.param(30.0, 0.0, "/s", float("inf"), id="nothing was answered"),
    ],
)
def test_above_1_registry_is_better(ours: float, theirs: float, unit: str, ratio: float) -> None:
    assert Comparison(Row("a", ours, unit), Row("a", theirs, unit)).ratio == ratio


def test_a_missing_program_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main(["--kube-apiserver", "/no/kube-apiserver", "--etcd", "/no/etcd"]) == 2
    assert capsys.readouterr().err == "/no/etcd is not installed\n"


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("kube-apiserver") is None or shutil.which("etcd") is None or shutil.which("wrk") is None,
    reason="kube-apiserver, etcd or wrk is not installed",
)
def test_both_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    assert reference.main(["--quick"]) == 0
    (kept,) = tmp_path.glob("reference-*.json")
    assert len(json.loads(kept.read_text())["rows"]) == 14
