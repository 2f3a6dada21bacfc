"""The account that the embedded PostgreSQL runs as.

PostgreSQL refuses to run as root. Started as root (a container, CI), `registry` runs it as an unprivileged account: the
one named by the setting, else an existing `postgres`, else `nobody`. Started by any other user, it runs as that user.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The accounts to try, in this order, when root starts the server and no setting names one.
UNPRIVILEGED_ACCOUNTS = ("postgres", "nobody")


class AccountError(Exception):
    """The requested account does not exist or cannot be used."""


@dataclass(frozen=True, slots=True)
class SystemAccount:
    """`changes` says whether processes must be switched to this account, i.e. whether root started us."""

    name: str
    uid: int
    gid: int
    changes: bool

    def spawn_arguments(self) -> dict[str, Any]:
        """Returns the arguments that make `subprocess` run something under this account."""
        if not self.changes:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def run(
        self, command: Sequence[str], *, timeout_seconds: float = 60, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end. Raises OSError if it cannot be executed, e.g. in a folder closed to the
        account."""
        return subprocess.run(
            command,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            check=False,
            **self.spawn_arguments(),
        )

    def make_outer_folder(self, folder: Path) -> None:
        """Makes a folder of ours that the account may traverse but not write to.

        So what root writes there (configuration, log) can never be replaced by a link to something else.
        """
        folder.mkdir(mode=0o700, exist_ok=True)
        if self.changes and folder.stat().st_uid == os.geteuid():
            folder.chmod(0o711)

    def make_folder(self, folder: Path) -> None:
        """Makes a folder that only this account may enter. An existing one is left as it is."""
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            return
        if self.changes:
            os.chown(folder, self.uid, self.gid)

    def let_read(self, path: Path) -> None:
        """Makes a file of ours readable by this account, and by ours only."""
        if self.changes:
            os.chown(path, -1, self.gid)
        path.chmod(0o640 if self.changes else 0o600)

    def reaches(self, folder: Path) -> bool:
        """Returns whether this account may enter a folder, including all its parents."""
        if not self.changes:
            return os.access(folder, os.X_OK)
        return self.run(["/bin/sh", "-c", 'test -x "$1"', "sh", str(folder)]).returncode == 0


def account_for(user: str | None) -> SystemAccount:
    """Returns the account to run PostgreSQL under, given the setting (None: not set)."""
    if os.geteuid() != 0:
        current = pwd.getpwuid(os.geteuid())
        if user not in (None, current.pw_name):
            raise AccountError(
                f"only root can run PostgreSQL as another account ({user!r}); this is {current.pw_name!r}"
            )
        return SystemAccount(current.pw_name, current.pw_uid, current.pw_gid, changes=False)
    for name in (user,) if user else UNPRIVILEGED_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise AccountError("PostgreSQL does not run as root: name another account")
        return SystemAccount(entry.pw_name, entry.pw_uid, entry.pw_gid, changes=True)
    raise AccountError(
        f"there is no account {user!r} to run PostgreSQL"
        if user
        else "there is no unprivileged account to run PostgreSQL"
    )
