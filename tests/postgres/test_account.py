"""The operating system account that runs PostgreSQL."""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.postgres.account import AccountError, account_for
from tests.folders import data_folder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def nobody() -> Iterator[pwd.struct_passwd]:
    """The test runs as `nobody`."""
    found = pwd.getpwnam("nobody")
    os.seteuid(found.pw_uid)
    yield found
    os.seteuid(0)


@as_root
def test_root_switches_to_an_unprivileged_account() -> None:
    account = account_for(None)
    assert account.name in ("postgres", "nobody")
    assert account.changes
    assert account.run(["/usr/bin/id", "-u"]).stdout == f"{account.uid}\n"
    assert account.run(["/usr/bin/id", "-G"]).stdout == f"{account.gid}\n", "root's other groups are left behind"


@as_root
@pytest.mark.parametrize(
    "user, message", [("root", "does not run as root"), ("no-such-account", "no account 'no-such-account'")]
)
def test_root_refuses(user: str, message: str) -> None:
    with pytest.raises(AccountError, match=message):
        account_for(user)


@as_root
def test_root_switches_to_the_configured_account() -> None:
    assert account_for("nobody").uid == pwd.getpwnam("nobody").pw_uid


@as_root
def test_other_users_run_it_as_themselves(nobody: pwd.struct_passwd) -> None:
    for asked in (None, "nobody"):
        account = account_for(asked)
        assert (account.uid, account.changes) == (nobody.pw_uid, False)
        assert account.spawn_arguments() == {}
    with pytest.raises(AccountError, match="only root can run PostgreSQL as another account"):
        account_for("postgres")


@as_root
def test_folders_and_files_have_minimal_permissions() -> None:
    account = account_for("nobody")
    with data_folder() as outer:
        account.make_outer_folder(outer / "ours")
        account.make_folder(outer / "ours" / "theirs")
        (outer / "ours" / "file").write_text("x")
        account.let_read(outer / "ours" / "file")
        seen = {path.name: path.stat() for path in (outer / "ours", outer / "ours" / "theirs", outer / "ours" / "file")}
        assert {name: (oct(stat.S_IMODE(one.st_mode)), one.st_uid) for name, one in seen.items()} == {
            "ours": ("0o711", 0),
            "theirs": ("0o700", account.uid),
            "file": ("0o640", 0),
        }
        assert account.reaches(outer / "ours" / "theirs")
        assert account.run(["/bin/sh", "-c", f"cat {outer}/ours/file"]).stdout == "x"
        assert account.run(["/bin/sh", "-c", f"echo y > {outer}/ours/new"]).returncode != 0


@as_root
def test_an_inaccessible_parent_folder_is_detected(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert not account_for("nobody").reaches(tmp_path)
