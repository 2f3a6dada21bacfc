"""The configuration of the embedded PostgreSQL, written at each start.

An owner who wants other values puts them into `local.conf` in the same folder, which is read last and wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from registry.postgres.account import SystemAccount
from registry.postgres.binaries import Binaries

MEBIBYTE = 1 << 20
LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 5432


class Addresses(NamedTuple):
    """Where clients connect: in a folder, and at a port if there is one. `certificate` is a file and its key."""

    socket_folder: Path
    port: int | None
    host: str
    certificate: tuple[Path, Path] | None


def files(
    folder: Path,
    addresses: Addresses,
    *,
    major: int,
    compression: str,
    role: str,
    account_names: Iterable[str],
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """Returns postgresql.conf, pg_hba.conf and pg_ident.conf by name."""
    settings = {
        **_listening(addresses),
        "unix_socket_permissions": "0700",
        "hba_file": str(folder / "pg_hba.conf"),
        "ident_file": str(folder / "pg_ident.conf"),
        "password_encryption": "scram-sha-256",
        # Loaded at startup, and so inherited by every session: a session that loads it later might load that of another
        # release, if the package was upgraded under the running server.
        "shared_preload_libraries": "plpgsql",
        **_tls(addresses.certificate),
        **_tuning(major, compression),
        **overrides,
    }
    lines = [f"{name} = {_quoted(value)}" for name, value in settings.items()]
    own = f"include_if_exists = {_quoted(str(folder / 'local.conf'))}"
    names = sorted(set(account_names))
    return {
        "postgresql.conf": "# Written at each start. Your own settings go into local.conf.\n"
        + "\n".join([*lines, own, ""]),
        "pg_hba.conf": (
            f"local all {role} peer map=registry\n"
            # For pg_basebackup and a standby on this machine, which `all` does not cover.
            f"local replication {role} peer map=registry\n"
            "local all all scram-sha-256\n"
            "host all all 127.0.0.1/32 scram-sha-256\n"
            "host all all ::1/128 scram-sha-256\n"
            # From other machines only report logins, and only over TLS.
            f"host all {role} all reject\n"
            "hostssl all all all scram-sha-256\n"
        ),
        "pg_ident.conf": "".join(f"registry {_quoted_name(name)} {role}\n" for name in names),
    }


def listen_addresses(host: str) -> list[str]:
    """Returns the addresses of `host`, including loopback: ['127.0.0.1', '10.0.0.7']. `::` means all, as for --host."""
    if host == "::":
        return ["*"]
    return [host] if host in ("0.0.0.0", LOOPBACK) else [LOOPBACK, host]


def _listening(addresses: Addresses) -> dict[str, str]:
    port = addresses.port
    return {
        "listen_addresses": "" if port is None else ",".join(listen_addresses(addresses.host)),
        "port": str(port if port is not None else DEFAULT_PORT),
        "unix_socket_directories": str(addresses.socket_folder),
    }


def _tls(certificate: tuple[Path, Path] | None) -> dict[str, str]:
    if certificate is None:
        return {"ssl": "off"}
    return {
        "ssl": "on",
        "ssl_cert_file": str(certificate[0]),
        "ssl_key_file": str(certificate[1]),
        "ssl_min_protocol_version": "TLSv1.2",
    }


def has_tls(binaries: Binaries, account: SystemAccount, data: Path) -> bool:
    """Returns whether this build supports TLS (packagers' do, not every wheel's)."""
    return _accepts(binaries, account, data, "ssl", "on")


def best_compression(binaries: Binaries, account: SystemAccount, data: Path) -> str:
    """Returns 'lz4' if this build supports it (packagers' do, the wheels do not), else 'pglz'."""
    return "lz4" if _accepts(binaries, account, data, "default_toast_compression", "lz4") else "pglz"


def _accepts(binaries: Binaries, account: SystemAccount, data: Path, setting: str, value: str) -> bool:
    options = ["-c", f"{setting}={value}", "-c", "config_file=" + str(data / "postgresql.conf")]
    done = account.run(
        [binaries.program("postgres"), "-D", str(data), *options, "-C", setting], environment=environment()
    )
    return done.returncode == 0


# A page of a list is assembled in several copies of some megabytes. By default glibc returns such memory after each
# query, and the next one faults it in again: half of PostgreSQL's time for a page of 500 objects. So a backend may
# keep this much; other C libraries ignore these variables.
_ALLOCATION = {"MALLOC_MMAP_THRESHOLD_": str(16 * MEBIBYTE), "MALLOC_TRIM_THRESHOLD_": str(32 * MEBIBYTE)}


def environment() -> dict[str, str]:
    """Returns the environment of PostgreSQL's programs, without variables that affect them (PGDATA, PGPORT,
    locales)."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC", **_ALLOCATION}


def _tuning(major: int, compression: str) -> dict[str, str]:
    tuning = {
        "max_connections": "130",
        # For the server itself, however many sessions report logins have open.
        "superuser_reserved_connections": "30",
        # Until then a connection without a password holds one, too.
        "authentication_timeout": "15s",
        "shared_buffers": f"{_shared_buffers_bytes() // MEBIBYTE}MB",
        # Small objects, many writes: infrequent checkpoints and small full-page images.
        "max_wal_size": "2GB",
        "min_wal_size": "160MB",
        "checkpoint_timeout": "15min",
        "wal_compression": "on" if major < 15 or compression == "pglz" else compression,
        "default_toast_compression": compression,
        # An acknowledged write is on disk. A revision that a client has seen must never be assigned again after a
        # crash.
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        # Queries here take microseconds to milliseconds: JIT compilation never pays.
        "jit": "off",
        "random_page_cost": "1.1",
        # A forgotten transaction keeps vacuum from cleaning up counter rows, which makes every write slower.
        "idle_in_transaction_session_timeout": "10min",
        "log_line_prefix": "%m [%p] ",
        "log_timezone": "UTC",
        "timezone": "UTC",
    }
    if major >= 17:
        # 32 MB instead of 8 GB: any role that may connect can fill it with NOTIFY.
        tuning["max_notify_queue_pages"] = "4096"
    if major >= 18:
        tuning["io_method"] = "sync"  # no three further processes for reads that are nearly always in memory
    return tuning


def _shared_buffers_bytes() -> int:
    """Returns 1/32 of the memory, within bounds: this server shares the machine with everything else."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(memory // 32, 64 * MEBIBYTE), 256 * MEBIBYTE)


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
