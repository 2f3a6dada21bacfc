from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from registry.cli.kubeconfig import ensure_admin_token, kubeconfig, server_url, with_tenant, write_kubeconfig
from registry.settings.declarations import Settings, SettingsError


def test_the_token_is_created_once_and_private(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    token = ensure_admin_token(settings)
    assert len(token) >= 40
    assert ensure_admin_token(settings) == token
    assert (tmp_path / "admin-token").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content, why", [(None, "does not exist"), ("\n", "empty")], ids=["missing", "empty"])
def test_a_token_file_of_the_user_must_hold_a_token(tmp_path: Path, content: str | None, why: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsError, match=why):
        ensure_admin_token(Settings(data_dir=tmp_path, admin_token_file=file))


@pytest.mark.parametrize(
    "settings, port, expected",
    [
        pytest.param(Settings(data_dir=Path("/x")), None, "https://127.0.0.1:6443", id="default"),
        pytest.param(Settings(data_dir=Path("/x"), port=0), 8443, "https://127.0.0.1:8443", id="port that was given"),
        pytest.param(Settings(data_dir=Path("/x"), host="0.0.0.0"), None, "https://127.0.0.1:6443", id="all addresses"),
        pytest.param(Settings(data_dir=Path("/x"), host="::"), None, "https://[::1]:6443", id="all IPv6 addresses"),
        pytest.param(Settings(data_dir=Path("/x"), host="fd00::1"), None, "https://[fd00::1]:6443", id="IPv6"),
        pytest.param(Settings(data_dir=Path("/x"), plain_http=True), None, "http://127.0.0.1:6443", id="plain HTTP"),
    ],
)
def test_server_url(settings: Settings, port: int | None, expected: str) -> None:
    assert server_url(settings, port) == expected


def test_tenants_have_a_path() -> None:
    assert with_tenant("https://h:1/", "acme") == "https://h:1/clusters/acme"
    assert with_tenant("https://h:1", None) == "https://h:1"


def test_a_kubeconfig_holds_what_kubectl_needs(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_bytes(b"-----BEGIN CERTIFICATE-----")
    config = yaml.safe_load(kubeconfig("https://h:1", "secret", authority))
    assert config["clusters"][0]["cluster"]["server"] == "https://h:1"
    assert base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]) == authority.read_bytes()
    assert config["users"][0]["user"] == {"token": "secret"}
    assert config["current-context"] == config["contexts"][0]["name"]


def test_the_written_kubeconfig_is_private(tmp_path: Path) -> None:
    path = write_kubeconfig(Settings(data_dir=tmp_path), "secret", None, 6443)
    assert path.stat().st_mode & 0o777 == 0o600
