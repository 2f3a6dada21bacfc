"""A short run of the fuzzer from a fixed seed, what it found before, and that it would see a fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import cbor2
import pytest

from tests.fuzz.calls import Call, Entry, dumped, loaded, parse_target, read_entry, write_entry
from tests.fuzz.checks import check_answer, in_log
from tests.fuzz.minimise import minimised
from tests.fuzz.wire import Answer

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
JSON = {"content-type": "application/json"}
CBOR = {"content-type": "application/cbor"}


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--requests", "2000", "--seed", "1"), ("--replay",)], ids=["fuzz", "corpus"])
def test_a_short_run_has_no_findings(arguments: tuple[str, ...]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--slow-seconds", "20", *arguments],
        cwd=ROOT,
        capture_output=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    print(run.stdout.decode(errors="replace")[-500:])
    assert run.returncode == 0, (run.stdout + run.stderr).decode(errors="replace")[-8000:]


def test_each_entry_of_the_corpus_has_a_reason() -> None:
    entries = [read_entry(path) for path in CORPUS.glob("*.yaml")]
    assert entries
    assert all(entry.why and entry.calls for entry in entries)


def _status(code: int, message: str) -> bytes:
    return json.dumps(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code}
    ).encode()


@pytest.mark.parametrize(
    "answer, kinds",
    [
        pytest.param(Answer(200, JSON, b"{}"), [], id="fine"),
        pytest.param(Answer(422, JSON, _status(422, "spec.a: Invalid value")), [], id="refused"),
        pytest.param(Answer(500, JSON, _status(500, "it broke")), ["status"], id="500"),
        pytest.param(Answer(500, JSON, _status(500, "content is not a list")), [], id="a 500 of kube-apiserver's"),
        pytest.param(Answer(503, JSON, _status(503, "the database is not available")), ["status"], id="503"),
        pytest.param(Answer(400, JSON, _status(400, "unhashable type: 'list'")), ["leak"], id="words of Python"),
        pytest.param(Answer(400, JSON, _status(400, "KeyError: 'a'")), ["leak"], id="an exception"),
        pytest.param(Answer(400, JSON, _status(400, 'relation "objects" does not exist')), ["leak"], id="words of SQL"),
        pytest.param(Answer(400, JSON, _status(400, "<class 'int'>")), ["leak"], id="a repr"),
        pytest.param(Answer(400, JSON, _status(422, "another code")), ["malformed"], id="another code in the Status"),
        pytest.param(Answer(400, JSON, b"{"), ["malformed"], id="no JSON"),
        pytest.param(Answer(400, JSON, b"{}"), ["malformed"], id="no Status"),
        pytest.param(Answer(200, JSON, b'{"a":"\xff"}'), ["malformed"], id="no UTF-8"),
        pytest.param(Answer(404, CBOR, cbor2.dumps({b"kind": b"Status"})), ["malformed"], id="no whole Status in CBOR"),
        pytest.param(Answer(200, CBOR, b"\xa1"), ["malformed"], id="no CBOR"),
        pytest.param(Answer(200, JSON, b"{}", 5.1), ["slow"], id="slow"),
    ],
)
def test_findings(answer: Answer, kinds: list[str]) -> None:
    assert [finding.kind for finding in check_answer(Call("GET", "/api"), answer, 5.0)] == kinds


def test_echoed_input_is_not_a_leak() -> None:
    call = Call("POST", "/api", body={"a": "KeyError: 'a'"})
    assert check_answer(call, Answer(400, JSON, _status(400, "Invalid value: \"KeyError: 'a'\"")), 5.0) == []


def test_tracebacks_are_distinguished_by_their_place() -> None:
    log = (
        "2024 info a line\nTraceback (most recent call last):\n"
        '  File "/x/registry/http/routes.py", line 1, in __call__\n    a()\n'
        '  File "/x/registry/api/create.py", line 2, in create\n    b()\nKeyError: 3\n2024 info another\n'
    )
    sign = "traceback KeyError registry/api/create.py:create"
    assert [finding.sign for finding in in_log(log + log)] == [sign] * 2
    assert [finding.sign for finding in in_log(textwrap.indent(log, "  ") + log)] == [sign] * 2
    assert in_log("2024 info a line\n") == []


@pytest.mark.parametrize(
    "call",
    [
        Call("GET", "/clusters/{tenant}/api/v1/a b", (("a", "b&c=d"), ("", "\x00"))),
        Call("POST", "/\x00/\ud800", headers=(("accept", "a"),), body={"a": ["\ud800\x00", 10**30, None]}),
        Call("PUT", "/", raw=b"\x00\xff"),
    ],
)
def test_a_call_is_the_same_out_of_the_corpus(call: Call, tmp_path: Path) -> None:
    write_entry(tmp_path / "a.yaml", Entry("why", [call]))
    assert read_entry(tmp_path / "a.yaml") == Entry("why", [call])
    assert loaded(dumped(call)) == call
    call.target("t").encode("ascii")


def test_targets_are_decoded() -> None:
    assert parse_target("/a%20b?c=d%3De&f") == ("/a b", (("c", "d=e"), ("f", "")))


def test_failing_calls_are_minimised() -> None:
    """Fails when a request with `x` in its body comes after one to /first."""

    def fails(calls: list[Call]) -> bool:
        return any(c.path == "/first" for c in calls[:-1]) and "x" in json.dumps(calls[-1].body)

    noise = [Call("GET", f"/{i}") for i in range(9)]
    last = Call("POST", "/last", (("a", "b"),), (("accept", "c"),), {"a": {"b": [1, {"x": 2}], "c": 3}})
    found = minimised([*noise, Call("GET", "/first", (("limit", "1"),)), *noise, last], fails)
    assert found is not None
    assert found[0] == Call("GET", "/first")
    assert found[1] == Call("POST", "/last", body={"a": {"b": [{"x": 2}]}})
    assert minimised([*noise, last], fails) is None
