"""Validation of names: DNS labels and subdomains, label keys and values, path segments.

Each function returns the errors of a text as a list of messages; an empty list (always the same object) means that it
is valid. Follows apimachinery pkg/util/validation/validation.go and pkg/api/validate/content/*.go at 1.36, which
measure names in "characters" and label keys in "bytes"; both mean bytes of UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

# A name function takes a name and whether it is only a prefix (generateName).
NameFunction = Callable[[str, bool], list[str]]

_NONE: list[str] = []

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = "(" + _KEY + ")?"

_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_dns1035 = re.compile(_DNS1035).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch


def regex_error(message: str, regex: str, *examples: str) -> str:
    """`regex_error("must be x", "x+", "xx")` is `must be x (e.g. 'xx', regex used for validation is 'x+')`."""
    if not examples:
        return f"{message} (regex used for validation is '{regex}')"
    formats = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {formats}regex used for validation is '{regex}')"


_LABEL_ERROR = regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_ERROR = regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_DNS1035_ERROR = regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _DNS1035,
    "my-name",
    "abc-123",
)
_KEY_ERROR = regex_error(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _KEY,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_ERROR = regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)


def _longer(text: str, limit: int) -> bool:
    return len(text) > limit or (not text.isascii() and len(text.encode()) > limit)


def dns1123_label(text: str) -> list[str]:
    if len(text) <= 63 and _is_label(text):
        return _NONE
    errors = ["must be no more than 63 characters"] if _longer(text, 63) else []
    if not _is_label(text):
        errors.append("must not contain dots" if _is_subdomain(text) else _LABEL_ERROR)
    return errors


def dns1123_subdomain(text: str, unit: str = "characters") -> list[str]:
    if len(text) <= 253 and _is_subdomain(text):
        return _NONE
    errors = [f"must be no more than 253 {unit}"] if _longer(text, 253) else []
    if not _is_subdomain(text):
        errors.append(_SUBDOMAIN_ERROR)
    return errors


def dns1035_label(text: str) -> list[str]:
    if len(text) <= 63 and _is_dns1035(text):
        return _NONE
    errors = ["must be no more than 63 characters"] if _longer(text, 63) else []
    if not _is_dns1035(text):
        errors.append(_DNS1035_ERROR)
    return errors


@lru_cache(maxsize=8192)
def _is_good_key(text: str) -> bool:
    # The same few keys recur; looking one up takes a fifth of the time of validating it.
    return not _key_errors(text)


@lru_cache(maxsize=8192)
def _is_good_value(text: str) -> bool:
    return _is_value(text) is not None


def label_key(text: str) -> list[str]:
    """The errors of a label key, also called a qualified name: `example.com/MyName` or `MyName`."""
    return _NONE if len(text) <= 317 and _is_good_key(text) else _key_errors(text)


def _key_errors(text: str) -> list[str]:
    errors: list[str] = []
    prefix, slash, name = text.partition("/")
    if not slash:
        name = prefix
    elif "/" in name:
        return [
            f"a valid label key {_KEY_ERROR} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    elif not prefix:
        errors.append("prefix part must be non-empty")
    else:
        errors.extend("prefix part " + message for message in dns1123_subdomain(prefix, "bytes"))
    if not name:
        errors.append("name part must be non-empty")
    elif _longer(name, 63):
        errors.append("name part must be no more than 63 bytes")
    if not _is_key(name):
        errors.append("name part " + _KEY_ERROR)
    return errors


def label_value(text: str) -> list[str]:
    if len(text) <= 63 and _is_good_value(text):
        return _NONE
    errors = ["must be no more than 63 bytes"] if _longer(text, 63) else []
    if not _is_value(text):
        errors.append(_VALUE_ERROR)
    return errors


# ---- name functions: (name, whether it is a generateName) -> messages


def name_is_dns_subdomain(name: str, prefix: bool = False) -> list[str]:
    return dns1123_subdomain(_mask_trailing_dash(name) if prefix else name)


def name_is_dns_label(name: str, prefix: bool = False) -> list[str]:
    return dns1123_label(_mask_trailing_dash(name) if prefix else name)


def name_is_dns1035_label(name: str, prefix: bool = False) -> list[str]:
    return dns1035_label(_mask_trailing_dash(name) if prefix else name)


def name_is_path_segment(name: str, prefix: bool = False) -> list[str]:
    """A name that can be a URL path segment: anything but `.`, `..`, and names with `/` or `%`."""
    if not prefix and (name == "." or name == ".."):
        return [f"may not be '{name}'"]
    if "/" in name or "%" in name:
        return [f"may not contain '{illegal}'" for illegal in "/%" if illegal in name]
    return _NONE


# Names are keys of indexes, whose entries PostgreSQL limits to 2,704 bytes including the namespace and the resource.
MAX_STORED_BYTES = 1024


def name_is_stored_segment(name: str, prefix: bool = False) -> list[str]:
    """A path segment that PostgreSQL can store as a key. etcd allows others; no other kind of name gets this long."""
    errors = name_is_path_segment(name, prefix)
    if "\x00" in name:
        errors = [*errors, "may not contain U+0000"]
    if _longer(name, MAX_STORED_BYTES):
        errors = [*errors, f"must be no more than {MAX_STORED_BYTES} bytes"]
    return errors


def _mask_trailing_dash(name: str) -> str:
    # kube-apiserver also removes the character before the dash; with it, `a_-` is valid.
    return name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name
