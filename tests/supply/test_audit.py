"""`make audit` with an index on loopback: findings, unknown packages, and when it skips."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

AUDIT = Path(__file__).parents[2] / "tools" / "audit.py"
FLAW = {"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fixed_in": ["1.1"], "details": "Reads\n too much."}
SAID = "demo 1.0: PYSEC-1 (CVE-2026-1), fixed in 1.1: Reads too much."


@contextmanager
def _index(pages: dict[str, Any], *, status: int = 404, password: str = "") -> Iterator[str]:
    """The address of the simple index beside which `pages` are: {'/pypi/demo/1.0/json': {...}}; `status` for others."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = "Basic " + base64.b64encode(f"me:{password}".encode()).decode() if password else None
            allowed = self.headers["Authorization"] == wanted
            body = json.dumps(pages.get(self.path)).encode()
            self.send_response(401 if not allowed else 200 if self.path in pages else status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        user = f"me:{password}@" if password else ""
        yield f"http://{user}127.0.0.1:{server.server_port}/simple/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _lock(folder: Path) -> str:
    lock = folder / "lock.txt"
    lock.write_text(f"# by a tool\ndemo==1.0 ; python_version < '9' \\\n    --hash=sha256:{'0' * 64}\n    # via it\n")
    return str(lock)


def _audit(index: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull}
    return subprocess.run([sys.executable, AUDIT, *arguments, _lock(folder)], env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Audits with an index, in this process: half a second less, in which pip would be asked for the index."""
    spec = importlib.util.spec_from_file_location("audit", AUDIT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "audit", module)
    spec.loader.exec_module(module)

    def run(index: str, *arguments: str) -> int:
        monkeypatch.setattr(module, "index_url", lambda: index)
        return int(module.main(arguments))

    return run


def _release(*, vulnerabilities: Any = (), yanked: bool = False, version: str = "1.0") -> dict[str, Any]:
    files = [{"yanked": yanked, "yanked_reason": "broken" if yanked else None}]
    page = {"info": {"version": version}, "urls": files, "releases": {"1.0": files}, "vulnerabilities": vulnerabilities}
    return {name: value for name, value in page.items() if value is not None}


NEITHER = "not audited: demo 1.0: the index has vulnerabilities of the newest release alone"


@pytest.mark.parametrize(
    "path, page, codes, said",
    [
        pytest.param("demo/1.0", _release(), (0, 0), "1 packages: 0 findings", id="nothing"),
        pytest.param("demo/1.0", _release(vulnerabilities=[FLAW]), (1, 1), SAID, id="vulnerability"),
        pytest.param("demo/1.0", _release(vulnerabilities=[FLAW | {"withdrawn": "2026-01-01"}]), (0, 0),
                     "0 findings", id="withdrawn"),
        pytest.param("demo/1.0", _release(vulnerabilities=[{"id": "X"}]), (1, 1),
                     "demo 1.0: X, not fixed in any release\n", id="bare"),
        pytest.param("demo/1.0", _release(yanked=True), (1, 1), "demo 1.0: yanked: broken", id="yanked"),
        pytest.param("demo/1.0", _release(vulnerabilities=None), (0, 2), NEITHER, id="no-vulnerabilities-served"),
        pytest.param("demo", _release(vulnerabilities=[FLAW]), (1, 1), SAID, id="project-at-this-version"),
        pytest.param("demo", _release(vulnerabilities=[FLAW], version="2.0"), (0, 2), NEITHER, id="project-at-another"),
        pytest.param("demo", _release(yanked=True, version="2.0"), (1, 1), "yanked: broken", id="project-yanked"),
        pytest.param("other/1.0", _release(), (0, 2), "audit skipped: ", id="no-json-api"),
        pytest.param("demo/1.0", ["no document"], (0, 2), "audit skipped: ", id="other-json"),
    ],
)  # fmt: skip
def test_audit(
    main: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    path: str,
    page: Any,
    codes: tuple[int, int],
    said: str,
) -> None:
    with _index({f"/pypi/{path}/json": page}) as index:
        for arguments, code in zip([(), ("--strict",)], codes, strict=True):
            assert main(index, *arguments, _lock(tmp_path)) == code
            assert said in "".join(capsys.readouterr())


def test_the_exit_code_is_that_of_the_findings(tmp_path: Path) -> None:
    with _index({"/pypi/demo/1.0/json": _release(vulnerabilities=[FLAW])}) as index:
        done = _audit(index, tmp_path)
    assert done.returncode == 1, done.stderr
    assert SAID in done.stdout


def test_skipped_where_the_index_fails(tmp_path: Path) -> None:
    with _index({}, status=503) as index:
        done = _audit(index, tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("audit skipped: ")
    assert "answers 503" in done.stderr
    done = _audit(index, tmp_path, "--strict")  # it has gone
    assert done.returncode == 2
    assert "cannot be reached" in done.stderr
    done = _audit("file:///nowhere/simple", tmp_path)
    assert "has no JSON API" in done.stderr


def test_a_password_in_the_address_is_sent_and_not_printed(tmp_path: Path) -> None:
    with _index({"/pypi/demo/1.0/json": _release()}, password="hidden") as index:
        done = _audit(index, tmp_path, "--strict")
        assert done.returncode == 0, done.stderr
        wrong = _audit(index.replace("hidden", "guessed"), tmp_path)
    assert "answers 401" in wrong.stderr
    assert "guessed" not in wrong.stderr
