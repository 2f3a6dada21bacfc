"""Asks the package index for known vulnerabilities and yanked releases of what requirements/*.txt name: `make audit`.

The index is the one that pip is configured for; its JSON API (`/pypi/<name>/<version>/json`, as PyPI documents it) has
the vulnerabilities of a release. Exit code 1 if there are findings. What the index does not tell is listed,
and forgiven unless `--strict` is given (exit code 2), as in CI.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import importlib
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

LOCKS = Path(__file__).resolve().parents[1] / "requirements"
PIN = re.compile(r"^([a-z0-9-]+)==([^\s;\\]+)", re.MULTILINE)
TIMEOUT_SECONDS = 30
# The pages of projects with thousands of files have a few megabytes.
ANSWER_LIMIT_BYTES = 64 * 1024 * 1024
REQUESTS_AT_ONCE = 4


class Pin(NamedTuple):
    name: str
    version: str


class Verdict(NamedTuple):
    """`unknown`: why the index could not tell; '' where it could."""

    pin: Pin
    findings: list[str]
    unknown: str = ""


class Unavailable(Exception):
    """The index cannot be reached, or has no JSON API at all."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="audit", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--strict", action="store_true", help="fail, too, where the index does not tell")
    parser.add_argument("locks", nargs="*", type=Path, default=sorted(LOCKS.glob("*.txt")), help="requirements/*.txt")
    typed = parser.parse_args(arguments)
    try:
        verdicts = audit(sorted(pins(typed.locks)), Index(index_url()))
    except Unavailable as problem:
        print(f"audit skipped: {problem}", file=sys.stderr)
        return 2 if typed.strict else 0
    return _report(verdicts, strict=typed.strict)


def _report(verdicts: list[Verdict], *, strict: bool) -> int:
    findings = [f"{one.pin.name} {one.pin.version}: {line}" for one in verdicts for line in one.findings]
    unknown = [verdict for verdict in verdicts if verdict.unknown]
    for line in findings:
        print(line)
    for verdict in unknown:
        print(f"not audited: {verdict.pin.name} {verdict.pin.version}: {verdict.unknown}", file=sys.stderr)
    print(f"{len(verdicts)} packages: {len(findings)} findings, {len(unknown)} of which the index does not tell")
    if findings:
        return 1
    return 2 if unknown and strict else 0


def pins(locks: Sequence[Path]) -> set[Pin]:
    return {Pin(*found) for lock in locks for found in PIN.findall(lock.read_text())}


def index_url() -> str:
    """The simple index that pip installs from: of the environment, its configuration, or its own default."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    found = dict(re.findall(r"^(\S+)\.index-url='(.*)'$", listed.stdout, re.MULTILINE))
    for section in (":env:", "install", "global"):
        if section in found:
            return str(found[section])
    return str(importlib.import_module("pip._internal.models.index").PyPI.simple_url)


class Index:
    """The JSON API beside a simple index: https://host/simple/ has it at https://host/pypi/."""

    def __init__(self, simple_url: str) -> None:
        parts = urlsplit(simple_url)
        user, _, host = parts.netloc.rpartition("@")
        path = parts.path.rstrip("/")
        self.shown = urlunsplit((parts.scheme, host, parts.path, "", ""))
        if parts.scheme not in ("http", "https") or not path.endswith("/simple"):
            raise Unavailable(f"{self.shown} has no JSON API that is known")
        self._base = urlunsplit((parts.scheme, host, path.removesuffix("simple") + "pypi", "", ""))
        self._headers = {"Accept": "application/json"}
        if user:
            self._headers["Authorization"] = "Basic " + base64.b64encode(unquote(user).encode()).decode()

    def release(self, name: str, version: str = "") -> dict[str, Any] | None:
        """The document of a release, or of a project; None where the index has none. Raises Unavailable."""
        address = "/".join([self._base, name, *([version] if version else []), "json"])
        try:
            request = urllib.request.Request(address, headers=self._headers)
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                document = json.loads(answer.read(ANSWER_LIMIT_BYTES))
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code in (404, 410):
                return None
            raise Unavailable(f"{self.shown} answers {problem.code}") from problem
        except (OSError, http.client.HTTPException) as problem:
            raise Unavailable(f"{self.shown} cannot be reached: {problem}") from problem
        except ValueError:
            return None
        return document if isinstance(document, dict) and "info" in document else None


def audit(wanted: Sequence[Pin], index: Index) -> list[Verdict]:
    """Raises Unavailable where the index knows none of the packages."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        verdicts = list(pool.map(lambda pin: _verdict(pin, index), wanted))
    if verdicts and all(verdict.unknown == NOT_SERVED for verdict in verdicts):
        raise Unavailable(f"{index.shown} does not serve the JSON API")
    return verdicts


NOT_SERVED = "the index does not serve it"


def _verdict(pin: Pin, index: Index) -> Verdict:
    document = index.release(pin.name, pin.version)
    if document is not None:
        return _verdict_of(pin, document, document.get("urls"), document.get("vulnerabilities"))
    # A mirror may have the page of the project alone, which is about its newest release.
    document = index.release(pin.name)
    if document is None:
        return Verdict(pin, [], NOT_SERVED)
    newest = document["info"].get("version") == pin.version
    files = (document.get("releases") or {}).get(pin.version)
    return _verdict_of(pin, document, files, document.get("vulnerabilities") if newest else None)


def _verdict_of(pin: Pin, document: dict[str, Any], files: Any, vulnerabilities: Any) -> Verdict:
    """`files` and `vulnerabilities` are None where the document does not have them."""
    findings = [_vulnerability(one) for one in vulnerabilities or [] if not one.get("withdrawn")]
    if files and all(file.get("yanked") for file in files):
        findings.append(f"yanked: {files[0].get('yanked_reason') or 'no reason given'}")
    if vulnerabilities is None:
        return Verdict(pin, findings, "the index has vulnerabilities of the newest release alone")
    return Verdict(pin, findings)


def _vulnerability(one: dict[str, Any]) -> str:
    """'PYSEC-2021-108 (CVE-2021-33503), fixed in 1.26.5: ...'"""
    aliases = f" ({', '.join(one['aliases'])})" if one.get("aliases") else ""
    fixed = f", fixed in {', '.join(one['fixed_in'])}" if one.get("fixed_in") else ", not fixed in any release"
    about = " ".join((one.get("summary") or one.get("details") or "").split())
    return f"{one.get('id')}{aliases}{fixed}: {about[:200]}".rstrip(": ")


if __name__ == "__main__":
    sys.exit(main())
