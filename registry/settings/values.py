"""Parses the texts of flags and environment variables. Each function raises ValueError with what a value must be."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from registry.webhooks.egress import EgressPolicy
from registry.webhooks.services import parse_services


def whole_number(lowest: int, highest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10 and lowest <= int(text) <= highest):
            raise ValueError(f"must be a whole number from {lowest} to {highest}")
        return int(text)

    return parse


def database_address(text: str) -> str:
    """Validates that a text is a URL of PostgreSQL, or has libpq's form 'host=db1 dbname=registry'."""
    if not text.startswith(("postgresql://", "postgres://")) and ("=" not in text or "://" in text.partition("=")[0]):
        raise ValueError("must be a URL such as postgresql://user:password@host/database")
    return text


def switch(text: str) -> bool:
    known = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if text.lower() not in known:
        raise ValueError("must be true or false")
    return known[text.lower()]


def path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as problem:  # '~user' of an unknown user
        raise ValueError(f"{text}: {problem}") from problem


def names(text: str) -> tuple[str, ...]:
    """Parses 'a.example, b.example' to ('a.example', 'b.example')."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


# Parts of these are read by SQL in the database itself.
_NEVER_ENCRYPTED = frozenset(
    {"namespaces", "customresourcedefinitions.apiextensions.k8s.io", "tenants.tenancy.registry"}
)


def resources(text: str) -> tuple[str, ...]:
    """Parses 'secrets, widgets.example.com'; 'none' means no resource."""
    listed = names(text)
    if not listed:
        raise ValueError("must name a resource, or be none")
    for name in listed:
        if name in _NEVER_ENCRYPTED or name.endswith(".rbac.authorization.k8s.io"):
            raise ValueError(f"{name} cannot be encrypted: the server looks at it in the database")
    return listed


def builtin_indexes(text: str) -> tuple[tuple[str, str], ...]:
    """Parses 'configmaps=metadata.creationTimestamp; leases.coordination.k8s.io=spec.holderIdentity' to pairs."""
    indexes = []
    for part in text.split(";"):
        name, equals, fields = (one.strip() for one in part.partition("="))
        if not (name and equals and fields):
            raise ValueError("must be <resource>=<fields>, separated by ;")
        indexes.append((name, fields))
    return tuple(indexes)


def networks(text: str) -> tuple[str, ...]:
    """Parses '127.0.0.1/32, fd00::/8', and validates it."""
    listed = names(text)
    EgressPolicy(listed)
    return listed


def issuer(text: str) -> str:
    """Validates an https URL without a query."""
    if not re.fullmatch(r"https://[^\s/?#@]+(/[^\s?#]*)?", text) or not text.isascii():
        raise ValueError("must be an https URL without query and fragment")
    return text.rstrip("/")


def services(text: str) -> tuple[str, ...]:
    """Parses 'hook.default=10.0.0.7:8443', and validates it."""
    listed = names(text)
    parse_services(listed)
    return listed


def host_pattern(text: str) -> str:
    """Validates '{tenant}.example.com': the tenant is the first label."""
    if text and not re.fullmatch(r"\{tenant\}(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+", text):
        raise ValueError("must be {tenant}. and the rest of a host name in lower case, such as {tenant}.example.com")
    return text


def header_text(text: str) -> str:
    """Validates a line of ASCII."""
    if not (text.isascii() and text.isprintable()):
        raise ValueError("must be a line of ASCII")
    return text


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return text

    return parse
