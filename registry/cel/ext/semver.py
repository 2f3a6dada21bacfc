"""Semantic versions: semver(), isSemver() and their members; comparisons are in ordering.py.

Follows apiserver pkg/cel/library/semverlib.go and github.com/blang/semver/v4.
"""

from __future__ import annotations

from typing import Final

from registry.cel.common.values import EvalError, Opaque, TypeValue, Value
from registry.cel.ext.table import can_parse, function, member, mismatch, traversal
from registry.codec.go_text import go_quote
from registry.codec.text_cache import cache_short

SEMVER: Final = TypeValue("kubernetes.Semver")

_DIGITS: Final = frozenset("0123456789")
_NAME: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-")


class Semver(Opaque):
    """Major, minor, patch and the pre-release identifiers; build metadata is ignored in comparisons."""

    __slots__ = ("build", "numbers", "pre")

    type = SEMVER
    has_text = False

    def __init__(self, numbers: tuple[int, int, int], pre: tuple[int | str, ...], build: tuple[str, ...]) -> None:
        self.numbers = numbers
        self.pre = pre
        self.build = build

    def is_same(self, other: Semver) -> bool:
        return self.compare(other) == 0

    def compare(self, other: Semver) -> int:
        if self.numbers != other.numbers:
            return 1 if self.numbers > other.numbers else -1
        if not self.pre or not other.pre:
            return bool(other.pre) - bool(self.pre)
        for left, right in zip(self.pre, other.pre, strict=False):
            if left != right:
                return _compare_parts(left, right)
        return (len(self.pre) > len(other.pre)) - (len(self.pre) < len(other.pre))


def _compare_parts(left: int | str, right: int | str) -> int:
    """Numeric identifiers come before alphanumeric ones."""
    if isinstance(left, int) and isinstance(right, int):
        return 1 if left > right else -1
    if isinstance(left, str) and isinstance(right, str):
        return 1 if left > right else -1
    return -1 if isinstance(left, int) else 1


@cache_short(200, 2048)
def parse_semver(text: str) -> Semver:
    """Parses a version. Raises EvalError with blang/semver's text."""
    if not text:
        raise EvalError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvalError("No Major.Minor.Patch elements found")
    major = _number(parts[0], "Major", "major")
    minor = _number(parts[1], "Minor", "minor")
    rest, plus, build_text = parts[2].partition("+")
    patch_text, dash, pre_text = rest.partition("-")
    build = build_text.split(".") if plus else []
    patch = _number(patch_text, "Patch", "patch")
    pre = [_pre_release(part) for part in pre_text.split(".")] if dash else []
    for part in build:
        if not part:
            raise EvalError("Build meta data is empty")
        if not _NAME.issuperset(part):
            raise EvalError(f"Invalid character(s) found in build meta data {go_quote(part)}")
    return Semver((major, minor, patch), tuple(pre), tuple(build))


def _number(text: str, title: str, name: str) -> int:
    if not _DIGITS.issuperset(text):
        raise EvalError(f"Invalid character(s) found in {name} number {go_quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvalError(f"{title} number must not contain leading zeroes {go_quote(text)}")
    return _uint(text)


def _uint(text: str) -> int:
    if not text:
        raise EvalError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) >= 1 << 64:
        raise EvalError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return int(text)


def _pre_release(text: str) -> int | str:
    if not text:
        raise EvalError("Prerelease is empty")
    if _DIGITS.issuperset(text):
        if len(text) > 1 and text[0] == "0":
            raise EvalError(f"Numeric PreRelease version must not contain leading zeroes {go_quote(text)}")
        return _uint(text)
    if not _NAME.issuperset(text):
        raise EvalError(f"Invalid character(s) found in prerelease {go_quote(text)}")
    return text


def normalize_text(text: str) -> str:
    """The tolerant form: `v1.02` becomes `1.2.0`."""
    parts = text.removeprefix("v").split(".", 2)
    for position, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[position] = stripped if stripped[:1] in _DIGITS else "0" + stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvalError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


@function("semver", 1, 2, cost=traversal())
def semver(value: Value, normalize: Value = False) -> Semver:
    if type(value) is not str or type(normalize) is not bool:
        raise mismatch("semver", value)
    return parse_semver(normalize_text(value) if normalize else value)


@function("isSemver", 1, 2, cost=traversal())
def is_semver(value: Value, normalize: Value = False) -> bool:
    if type(value) is not str or type(normalize) is not bool:
        raise mismatch("isSemver", value)
    return can_parse(lambda text: parse_semver(normalize_text(text) if normalize else text), value)


def _part(value: Semver, position: int) -> int:
    number = value.numbers[position]
    return number - (1 << 64) if number >= 1 << 63 else number  # Go converts uint64 to int64


@member("major", 1, of=(Semver,))
def major(value: Semver) -> int:
    return _part(value, 0)


@member("minor", 1, of=(Semver,))
def minor(value: Semver) -> int:
    return _part(value, 1)


@member("patch", 1, of=(Semver,))
def patch(value: Semver) -> int:
    return _part(value, 2)
