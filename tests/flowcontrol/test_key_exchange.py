from __future__ import annotations

import contextlib
import datetime
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from registry.certificates import certificate_pem, issue_certificate, key_pem
from registry.flowcontrol import key_exchange
from registry.http.serving.tls import ensure_certificates, server_context
from registry.webhooks.tls import _context, system_context

CURVES = ["X25519", "P-256", "P-384", "P-521"]
FIELDS = ["ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    made = ensure_certificates(tmp_path_factory.mktemp("server"), "127.0.0.1")
    return server_context(made.certificate, made.key)


def client(groups: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    assert key_exchange.set_groups(context, groups)
    return context


def agree(client: ssl.SSLContext, server: ssl.SSLContext) -> bool:
    """Whether a handshake between the two gets as far as the server's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return True
            except ssl.SSLError:
                return False
    return True


@pytest.mark.parametrize("group", CURVES)
def test_clients_may_choose_any_usual_curve(server: ssl.SSLContext, group: str) -> None:
    assert agree(client(group), server)


@pytest.mark.parametrize("group", FIELDS)
def test_clients_may_not_choose_a_finite_field(server: ssl.SSLContext, group: str) -> None:
    assert not agree(client(group), server)
    # A client that has curves, too, is asked for one of these.
    assert agree(client(f"{group}:P-256"), server)


@pytest.mark.parametrize("group", CURVES)
def test_external_servers_may_choose_any_usual_curve(tmp_path: Path, group: str) -> None:
    assert agree(system_context(), external_server(tmp_path, group))


@pytest.mark.parametrize("group", FIELDS)
def test_external_servers_may_not_choose_a_finite_field(tmp_path: Path, group: str) -> None:
    assert not agree(system_context(), external_server(tmp_path, group))


def external_server(folder: Path, group: str) -> ssl.SSLContext:
    made = ensure_certificates(folder, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    assert key_exchange.set_groups(context, group)
    return context


def test_external_servers_may_not_choose_a_finite_field_in_tls_1_2() -> None:
    assert {cipher["kea"] for cipher in system_context().get_ciphers()} == {"kx-any", "kx-ecdhe"}


@pytest.mark.parametrize("intermediates, is_verified", [(0, True), (3, True), (4, False), (50, False)])
def test_chains_of_external_servers_are_short(tmp_path: Path, intermediates: int, is_verified: bool) -> None:
    """Each certificate of a chain may have a key that takes 10 ms."""
    key = ec.generate_private_key(ec.SECP256R1())
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    chain = [_authority(0, key, end)]
    for number in range(intermediates):
        chain.append(_authority(number + 1, key, end))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    chain.append(issue_certificate("a", key.public_key(), end, chain[-1], key, names))
    (tmp_path / "chain").write_bytes(b"".join(certificate_pem(one) for one in reversed(chain[1:])))
    (tmp_path / "key").write_bytes(key_pem(key))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "chain", tmp_path / "key")
    client = _context(certificate_pem(chain[0]).decode())
    assert verifies(client, server) == is_verified


def _authority(number: int, key: ec.EllipticCurvePrivateKey, end: datetime.datetime) -> x509.Certificate:
    """A CA that the one with the number before has issued, and that of number 0 itself."""
    issuer, subject = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"ca{which}")]) for which in (max(0, number - 1), number)
    )
    begin = end - datetime.timedelta(days=2)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), begin, end)
    return builder.add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256())


def verifies(client: ssl.SSLContext, server: ssl.SSLContext) -> bool:
    """Whether the client accepts the certificate of the server."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(2):
        try:
            asking.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError:
            return False
        with contextlib.suppress(ssl.SSLWantReadError):
            answering.do_handshake()
    return True


def test_where_groups_cannot_be_set_one_curve_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asking, field = client("X25519:P-256"), client("ffdhe2048")
    monkeypatch.setattr(key_exchange, "set_groups", lambda context, groups: False)
    made = ensure_certificates(tmp_path, "127.0.0.1")
    limited = server_context(made.certificate, made.key)
    assert agree(asking, limited)
    assert not agree(field, limited)


def _refuse_a_bundle() -> None:
    with contextlib.suppress(ssl.SSLError):
        _context("no PEM")


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(
            lambda: key_exchange.set_groups(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "none"), id="unknown groups"
        ),
        pytest.param(
            lambda: key_exchange.allow_cheap_key_exchanges(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)), id="key exchanges"
        ),
        pytest.param(lambda: _context(""), id="the system's roots"),
        pytest.param(_refuse_a_bundle, id="what is no bundle"),
    ],
)
def test_a_context_leaves_no_error_to_the_next_read_of_another_connection(
    work: Callable[[], object], server: ssl.SSLContext
) -> None:
    """OpenSSL keeps errors for each thread, and a read takes what is there for its own."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client("P-256").wrap_bio(to_client, to_server, server_hostname="localhost")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (asking, answering, asking, answering):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    with pytest.raises(ssl.SSLWantReadError):
        answering.read(1)
    work()
    with pytest.raises(ssl.SSLWantReadError):
        answering.read(1)
