"""Runs the benchmark against registry and against kube-apiserver with etcd: `python -m benchmarks.reference`.

Both servers run at the same time on the same machine. Each row is measured first on one and then on the other, so what
else the machine does affects both. The ratio of a row is registry's rate by kube-apiserver's, or kube-apiserver's time
(or memory) by registry's: above 1, registry is better.

The programs `kube-apiserver` and `etcd` have to be in PATH, or named by options; both are started with their defaults,
with TLS, RBAC and a static administrator token, in a temporary folder.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks import server
from benchmarks.client import Target
from benchmarks.measures import QUICK, Bench, Row, Scale
from benchmarks.report import keep, machine

_TOKEN: Final = "benchmark-administrator"
# kube-apiserver's version, whose answers have other sizes than those of the default.
_AS_REFERENCE: Final = ("--emulate-version", "1.36")
# Rows whose value is better when it is smaller.
_LESS_IS_BETTER: Final = frozenset({"s", "ms", "MB"})


@dataclass
class KubeApiserver:
    """A running kube-apiserver with its etcd. In its usage, etcd takes the place of PostgreSQL."""

    apiserver: psutil.Popen
    etcd: psutil.Popen
    target: Target
    started_seconds: float

    def usage(self) -> server.Usage:
        return server.Usage(server.cpu_seconds(self.apiserver), server.cpu_seconds(self.etcd))

    def memory(self) -> dict[str, list[int]]:
        return {"server": [server.megabytes(self.apiserver)], "postgres": [server.megabytes(self.etcd)]}


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row measured on both."""

    ours: Row
    reference: Row

    @property
    def ratio(self) -> float:
        better, worse = self.ours.value, self.reference.value
        if self.ours.unit in _LESS_IS_BETTER:
            better, worse = worse, better
        return better / worse if worse else math.inf

    def asdict(self) -> dict[str, Any]:
        return {"ours": self.ours.asdict(), "reference": self.reference.asdict(), "ratio": self.ratio}

    @property
    def failed(self) -> int:
        return self.ours.failed + self.reference.failed

    def __str__(self) -> str:
        sides = "".join(f"{side.value:12,.1f} {side.unit:3} {_cpu(side):>14}" for side in (self.ours, self.reference))
        failed = f"  {self.failed} failed" if self.failed else ""
        return f"{self.ours.name:58}{sides}{self.ratio:8.2f}{failed}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    for program in (options.etcd, options.kube_apiserver):
        if shutil.which(program) is None:
            print(f"{program} is not installed", file=sys.stderr)
            return 2
    kept: dict[str, Any] = {"machine": machine()}
    print(" ".join(f"{name}={value}" for name, value in kept["machine"].items()))
    print(f"{'':58}{'registry':>12}     {'CPU µs':>14}{'reference':>12}    {'CPU µs':>14}{'ratio':>9}", flush=True)
    rows = []
    for row in _compare(options.kube_apiserver, options.etcd, QUICK if options.quick else Scale()):
        print(row, flush=True)
        rows.append(row)
    kept["rows"] = [
        {"ours": row.ours.asdict(), "reference": row.reference.asdict(), "ratio": row.ratio} for row in rows
    ]
    print(f"\nkept in {keep('reference', kept)}")
    return 1 if any(row.failed for row in rows) else 0


def _compare(kube_apiserver: str, etcd: str, scale: Scale) -> Iterator[Comparison]:
    group = f"b{time.time_ns():x}.example.com"
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(server.running(stack.enter_context(server.folder()), 1, None, _AS_REFERENCE))
        reference = stack.enter_context(running(stack.enter_context(server.folder()), kube_apiserver, etcd))
        yield Comparison(*(Row("start", side.started_seconds, "s") for side in (ours, reference)))
        for rows in zip(Bench(ours, group, scale).run(), Bench(reference, group, scale).run(), strict=True):
            yield Comparison(*rows)
        yield Comparison(*(Row("memory with its database", _megabytes(side), "MB") for side in (ours, reference)))


@contextlib.contextmanager
def running(folder: Path, kube_apiserver: str, etcd: str) -> Iterator[KubeApiserver]:
    """Runs a kube-apiserver within the block, and waits until it is ready."""
    client, peer, port = server.free_port(), server.free_port(), server.free_port()
    (folder / "tokens.csv").write_text(f'{_TOKEN},admin,admin,"system:masters"\n')
    key = folder / "service-accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(server.ends_on_sigterm())
        store = _start(
            stack,
            folder / "etcd.log",
            etcd,
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )
        apiserver = _start(
            stack,
            folder / "kube-apiserver.log",
            kube_apiserver,
            f"--etcd-servers=http://127.0.0.1:{client}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--cert-dir={folder / 'certificates'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
        )
        asyncio.run(server.wait_until_ready(apiserver, port))
        yield KubeApiserver(apiserver, store, Target(f"https://127.0.0.1:{port}", _TOKEN), time.monotonic() - began)


def _start(stack: contextlib.ExitStack, log: Path, *command: str) -> psutil.Popen:
    process = psutil.Popen(command, stdout=stack.enter_context(log.open("wb")), stderr=subprocess.STDOUT)
    stack.callback(server.end, process)
    return process


def _megabytes(of: server.MeasuredServer) -> float:
    return sum(sum(sizes) for sizes in of.memory().values())


def _cpu(row: Row) -> str:
    if row.server_cpu is None or row.postgres_cpu is None:
        return ""
    return f"{row.server_cpu:,.0f} + {row.postgres_cpu:,.0f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reference", description=__doc__.partition("\n")[0])
    parser.add_argument("--kube-apiserver", default="kube-apiserver", metavar="PROGRAM")
    parser.add_argument("--etcd", default="etcd", metavar="PROGRAM")
    parser.add_argument("--quick", action="store_true", help="a little of each row: whether it works, not how fast")
    return parser


if __name__ == "__main__":
    sys.exit(main())
