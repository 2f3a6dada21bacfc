from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from registry.flowcontrol import key_exchange
from registry.http.serving.tls import ensure_certificates, server_context
from registry.webhooks.tls import system_context

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


def test_where_groups_cannot_be_set_one_curve_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asking, field = client("X25519:P-256"), client("ffdhe2048")
    monkeypatch.setattr(key_exchange, "set_groups", lambda context, groups: False)
    made = ensure_certificates(tmp_path, "127.0.0.1")
    limited = server_context(made.certificate, made.key)
    assert agree(asking, limited)
    assert not agree(field, limited)
