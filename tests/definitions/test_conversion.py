from __future__ import annotations

import base64
from typing import Any

import pytest

from registry.definitions.conversion import has_invalid_ca_bundle, validate_conversion
from tests.definitions.crds import messages

URL = {"url": "https://h.example.com/c"}
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n").decode()


def webhook(client: dict[str, Any] | None, versions: list[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"conversionReviewVersions": ["v1"] if versions is None else versions}
    return {"strategy": "Webhook", "webhook": found | ({} if client is None else {"clientConfig": client})}


@pytest.mark.parametrize(
    "conversion, errors",
    [
        pytest.param(None, [], id="none"),
        pytest.param({"strategy": "None"}, [], id="None"),
        pytest.param(webhook(URL), [], id="url"),
        pytest.param({}, ["c.strategy: Required value"], id="no strategy"),
        pytest.param(
            {"strategy": "none"},
            ['c.strategy: Unsupported value: "none": supported values: "None", "Webhook"'],
            id="strategy",
        ),
        pytest.param(
            {**webhook(URL), "strategy": "None"},
            [
                f"c.{name}: Forbidden: should not be set when strategy is not set to Webhook"
                for name in ("webhookClientConfig", "conversionReviewVersions")
            ],
            id="settings without Webhook",
        ),
        pytest.param(
            {"strategy": "Webhook"},
            [
                "c.webhookClientConfig: Required value: required when strategy is set to Webhook",
                "c.conversionReviewVersions: Required value",
            ],
            id="no webhook",
        ),
        pytest.param(
            webhook({}),
            ["c.webhookClientConfig: Required value: exactly one of url or service is required"],
            id="neither",
        ),
        pytest.param(
            webhook({**URL, "service": {"name": "n", "namespace": "m", "port": 443}}),
            ["c.webhookClientConfig: Required value: exactly one of url or service is required"],
            id="both",
        ),
        pytest.param(webhook({**URL, "caBundle": PEM}), [], id="bundle not looked at yet"),
        pytest.param(
            webhook(URL, ["v2", "v2", "A"]),
            [
                'c.conversionReviewVersions[1]: Invalid value: "v2": duplicate version',
                'c.conversionReviewVersions[2]: Invalid value: "A": a DNS-1035 label',
                'c.conversionReviewVersions: Invalid value: ["v2","v2","A"]: must include at least one of v1, v1beta1',
            ],
            id="review versions",
        ),
    ],
)
def test_conversion(conversion: dict[str, Any] | None, errors: list[str]) -> None:
    found = messages(validate_conversion(conversion, "c", allow_invalid_ca_bundle=True))
    assert len(found) == len(errors)
    assert all(f.startswith(e) for f, e in zip(found, errors, strict=True)), found


FORM = "; desired format: https://host[/path]"


@pytest.mark.parametrize(
    "url, errors",
    [
        pytest.param("https://localhost/c", [], id="local"),
        pytest.param("http://h", [f"Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}"], id="http"),
        pytest.param(
            "h/c",
            [
                f"Invalid value: \"\": 'https' is the only allowed URL scheme{FORM}",
                f'Invalid value: "": host must be specified{FORM}',
            ],
            id="no scheme",
        ),
        pytest.param(
            "https://u:p@h?q#f",
            [
                'Invalid value: "u:p": user information is not permitted in the URL',
                'Invalid value: "f": fragments are not permitted in the URL',
                'Invalid value: "q": query parameters are not permitted in the URL',
            ],
            id="more than host and path",
        ),
        pytest.param(
            "https://h:x/",
            [f'Required value: url must be a valid URL: parse "https://h:x/": invalid port ":x" after host{FORM}'],
            id="port",
        ),
        *(
            pytest.param(f"https://{host}/c", [f'Invalid value: "{host}": host {why}{FORM}'], id=host)
            for host, why in {
                "0177.0.0.1": "an IPv4 address must be four decimal numbers without leading zeros",
                "127.1": "an IPv4 address must be four decimal numbers without leading zeros",
                "①②⑦.0.0.1": "must be ASCII: write an internationalized name in its xn-- form",
                "localhost.": "must not end with a dot",
                "[::ffff:127.0.0.1]": "an IPv4 address must not be written as an IPv6 address",
                "h:0": "port must be between 1 and 65535, inclusive",
            }.items()
        ),
    ],
)
def test_url(url: str, errors: list[str]) -> None:
    found = messages(validate_conversion(webhook({"url": url}), "c", allow_invalid_ca_bundle=True))
    assert found == [f"c.webhookClientConfig.url: {error}" for error in errors]


def test_an_unchanged_host_is_not_validated_again() -> None:
    old = webhook({"url": "https://localhost./c"})
    assert validate_conversion(old, "c", allow_invalid_ca_bundle=True, old=old) == []
    other = webhook({"url": "https://localhost./d"})
    assert len(validate_conversion(other, "c", allow_invalid_ca_bundle=True, old=old)) == 1


@pytest.mark.parametrize(
    "service, errors",
    [
        pytest.param({}, [], id="good"),
        pytest.param({"namespace": ""}, ["name: Required value"], id="no namespace, reported as the reference does"),
        pytest.param({"name": ""}, ["namespace: Required value"], id="no name"),
        pytest.param(
            {"port": 0},
            ["port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive"],
            id="port",
        ),
        pytest.param({"path": "/a/b/"}, [], id="path"),
        pytest.param({"path": "//"}, ['path: Invalid value: "//": segment[0] may not be empty'], id="two slashes"),
        pytest.param(
            {"path": "a/b"},
            [
                "path: Invalid value: \"a/b\": must start with a '/'",
                'path: Invalid value: "a/b": segment[0] may not be empty',
            ],
            id="no slash",
        ),
        pytest.param(
            {"path": "/A//b"},
            [
                'path: Invalid value: "/A//b": segment[0]: a lowercase RFC 1123 subdomain',
                'path: Invalid value: "/A//b": segment[1] may not be empty',
            ],
            id="segments",
        ),
    ],
)
def test_service(service: dict[str, Any], errors: list[str]) -> None:
    client = {"service": {"name": "n", "namespace": "m", "port": 443} | service}
    found = messages(validate_conversion(webhook(client), "c", allow_invalid_ca_bundle=True))
    assert len(found) == len(errors)
    assert all(f.startswith(f"c.webhookClientConfig.service.{e}") for f, e in zip(found, errors, strict=True)), found


@pytest.mark.parametrize(
    "bundle, why",
    [
        pytest.param("QUJD", "unable to parse bytes as PEM block", id="no PEM"),
        pytest.param(PEM, "failed to parse certificate", id="no certificate"),
    ],
)
def test_ca_bundle(bundle: str, why: str) -> None:
    conversion = webhook({**URL, "caBundle": bundle})
    assert has_invalid_ca_bundle(conversion)
    assert messages(validate_conversion(conversion, "c", allow_invalid_ca_bundle=False)) == [
        f'c.webhookClientConfig.caBundle: Invalid value: "{bundle}": unable to load root certificates: {why}'
    ]
    assert not has_invalid_ca_bundle(webhook(URL))
