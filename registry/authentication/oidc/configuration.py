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

from registry.authentication.authenticator import Anonymous
from registry.authentication.oidc.expressions import CLAIMS, USER, BadExpression, ClaimExpression
from registry.codec.model import Decoded, DecodeError, TooManyValues
from registry.codec.structs.base import StructDecodeError
from registry.codec.structs.declarations import read_structs
from registry.codec.structs.meta import METAV1
from registry.codec.structs.structs import decode_file
from registry.codec.yaml_decode import decode_yaml
from registry.schema.hosts import HostError, split_host_port
from registry.schema.names import dns1123_subdomain

TENANT_KEY: Final = "tenancy.registry/tenant"
_API_VERSIONS: Final = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_CONFIGURATION: Final = read_structs(__package__, "apiserver_v1.txt", METAV1)["AuthenticationConfiguration"]
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

    @property
    def metadata_url(self) -> str:
        return self.discovery_url or self.url.removesuffix("/") + "/.well-known/openid-configuration"


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
        return parse_configuration(decode_yaml(data), own_issuer)
    except (OSError, DecodeError, TooManyValues, BadConfiguration) as error:
        raise BadConfiguration(f"{path}: {error}") from error


def parse_configuration(file: Decoded, own_issuer: str) -> Configuration:
    reader = _ConfigurationReader(own_issuer)
    try:
        configuration = reader.configuration(decode_file(_CONFIGURATION, file, _API_VERSIONS))
    except StructDecodeError as error:
        raise BadConfiguration(str(error)) from error
    if reader.errors:
        raise BadConfiguration("\n".join(reader.errors))
    return configuration


@dataclass(slots=True)
class _ConfigurationReader:
    own_issuer: str
    errors: list[str] = field(default_factory=list)

    def fault(self, path: str, text: str) -> None:
        self.errors.append(f"{path}: {text}")

    def items(self, members: Mapping[str, Any], name: str, path: str, limit: int) -> list[Any]:
        items: list[Any] = members.get(name, [])
        if len(items) > limit:
            self.fault(f"{path}.{name}".lstrip("."), f"must have at most {limit} items")
        return items[:limit]

    def configuration(self, top: Mapping[str, Any]) -> Configuration:
        issuers = [self.issuer(item, f"jwt[{i}]") for i, item in enumerate(self.items(top, "jwt", "", _MAX_ISSUERS))]
        for name, values in (
            ("issuer.url", [i.url for i in issuers]),
            ("issuer.discoveryURL", [i.discovery_url for i in issuers if i.discovery_url]),
        ):
            for value in {v for v in values if values.count(v) > 1}:
                self.fault(f"jwt[*].{name}", f"Duplicate value: {value}")
        return Configuration(issuers, self.anonymous(top.get("anonymous")))

    def anonymous(self, members: Mapping[str, Any] | None) -> Anonymous | None:
        if members is None:
            return None
        enabled = members.get("enabled", False)
        paths = [item.get("path", "") for item in self.items(members, "conditions", "anonymous", _MAX_RULES)]
        if paths and not enabled:
            self.fault("anonymous.conditions", "enabled should be set to true when conditions are defined")
        return Anonymous(enabled, frozenset(paths) if paths else None)

    def issuer(self, top: Mapping[str, Any], path: str) -> Issuer:
        issuer, at = top.get("issuer", {}), f"{path}.issuer"
        url = self.url(issuer.get("url", ""), f"{at}.url")
        if not url:
            self.fault(f"{at}.url", "Required value")
        if url == self.own_issuer or url.startswith(f"{self.own_issuer}/clusters/"):
            self.fault(f"{at}.url", "URL must not overlap with the issuer of service account tokens")
        discovery = self.url(issuer.get("discoveryURL", ""), f"{at}.discoveryURL")
        if discovery and discovery.rstrip("/") == url.rstrip("/"):
            self.fault(f"{at}.discoveryURL", "discoveryURL must be different from URL")
        mappings = self.mappings(top.get("claimMappings", {}), f"{path}.claimMappings")
        claim_rules = self.rules(top, "claimValidationRules", path, CLAIMS)
        user_rules = self.rules(top, "userValidationRules", path, USER)
        self.email(mappings, claim_rules, path)
        audiences, ca = self.audiences(issuer, at), self.ca(issuer, at)
        return Issuer(url, audiences, discovery, ca, **mappings, claim_rules=claim_rules, user_rules=user_rules)

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
        policy = issuer.get("audienceMatchPolicy", "")
        if not audiences:
            self.fault(f"{path}.audiences", "Required value: at least one audience is required")
        if not all(audiences) or len(set(audiences)) < len(audiences):
            self.fault(f"{path}.audiences", "must be different texts, none of them empty")
        if (len(audiences) > 1 and policy != "MatchAny") or policy not in ("", "MatchAny"):
            self.fault(f"{path}.audienceMatchPolicy", "must be MatchAny for multiple audiences, else empty or MatchAny")
        return frozenset(audiences)

    def ca(self, issuer: Mapping[str, Any], path: str) -> str:
        text: str = issuer.get("certificateAuthority", "")
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

    def mappings(self, top: Mapping[str, Any], path: str) -> dict[str, Any]:
        extra: dict[str, ClaimExpression] = {}
        for i, item in enumerate(self.items(top, "extra", path, _MAX_RULES)):
            at, key, text = f"{path}.extra[{i}]", item.get("key", ""), item.get("valueExpression", "")
            self.extra_key(key, f"{at}.key", extra)
            if not text:
                self.fault(f"{at}.valueExpression", "Required value")
            expression = self.expression(text, f"{at}.valueExpression", CLAIMS)
            if expression is not None:
                extra[key] = expression
        username = self.mapping(top, "username", path)
        if not username.is_set:
            self.fault(f"{path}.username", "Required value: claim or expression is required")
        return {
            "username": username,
            "groups": self.mapping(top, "groups", path),
            "uid": self.mapping(top, "uid", path, prefixed=False),
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

    def mapping(self, top: Mapping[str, Any], name: str, path: str, *, prefixed: bool = True) -> Mapped:
        members, path = top.get(name, {}), f"{path}.{name}"
        claim, prefix, text = members.get("claim", ""), members.get("prefix"), members.get("expression", "")
        if claim and text:
            self.fault(path, "claim and expression can't both be set")
        if text and prefix is not None:
            self.fault(f"{path}.prefix", "may not be specified when expression is set")
        if prefixed and claim and prefix is None:
            self.fault(
                f"{path}.prefix",
                "prefix is required when claim is set. It can be set to an empty string to disable prefixing",
            )
        return Mapped(claim, prefix or "", self.expression(text, f"{path}.expression", CLAIMS))

    def rules(self, top: Mapping[str, Any], name: str, path: str, variable: str) -> list[ClaimValidationRule]:
        rules: list[ClaimValidationRule] = []
        for i, item in enumerate(self.items(top, name, path, _MAX_RULES)):
            at = f"{path}.{name}[{i}]"
            claim, text, value, message = (item.get(n, "") for n in ("claim", "expression", "requiredValue", "message"))
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
