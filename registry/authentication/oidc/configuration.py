"""External issuers: the file apiserver.config.k8s.io AuthenticationConfiguration, decoded strictly and fully validated.

One thing is our own: the entry `tenancy.registry/tenant` of claimMappings.extra gives the name of the home tenant;
without it the home is `default`.

Follows apiserver pkg/apis/apiserver/{v1/types,validation/validation}.go.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

from registry.authentication.authenticator import Anonymous
from registry.authentication.oidc.expressions import CLAIMS, USER, BadExpression, ClaimExpression
from registry.schema.hosts import HostError, split_host_port
from registry.schema.names import dns1123_subdomain

TENANT_KEY: Final = "tenancy.registry/tenant"
_VERSIONS: Final = frozenset({"v1", "v1beta1", "v1alpha1"})
_GROUP: Final = "apiserver.config.k8s.io"
_MAX_ISSUERS: Final = 64
_MAX_RULES: Final = 64
_MAX_BYTES: Final = 1 << 20


class BadConfiguration(Exception):
    """The file cannot be used; `str()` has one line for each error."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """A mapping from claims to one or more texts: one claim with a prefix, or an expression."""

    claim: str = ""
    prefix: str = ""
    expression: ClaimExpression | None = None

    @property
    def is_set(self) -> bool:
        return bool(self.claim) or self.expression is not None


@dataclass(frozen=True, slots=True)
class ClaimValidationRule:
    """A claim that must have a value, or an expression that must hold."""

    claim: str = ""
    required_value: str = ""
    expression: ClaimExpression | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Issuer:
    url: str
    audiences: frozenset[str]
    discovery_url: str
    ca: str
    username: Mapped
    groups: Mapped
    uid: Mapped
    extra: Mapping[str, ClaimExpression]
    claim_rules: Sequence[ClaimValidationRule]
    user_rules: Sequence[ClaimValidationRule]


@dataclass(frozen=True, slots=True)
class Configuration:
    issuers: Sequence[Issuer] = ()
    # None if the file does not configure it.
    anonymous: Anonymous | None = None


def load_configuration(path: Path, own_issuer: str) -> Configuration:
    """Loads the file. Raises BadConfiguration. `own_issuer` is this server's, which no entry may use."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise BadConfiguration(f"{path}: longer than {_MAX_BYTES} bytes")
        document = yaml.safe_load(data)
    except (OSError, yaml.YAMLError, RecursionError) as error:
        raise BadConfiguration(f"{path}: {error}") from error
    try:
        return parse_configuration(document, own_issuer)
    except BadConfiguration as error:
        raise BadConfiguration(f"{path}: {error}") from error


def parse_configuration(document: Any, own_issuer: str) -> Configuration:
    reader = _Reader(own_issuer)
    configuration = reader.configuration(document)
    if reader.errors:
        raise BadConfiguration("\n".join(reader.errors))
    return configuration


@dataclass(slots=True)
class _Reader:
    own_issuer: str
    errors: list[str] = field(default_factory=list)

    def fault(self, path: str, text: str) -> None:
        self.errors.append(f"{path}: {text}")

    def members(self, value: Any, path: str, names: frozenset[str]) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fault(path, "must be an object")
            return {}
        for name in value:
            if name not in names:
                self.fault(f"{path}.{name}".lstrip("."), "unknown field")
        return value

    def text(self, members: Mapping[str, Any], name: str, path: str) -> str:
        value = members.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            self.fault(f"{path}.{name}", "must be a string")
            return ""
        return value

    def items(self, members: Mapping[str, Any], name: str, path: str, limit: int) -> list[Any]:
        value = members.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fault(f"{path}.{name}".lstrip("."), "must be a list")
            return []
        if len(value) > limit:
            self.fault(f"{path}.{name}".lstrip("."), f"must have at most {limit} items")
        return value[:limit]

    def configuration(self, document: Any) -> Configuration:
        top = self.members(document, "", frozenset({"apiVersion", "kind", "jwt", "anonymous"}))
        group, _, version = str(top.get("apiVersion")).partition("/")
        if group != _GROUP or version not in _VERSIONS or top.get("kind") != "AuthenticationConfiguration":
            self.fault("apiVersion", f"must be an AuthenticationConfiguration of {_GROUP}/v1")
        issuers = [self.issuer(item, f"jwt[{i}]") for i, item in enumerate(self.items(top, "jwt", "", _MAX_ISSUERS))]
        for name, values in (
            ("issuer.url", [i.url for i in issuers]),
            ("issuer.discoveryURL", [i.discovery_url for i in issuers if i.discovery_url]),
        ):
            for value in {v for v in values if values.count(v) > 1}:
                self.fault(f"jwt[*].{name}", f"Duplicate value: {value}")
        return Configuration(issuers, self.anonymous(top.get("anonymous")))

    def anonymous(self, value: Any) -> Anonymous | None:
        if value is None:
            return None
        members = self.members(value, "anonymous", frozenset({"enabled", "conditions"}))
        enabled, paths = members.get("enabled"), []
        if not isinstance(enabled, bool):
            self.fault("anonymous.enabled", "must be true or false")
        for i, item in enumerate(self.items(members, "conditions", "anonymous", _MAX_RULES)):
            path = f"anonymous.conditions[{i}]"
            paths.append(self.text(self.members(item, path, frozenset({"path"})), "path", path))
        if paths and enabled is False:
            self.fault("anonymous.conditions", "enabled should be set to true when conditions are defined")
        return Anonymous(enabled is True, frozenset(paths) if paths else None)

    def issuer(self, value: Any, path: str) -> Issuer:
        top = self.members(
            value, path, frozenset({"issuer", "claimMappings", "claimValidationRules", "userValidationRules"})
        )
        at = f"{path}.issuer"
        issuer = self.members(
            top.get("issuer"),
            at,
            frozenset({"url", "discoveryURL", "certificateAuthority", "audiences", "audienceMatchPolicy"}),
        )
        url = self.url(self.text(issuer, "url", at), f"{at}.url")
        if not url:
            self.fault(f"{at}.url", "Required value")
        if url == self.own_issuer or url.startswith(f"{self.own_issuer}/clusters/"):
            self.fault(f"{at}.url", "URL must not overlap with the issuer of service account tokens")
        discovery = self.url(self.text(issuer, "discoveryURL", at), f"{at}.discoveryURL")
        if discovery and discovery.rstrip("/") == url.rstrip("/"):
            self.fault(f"{at}.discoveryURL", "discoveryURL must be different from URL")
        mappings = self.mappings(top.get("claimMappings"), f"{path}.claimMappings")
        claim_rules = self.rules(top, "claimValidationRules", path, CLAIMS)
        user_rules = self.rules(top, "userValidationRules", path, USER)
        self.email(mappings, claim_rules, path)
        return Issuer(
            url,
            self.audiences(issuer, at),
            discovery,
            self.ca(issuer, at),
            mappings["username"],
            mappings["groups"],
            mappings["uid"],
            mappings["extra"],
            claim_rules,
            user_rules,
        )

    def url(self, text: str, path: str) -> str:
        if not text:
            return ""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            self.fault(path, str(error))
            return text
        if parts.scheme != "https" or not parts.hostname or port == 0:
            self.fault(path, "URL scheme must be https")
        if parts.username is not None or parts.password is not None:
            self.fault(path, "URL must not contain a username or password")
        if parts.query:
            self.fault(path, "URL must not contain a query")
        if parts.fragment:
            self.fault(path, "URL must not contain a fragment")
        try:
            split_host_port(parts.netloc.rpartition("@")[2])
        except HostError as error:
            self.fault(path, f"host {error}")
        return text

    def audiences(self, issuer: Mapping[str, Any], path: str) -> frozenset[str]:
        audiences = self.items(issuer, "audiences", path, _MAX_RULES)
        policy = self.text(issuer, "audienceMatchPolicy", path)
        if not audiences:
            self.fault(f"{path}.audiences", "Required value: at least one audience is required")
        if not all(isinstance(a, str) and a for a in audiences) or len(set(map(str, audiences))) < len(audiences):
            self.fault(f"{path}.audiences", "must be different texts, none of them empty")
        if (len(audiences) > 1 and policy != "MatchAny") or policy not in ("", "MatchAny"):
            self.fault(f"{path}.audienceMatchPolicy", "must be MatchAny for multiple audiences, else empty or MatchAny")
        return frozenset(str(a) for a in audiences)

    def ca(self, issuer: Mapping[str, Any], path: str) -> str:
        text = self.text(issuer, "certificateAuthority", path)
        if text:
            try:
                ssl.create_default_context(cadata=text)
            except (ssl.SSLError, ValueError):
                self.fault(f"{path}.certificateAuthority", "holds no certificates in PEM")
        return text

    def expression(self, text: str, path: str, variable: str, *, rule: bool = False) -> ClaimExpression | None:
        if not text:
            return None
        try:
            return ClaimExpression(text, variable, rule=rule)
        except BadExpression as error:
            self.fault(path, str(error))
            return None

    def mappings(self, value: Any, path: str) -> dict[str, Any]:
        top = self.members(value, path, frozenset({"username", "groups", "uid", "extra"}))
        extra: dict[str, ClaimExpression] = {}
        for i, item in enumerate(self.items(top, "extra", path, _MAX_RULES)):
            at = f"{path}.extra[{i}]"
            members = self.members(item, at, frozenset({"key", "valueExpression"}))
            key, text = self.text(members, "key", at), self.text(members, "valueExpression", at)
            self.extra_key(key, f"{at}.key", extra)
            if not text:
                self.fault(f"{at}.valueExpression", "Required value")
            expression = self.expression(text, f"{at}.valueExpression", CLAIMS)
            if expression is not None:
                extra[key] = expression
        username = self.read_mapping(top.get("username"), f"{path}.username", prefixed=True)
        if not username.is_set:
            self.fault(f"{path}.username", "Required value: claim or expression is required")
        return {
            "username": username,
            "groups": self.read_mapping(top.get("groups"), f"{path}.groups", prefixed=True),
            "uid": self.read_mapping(top.get("uid"), f"{path}.uid", prefixed=False),
            "extra": extra,
        }

    def extra_key(self, key: str, path: str, known: Mapping[str, ClaimExpression]) -> None:
        domain, slash, rest = key.partition("/")
        if not slash or dns1123_subdomain(domain) or not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", rest):
            self.fault(path, 'must be a domain-prefixed path (such as "acme.io/foo")')
        if key != key.lower():
            self.fault(path, "must be lowercase")
        if any(domain == d or domain.endswith(f".{d}") for d in ("kubernetes.io", "k8s.io")):
            self.fault(path, "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use")
        if key in known:
            self.fault(path, f"Duplicate value: {key}")

    def read_mapping(self, value: Any, path: str, *, prefixed: bool) -> Mapped:
        names = frozenset({"claim", "prefix", "expression"} if prefixed else {"claim", "expression"})
        members = self.members(value, path, names)
        claim, text = self.text(members, "claim", path), self.text(members, "expression", path)
        prefix = members.get("prefix")
        if claim and text:
            self.fault(path, "claim and expression can't both be set")
        if text and prefix is not None:
            self.fault(f"{path}.prefix", "may not be specified when expression is set")
        if prefixed and claim and prefix is None:
            self.fault(
                f"{path}.prefix",
                "prefix is required when claim is set. It can be set to an empty string to disable prefixing",
            )
        return Mapped(claim, self.text(members, "prefix", path), self.expression(text, f"{path}.expression", CLAIMS))

    def rules(self, top: Mapping[str, Any], name: str, path: str, variable: str) -> list[ClaimValidationRule]:
        rules: list[ClaimValidationRule] = []
        names = {"expression", "message"} | ({"claim", "requiredValue"} if variable == CLAIMS else set())
        for i, item in enumerate(self.items(top, name, path, _MAX_RULES)):
            at = f"{path}.{name}[{i}]"
            members = self.members(item, at, frozenset(names))
            claim, text = self.text(members, "claim", at), self.text(members, "expression", at)
            value, message = self.text(members, "requiredValue", at), self.text(members, "message", at)
            if bool(claim) == bool(text):
                self.fault(at, "claim and expression can't both be set" if claim else "claim or expression is required")
            if claim and message:
                self.fault(f"{at}.message", "may not be specified when claim is set")
            if text and value:
                self.fault(f"{at}.requiredValue", "may not be specified when expression is set")
            if any(
                (claim and r.claim == claim) or (text and r.expression and r.expression.text == text) for r in rules
            ):
                self.fault(at, f"Duplicate value: {claim or text}")
            rules.append(
                ClaimValidationRule(
                    claim, value, self.expression(text, f"{at}.expression", variable, rule=True), message
                )
            )
        return rules

    def email(self, mappings: Mapping[str, Any], rules: Sequence[ClaimValidationRule], path: str) -> None:
        """An expression that maps the e-mail address must check whether it has been verified."""
        username = mappings["username"].expression
        if username is None or not username.uses_claim("email"):
            return
        others = [username, *mappings["extra"].values(), *(r.expression for r in rules if r.expression is not None)]
        if not any(e.uses_claim("email_verified") for e in others):
            self.fault(
                f"{path}.claimMappings.username.expression",
                "claims.email_verified must be used in "
                "claimMappings.username.expression or claimMappings.extra[*].valueExpression or "
                "claimValidationRules[*].expression when claims.email is used in "
                "claimMappings.username.expression",
            )
