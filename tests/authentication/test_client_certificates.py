"""Client certificates through the real TLS server, and `registry token` on the same: users as they start it."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from registry.authentication.user import User
from registry.authentication.x509 import user_of_connection
from tests.authentication.authority import CN, DAY, NOW, OU, Authority, O
from tests.folders import data_folder
from tests.processes import registry
from tests.running import RunningServer, running_server

UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def read(certificate: x509.Certificate) -> User | None:
    return user_of_connection({"client_certificate": certificate.public_bytes(serialization.Encoding.DER)})


def test_the_subject_is_the_user(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    made = authority.certificate(
        (CN, "ann"), (O, "dev"), (O, "ops"), (OU, "registry:tenant:acme"), (OU, "x"), (UID, "7")
    )
    fingerprint = made.fingerprint(hashes.SHA256()).hex()
    assert read(made) == User(
        "ann",
        ("dev", "ops", "system:authenticated"),
        "7",
        {"authentication.kubernetes.io/credential-id": (f"X509SHA256={fingerprint}",)},
        "acme",
    )
    plain = read(authority.certificate((CN, "ann")))
    assert plain is not None
    assert plain.tenant == "default"
    assert read(authority.certificate((O, "dev"))) is None
    assert user_of_connection(None) is None
    assert user_of_connection({}) is None


BAD: dict[str, tuple[tuple[ObjectIdentifier, str], ...]] = {
    "two uids": ((CN, "ann"), (UID, "1"), (UID, "2")),
    "two tenants": ((CN, "ann"), (OU, "registry:tenant:a"), (OU, "registry:tenant:b")),
    "a stranger's name": ((CN, "system:tenant:acme:ann"),),
    "a stranger's group": ((CN, "ann"), (O, "system:tenant:a")),
    "a zero character": ((CN, "a\0b"),),
}


@pytest.mark.parametrize("subject", BAD.values(), ids=BAD)
def test_subjects_of_nobody(tmp_path: Path, subject: tuple[tuple[ObjectIdentifier, str], ...]) -> None:
    with pytest.raises(ValueError):
        read(Authority(tmp_path, "ca").certificate(*subject))


def test_a_connection_may_outlive_its_certificate(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="past its end"):
        read(Authority(tmp_path, "ca").certificate((CN, "ann"), until=NOW - DAY))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "clients")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder, "--client-ca-file", str(authority.path)) as server:
        yield server


def who(
    server: RunningServer, certificate: Path | None = None, token: str = "", path: str = ""
) -> tuple[int, dict[str, Any]]:
    """Code and user of a request; the Status where it is refused."""
    context = ssl.create_default_context(cafile=str(server.authority))
    if certificate is not None:
        context.load_cert_chain(certificate)
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(server.url + (path or SELF), None if path else b"{}", headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=120) as answer:
            return answer.status, json.load(answer)["status"]["userInfo"]
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_certificate_is_a_user(server: RunningServer, authority: Authority) -> None:
    code, user = who(server, authority.files((CN, "ann"), (O, "dev")))
    assert code == 201
    assert user["username"] == "ann"
    assert user["groups"] == ["dev", "system:authenticated"]


def test_the_certificate_comes_before_the_token(server: RunningServer, authority: Authority) -> None:
    mine = authority.files((CN, "ann"))
    assert who(server, mine, server.token)[1]["username"] == "ann"
    assert who(server, mine, "wrong")[1]["username"] == "ann"
    nameless = authority.files((O, "dev"))
    assert who(server, nameless, server.token)[1]["username"] == "admin"
    assert who(server, nameless, "wrong")[0] == 401
    assert who(server, None, server.token)[1]["username"] == "admin"
    assert who(server)[0] == 403


def test_a_certificate_that_is_nobodys(server: RunningServer, authority: Authority) -> None:
    assert who(server, authority.files((CN, "ann"), (UID, "1"), (UID, "2")))[0] == 401
    assert who(server, authority.files((CN, "ann"), (UID, "1"), (UID, "2")), server.token)[1]["username"] == "admin"


def test_a_missing_home_gets_the_answer_of_one_without_rights(server: RunningServer, authority: Authority) -> None:
    lost = authority.files((CN, "ann"), (OU, "registry:tenant:nosuch"))
    for path in ("/version", "/healthz", "/api"):
        code, refused = who(server, lost, path=path)
        assert (code, refused["reason"]) == (403, "Forbidden"), path


def test_other_certificates_are_not_taken(server: RunningServer, authority: Authority, tmp_path: Path) -> None:
    """TLS itself refuses them."""
    for wrong in (
        Authority(tmp_path, "others").files((CN, "ann")),
        authority.files((CN, "ann"), until=NOW - DAY),
        authority.files((CN, "ann"), usage=ExtendedKeyUsageOID.SERVER_AUTH),
    ):
        with pytest.raises(OSError):
            who(server, wrong, server.token)
    assert who(server, None, server.token)[0] == 201


def run(server: RunningServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    return registry("token", *arguments, "--data-dir", server.data_dir)


def test_the_command_makes_lists_and_revokes(server: RunningServer) -> None:
    made = run(server, "create", "--user", "ann", "--group", "dev", "--description", "a test", "--expires", "12h")
    assert made.returncode == 0, made.stderr
    token = made.stdout.strip()
    assert "not shown again" in made.stderr
    assert token not in made.stderr
    code, user = who(server, token=token)
    assert (code, user["username"], user["groups"]) == (201, "ann", ["dev", "system:authenticated"])
    id = token.split(".")[2]
    listed = run(server, "list").stdout
    assert [line.split()[:4] for line in listed.splitlines()] == [
        ["ID", "USER", "GROUPS", "STATE"],
        [id, "ann", "dev", "active"],
    ]
    assert token.rpartition(".")[2] not in listed
    assert run(server, "revoke", id).returncode == 0
    assert "revoked" in run(server, "list").stdout
    deadline = time.monotonic() + 120
    while who(server, token=token)[0] != 401:
        assert time.monotonic() < deadline, "the server still takes the token"


REFUSED = {
    "no such token": ("revoke", "none"),
    "no such tenant": ("list", "--tenant", "nobody"),
    "a bad time": ("create", "--user", "ann", "--expires", "soon"),
    "no time at all": ("create", "--user", "ann", "--expires", "0d"),
    "a reserved user": ("create", "--user", "system:anonymous"),
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_what_the_command_refuses(server: RunningServer, arguments: tuple[str, ...]) -> None:
    refused = run(server, *arguments)
    assert refused.returncode == 1
    assert refused.stderr.startswith("registry: ")
    assert refused.stderr.count("\n") == 1
    assert refused.stdout == ""


def test_the_command_rotates_keys(server: RunningServer) -> None:
    assert "signs from now on" in run(server, "rotate-keys").stdout
