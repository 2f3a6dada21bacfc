"""The file of outside issuers: what is wrong with it is reported at once, all of it, with its place."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from registry.authentication.authenticator import Anonymous
from registry.authentication.oidc.configuration import BadConfiguration, load_configuration, parse_configuration
from registry.codec.model import Decoded

OWN = "https://registry.example"
GOOD: dict[str, Any] = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AuthenticationConfiguration",
    "jwt": [
        {
            "issuer": {"url": "https://issuer.example", "audiences": ["a"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        }
    ],
}


def test_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("""
apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: https://issuer.example
    discoveryURL: https://other.example/discovery
    audiences: [a, b]
    audienceMatchPolicy: MatchAny
  claimMappings:
    username: {expression: "claims.sub"}
    groups: {claim: groups, prefix: "g:"}
    uid: {claim: sub}
    extra:
    - {key: example.org/x, valueExpression: claims.x}
  claimValidationRules:
  - {claim: hd, requiredValue: example.org}
  - {expression: "claims.x == 'y'", message: "no"}
  userValidationRules:
  - {expression: "user.username != ''"}
anonymous:
  enabled: true
  conditions: [{path: /livez}]
""")
    found = load_configuration(path, OWN)
    (issuer,) = found.issuers
    assert issuer.audiences == {"a", "b"}
    assert issuer.groups.prefix == "g:"
    assert [*issuer.extra] == ["example.org/x"]
    assert [r.claim for r in issuer.claim_rules] == ["hd", ""]
    assert found.anonymous == Anonymous(True, frozenset({"/livez"}))


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with one member set, or taken away by None: `jwt.0.issuer.url`."""
    document = copy.deepcopy(GOOD)
    *way, last = path.split(".")
    place: Any = document
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return document


M, I = "jwt.0.claimMappings", "jwt.0.issuer"  # noqa: E741
WRONG: dict[str, tuple[str, Any, str]] = {
    "kind": ("kind", "Pod", "must be of kind AuthenticationConfiguration"),
    "version": ("apiVersion", "v1", "must be of kind AuthenticationConfiguration"),
    "unknown at the top": ("jwts", [], 'unknown field "jwts"'),
    "unknown below": (f"{I}.x", 1, 'unknown field "jwt[0].issuer.x"'),
    "jwt is no list": (
        "jwt",
        {},
        "cannot unmarshal object into Go struct field AuthenticationConfiguration.jwt of type",
    ),
    "too many": ("jwt", [{}] * 65, "at most 64"),
    "no url": (f"{I}.url", None, "jwt[0].issuer.url: Required value"),
    "http": (f"{I}.url", "http://a.example", "scheme must be https"),
    "user": (f"{I}.url", "https://u:p@a.example", "username or password"),
    "host with a dot": (f"{I}.url", "https://localhost.", "must not end with a dot"),
    "octal host": (f"{I}.discoveryURL", "https://0177.0.0.1/x", "without leading zeros"),
    "query": (f"{I}.url", "https://a.example?x", "query"),
    "fragment": (f"{I}.url", "https://a.example#x", "fragment"),
    "port": (f"{I}.url", "https://a.example:x", "issuer.url"),
    "ours": (f"{I}.url", OWN, "must not overlap"),
    "our tenant's": (f"{I}.url", f"{OWN}/clusters/acme", "must not overlap"),
    "discovery as url": (f"{I}.discoveryURL", "https://issuer.example/", "must be different"),
    "ca": (f"{I}.certificateAuthority", "x", "no certificates"),
    "no audience": (f"{I}.audiences", [], "at least one audience"),
    "empty audience": (f"{I}.audiences", [""], "none of them empty"),
    "twice": (f"{I}.audiences", ["a", "a"], "different"),
    "two": (f"{I}.audiences", ["a", "b"], "MatchAny"),
    "policy": (f"{I}.audienceMatchPolicy", "MatchAll", "MatchAny"),
    "no username": (f"{M}.username", None, "claim or expression is required"),
    "both": (f"{M}.username", {"claim": "a", "prefix": "", "expression": "claims.a"}, "can't both be set"),
    "no prefix": (f"{M}.username", {"claim": "a"}, "prefix is required"),
    "prefix and expression": (f"{M}.username", {"prefix": "a", "expression": "claims.a"}, "may not be specified"),
    "expression": (f"{M}.username", {"expression": "claims."}, "compilation failed"),
    "unknown variable": (f"{M}.username", {"expression": "user.username"}, "compilation failed"),
    "too long": (f"{M}.username", {"expression": "'" + "a" * 10_000 + "'"}, "longer than"),
    "email": (f"{M}.username", {"expression": "claims.email"}, "claims.email_verified must be used"),
    "extra key": (f"{M}.extra", [{"key": "x", "valueExpression": "''"}], "domain-prefixed"),
    "extra capitals": (f"{M}.extra", [{"key": "example.org/X", "valueExpression": "''"}], "lowercase"),
    "extra of kubernetes": (f"{M}.extra", [{"key": "a.k8s.io/x", "valueExpression": "''"}], "reserved"),
    "extra twice": (f"{M}.extra", [{"key": "a.b/x", "valueExpression": "''"}] * 2, "Duplicate value"),
    "extra without value": (f"{M}.extra", [{"key": "a.b/x"}], "valueExpression: Required"),
    "rule of nothing": ("jwt.0.claimValidationRules", [{}], "claim or expression is required"),
    "rule with message": ("jwt.0.claimValidationRules", [{"claim": "a", "message": "x"}], "when claim is set"),
    "rule with value": (
        "jwt.0.claimValidationRules",
        [{"expression": "true", "requiredValue": "x"}],
        "when expression is set",
    ),
    "rule is no bool": ("jwt.0.claimValidationRules", [{"expression": "'a'"}], "must evaluate to bool"),
    "rule twice": ("jwt.0.claimValidationRules", [{"expression": "true"}] * 2, "Duplicate value"),
    "user rule": ("jwt.0.userValidationRules", [{"expression": "user.nothing"}], "compilation failed"),
    "user rule on claims": ("jwt.0.userValidationRules", [{"expression": "claims.a == ''"}], "compilation failed"),
    "anonymous": ("anonymous", {"enabled": "yes"}, "of type bool"),
    "conditions of nobody": ("anonymous", {"enabled": False, "conditions": [{"path": "/"}]}, "should be set to true"),
    "two of one issuer": ("jwt", GOOD["jwt"] * 2, "Duplicate value: https://issuer.example"),
}


@pytest.mark.parametrize("path, value, fault", WRONG.values(), ids=WRONG)
def test_invalid_configurations(path: str, value: Any, fault: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        parse_configuration(Decoded(changed(path, value)), OWN)
    assert fault in str(caught.value)


def test_email_with_email_verified_is_accepted() -> None:
    for more in (
        {"claimValidationRules": [{"expression": "claims.email_verified == true"}]},
        {
            "claimMappings": {
                "username": {"expression": "claims.?email_verified.orValue(true) == true ? claims.email : ''"}
            }
        },
    ):
        document = changed("jwt.0.claimMappings.username", {"expression": "claims.email"})
        document["jwt"][0] |= more
        assert parse_configuration(Decoded(document), OWN).issuers


HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
FILES = {
    "no yaml": "a: [",
    "a list": "[]",
    "a duplicate": f"{HEAD}jwt: []\njwt: []",
    "a text as a list": f"{HEAD}jwt: a",
    "empty": "",
    "a tag": "!!python/object/apply:os.getcwd []",
    "deep": "[" * 5000,
    "a text": "x",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_invalid_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(BadConfiguration):
        load_configuration(path, OWN)
    with pytest.raises(BadConfiguration):
        load_configuration(tmp_path / "none.yaml", OWN)
