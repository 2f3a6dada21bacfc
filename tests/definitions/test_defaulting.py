from __future__ import annotations

from typing import Any

import pytest

from registry.definitions.defaulting import default_definition
from tests.definitions.crds import version


@pytest.mark.parametrize(
    "given, names",
    [
        pytest.param({"kind": "Widget"}, {"kind": "Widget", "singular": "widget", "listKind": "WidgetList"}, id="both"),
        pytest.param(
            {"kind": "W", "singular": "s", "listKind": "L"}, {"kind": "W", "singular": "s", "listKind": "L"}, id="kept"
        ),
        pytest.param({"kind": "W", "singular": ""}, {"kind": "W", "singular": "w", "listKind": "WList"}, id="empty"),
        pytest.param({"plural": "ws"}, {"plural": "ws"}, id="no kind"),
    ],
)
def test_names(given: dict[str, Any], names: dict[str, Any]) -> None:
    crd: dict[str, Any] = {"spec": {"names": given}}
    default_definition(crd)
    assert crd["spec"]["names"] == names


@pytest.mark.parametrize(
    "given, port",
    [pytest.param({"name": "n"}, 443, id="absent"), pytest.param({"name": "n", "port": 0}, 0, id="zero is kept")],
)
def test_webhook_port(given: dict[str, Any], port: int) -> None:
    crd = {"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"service": given}}}}}
    default_definition(crd)
    assert given["port"] == port


def test_conversion_is_none() -> None:
    crd: dict[str, Any] = {}
    default_definition(crd)
    assert crd["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize(
    "stored, expected",
    [
        pytest.param(None, ["v2"], id="none"),
        pytest.param([], ["v2"], id="empty"),
        pytest.param(["x"], ["x"], id="kept"),
    ],
)
def test_stored_versions(stored: list[str] | None, expected: list[str]) -> None:
    crd: dict[str, Any] = {
        "spec": {"versions": [version("v1", storage=False), version("v2"), version("v3")]},
        "status": {"storedVersions": stored},
    }
    default_definition(crd)
    assert crd["status"]["storedVersions"] == expected
