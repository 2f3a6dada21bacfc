from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from registry.cli.root import parser
from registry.settings.declarations import ENVIRONMENT_PREFIX, Settings, SettingsError, declarations
from registry.settings.loading import find_misspelled, load, markdown, to_environment

DOCUMENT = Path(__file__).parents[1] / "docs" / "settings.md"


@pytest.mark.parametrize("name", [one.name for one in declarations()])
def test_help_lists_every_setting(name: str) -> None:
    declared = next(one for one in declarations() if one.name == name)
    commands = next(action for action in parser()._actions if action.dest == "command").choices
    assert isinstance(commands, dict)
    text = " ".join(commands["serve"].format_help().split()).replace("- ", "-")
    assert declared.flag in text
    assert declared.variable in text


def test_the_page_of_settings_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == markdown(), "run `make docs`"


@pytest.mark.parametrize(
    "typed, environment, name, expected",
    [
        pytest.param({}, {}, "port", 6443, id="default"),
        pytest.param({}, {"REGISTRY_PORT": "8443"}, "port", 8443, id="environment"),
        pytest.param({"port": "1"}, {"REGISTRY_PORT": "8443"}, "port", 1, id="flag wins over environment"),
        pytest.param({}, {"REGISTRY_PORT": ""}, "port", 6443, id="empty variable counts as not set"),
        pytest.param({"plain_http": True}, {}, "plain_http", True, id="switch"),
        pytest.param({}, {"REGISTRY_PLAIN_HTTP": "yes"}, "plain_http", True, id="switch in the environment"),
        pytest.param({"plain_http": False}, {"REGISTRY_PLAIN_HTTP": "1"}, "plain_http", False, id="switched off"),
        pytest.param({"tls_names": "a.example, b.example,"}, {}, "tls_names", ("a.example", "b.example"), id="names"),
        pytest.param({"data_dir": "/x/y"}, {}, "admin_token_path", Path("/x/y/admin-token"), id="token in the folder"),
        pytest.param({"admin_token_file": "/t"}, {}, "admin_token_path", Path("/t"), id="token of the user"),
    ],
)
def test_where_a_value_comes_from(typed: dict[str, Any], environment: dict[str, str], name: str, expected: Any) -> None:
    assert getattr(load(typed, environment), name) == expected


@pytest.mark.parametrize(
    "typed, environment, named",
    [
        pytest.param({"port": "65536"}, {}, "--port", id="port too high"),
        pytest.param({}, {"REGISTRY_PORT": "http"}, "REGISTRY_PORT", id="port is no number"),
        pytest.param({"workers": "0"}, {}, "--workers", id="no worker"),
        pytest.param({}, {"REGISTRY_PLAIN_HTTP": "maybe"}, "REGISTRY_PLAIN_HTTP", id="neither true nor false"),
        pytest.param({"log_format": "xml"}, {}, "--log-format", id="unknown format"),
        pytest.param({"tls_cert_file": "/c"}, {}, "--tls-private-key-file", id="certificate without its key"),
        pytest.param(
            {"plain_http": True, "tls_cert_file": "/c", "tls_private_key_file": "/k"}, {}, "--plain-http",
            id="certificate for plain HTTP",
        ),
    ],
)  # fmt: skip
def test_bad_values_are_named(typed: dict[str, Any], environment: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        load(typed, environment)


def test_a_variable_that_resembles_a_setting_is_found() -> None:
    """Variables that Kubernetes makes of Services, and those of the tests, resemble none."""
    others = ("PORT", "PORT_443_TCP_ADDR", "SERVICE_HOST", "TEST_DATABASE_URL", "ENCRYPTION_KEYS")
    environment = {f"{ENVIRONMENT_PREFIX}{name}": "1" for name in ("PROT", "WORKER", *others)} | {"PROT": "1"}
    found = [[name.removeprefix(ENVIRONMENT_PREFIX) for name in pair] for pair in find_misspelled(environment)]
    assert found == [["PROT", "PORT"], ["WORKER", "WORKERS"]]


def test_workers_get_equal_settings() -> None:
    typed = {"data_dir": "/x", "port": "0", "plain_http": True, "tls_names": "a,b", "database_url": "postgresql://h/d"}
    indexes = "configmaps=metadata.name, metadata.creationTimestamp desc; secrets=type"
    given = load({**typed, "builtin_indexes": indexes, "encrypt_resources": "none"}, {})
    assert load({}, to_environment(given)) == given
    assert load({}, to_environment(Settings(data_dir=Path("/x")))) == Settings(data_dir=Path("/x"))
