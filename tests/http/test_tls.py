from __future__ import annotations

import datetime
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from registry import certificates
from registry.http.serving import tls
from registry.http.serving.tls import Certificates, TlsError, ensure_certificates, server_context, server_names
from tests.processes import ROOT


def contents(made: Certificates) -> list[bytes]:
    assert made.authority is not None
    return [path.read_bytes() for path in (made.authority, made.certificate, made.key)]


def alternative_names(path: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_the_certificate_is_created_once(tmp_path: Path) -> None:
    first = ensure_certificates(tmp_path, "127.0.0.1")
    before = contents(first)
    assert contents(ensure_certificates(tmp_path, "127.0.0.1")) == before


def test_keys_are_private(tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, "127.0.0.1")
    assert made.key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "tls" / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "tls").stat().st_mode & 0o777 == 0o700


def test_names_of_the_certificate(tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, "10.1.2.3", ["registry.example"])
    assert alternative_names(made.certificate) == ["localhost", "127.0.0.1", "::1", "10.1.2.3", "registry.example"]


def test_another_name_gets_another_certificate_of_the_same_ca(tmp_path: Path) -> None:
    first = contents(ensure_certificates(tmp_path, "127.0.0.1"))
    second = contents(ensure_certificates(tmp_path, "127.0.0.1", ["registry.example"]))
    assert second[0] == first[0]
    assert second[1] != first[1]


def test_the_certificate_is_renewed_before_it_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(tls, "SERVER_LIFETIME", tls.RENEWED_BEFORE - datetime.timedelta(minutes=1))
        first = contents(ensure_certificates(tmp_path, "127.0.0.1"))
    second = contents(ensure_certificates(tmp_path, "127.0.0.1"))
    assert second[0] == first[0]
    assert second[1] != first[1]
    assert contents(ensure_certificates(tmp_path, "127.0.0.1")) == second


def test_a_ca_without_its_key_is_not_replaced(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, "127.0.0.1")
    (tmp_path / "tls" / "ca.key").unlink()
    with pytest.raises(TlsError, match="lost its key"):
        ensure_certificates(tmp_path, "127.0.0.1")


def test_a_ca_with_the_key_of_another_is_refused(tmp_path: Path) -> None:
    ensure_certificates(tmp_path / "a", "127.0.0.1")
    ensure_certificates(tmp_path / "b", "127.0.0.1")
    (tmp_path / "a" / "tls" / "ca.key").write_bytes((tmp_path / "b" / "tls" / "ca.key").read_bytes())
    with pytest.raises(TlsError, match=r"is not the key of .*ca\.crt"):
        ensure_certificates(tmp_path / "a", "127.0.0.1")


def test_a_certificate_expires_with_its_ca_and_is_not_renewed_in_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "CA_LIFETIME", tls.RENEWED_BEFORE / 2)
    first = contents(ensure_certificates(tmp_path, "127.0.0.1"))
    assert contents(ensure_certificates(tmp_path, "127.0.0.1")) == first
    ends = [x509.load_pem_x509_certificate(content).not_valid_after_utc for content in first[:2]]
    assert ends[0] == ends[1]


def test_an_expired_ca_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(tls, "CA_LIFETIME", -certificates.BACKDATED / 2)
        ensure_certificates(tmp_path, "127.0.0.1")
    with pytest.raises(TlsError, match=r"ca\.crt is past its end: remove it"):
        ensure_certificates(tmp_path, "127.0.0.1")


@pytest.mark.slow
def test_processes_starting_concurrently_share_one_certificate(tmp_path: Path) -> None:
    made = "import sys, pathlib; from registry.http.serving.tls import *; ensure_certificates(pathlib.Path(sys.argv[1]), 'h')"
    processes = [subprocess.Popen([sys.executable, "-c", made, str(tmp_path)], cwd=ROOT) for _ in range(3)]
    assert [process.wait(180) for process in processes] == [0, 0, 0]
    kept = contents(ensure_certificates(tmp_path, "h"))
    x509.load_pem_x509_certificate(kept[1]).verify_directly_issued_by(x509.load_pem_x509_certificate(kept[0]))
    server_context(tmp_path / "tls" / "server.crt", tmp_path / "tls" / "server.key")


def test_a_broken_certificate_is_replaced(tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, "127.0.0.1")
    made.certificate.write_text("no certificate")
    again = ensure_certificates(tmp_path, "127.0.0.1")
    assert alternative_names(again.certificate)[0] == "localhost"


@pytest.mark.parametrize(
    "host, expected",
    [
        ("127.0.0.1", ["localhost", "127.0.0.1", "::1"]),
        ("registry.example", ["localhost", "127.0.0.1", "::1", "registry.example"]),
    ],
)
def test_server_names(host: str, expected: list[str]) -> None:
    assert server_names(host) == expected


def test_clients_that_know_the_ca_trust_the_server(tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, "127.0.0.1")
    client = ssl.create_default_context(cafile=str(made.authority))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server_context(made.certificate, made.key).wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    for _ in range(4):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    assert theirs.version() == "TLSv1.3"
    assert theirs.getpeercert()


def test_files_that_cannot_be_served_are_named(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match="missing"):
        server_context(tmp_path / "missing.crt", tmp_path / "missing.key")
