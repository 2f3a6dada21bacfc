"""The format `email`: one address as Go's net/mail.ParseAddress parses it.

In addition to `a@b` it allows `Name <a@b>`, `"quoted name" <a@b>`, comments in parentheses, a group with one address,
and an IP address in brackets as the domain. RFC 2047 words are treated as plain words: only their form matters here.
"""

from __future__ import annotations

import ipaddress
import re

from registry.schema.formats.net import is_ipv6

_simple = re.compile(r"[A-Za-z0-9_+-]++(?:\.[A-Za-z0-9_+-]++)*+@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)*+").fullmatch

# An atom contains any visible character but the specials; a phrase may contain most specials. Classes name what they do
# not contain: `re` needs milliseconds to compile one that goes up to U+10FFFF.
_atom = re.compile(r'[^\x00-\x20"(),:;<>@\[\\\]\x7f]+')
_permissive_atom = re.compile(r'[^\x00-\x20":<>\x7f]+')
_plain_words = re.compile(r'(?:[^\x00-\x20":<>\x7f]++[ \t]*+)++')
_quoted = re.compile(r'"(?:[^\x00-\x08\x0a-\x1f"\\\x7f]++|\\[^\x00-\x08\x0a-\x1f\x7f])*+"')
_comment_mark = re.compile(r"[()]|\\.", re.DOTALL)
_space = re.compile("[ \t]*")
_encoded_word = re.compile(r"=\?([^?]*)\?([^?]*)\?[^?]*\?=").fullmatch
_KNOWN_CHARSETS = frozenset({"utf-8", "iso-8859-1", "us-ascii"})


class _MailError(ValueError):
    pass


def is_email(text: str) -> bool:
    if _simple(text):
        return True
    parser = _MailParser(text)
    try:
        count = parser.address(with_group=True)
        parser.skip_comments()
    except _MailError:
        return False
    return parser.at_end() and count == 1


class _MailParser:
    """A recursive-descent parser. `place` is the index of the unread text; methods advance it or raise _MailError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.has_encoded_words = "=?" in text

    def address(self, *, with_group: bool) -> int:
        """Parses a mailbox or a group and returns its number of addresses."""
        self.skip_space()
        if self.at_end():
            raise _MailError
        before = self.place
        try:
            self.spec()
        except _MailError:
            self.place = before
        else:
            self.skip_space()
            if self.sees("("):
                self.comment()
            return 1
        if not self.sees("<"):
            self.phrase()
        self.skip_space()
        if with_group and self.took(":"):
            return self.group()
        if not self.took("<"):
            raise _MailError
        self.spec()
        if not self.took(">"):
            raise _MailError
        return 1

    def group(self) -> int:
        self.skip_space()
        if self.took(";"):
            self.skip_comments()
            return 0
        count = 0
        while True:
            count += self.address(with_group=False)
            self.skip_comments()
            if self.took(";"):
                self.skip_comments()
                return count
            if not self.took(","):
                raise _MailError

    def spec(self) -> None:
        self.skip_space()
        if self.sees('"'):
            if self.take(_quoted) == '""':
                raise _MailError
        else:
            self.dot_atom()
        if not self.took("@"):
            raise _MailError
        self.skip_space()
        if self.sees("["):
            self.domain_literal()
        else:
            self.dot_atom()

    def dot_atom(self) -> None:
        atom = self.take(_atom)
        if atom.startswith(".") or atom.endswith(".") or ".." in atom:
            raise _MailError

    def domain_literal(self) -> None:
        end = self.text.find("]", self.place)
        if end < 0 or not _is_ip(self.text[self.place + 1 : end]):
            raise _MailError
        self.place = end + 1

    def phrase(self) -> None:
        """Parses one or more words; stops after the last valid one."""
        words = 0
        if not self.has_encoded_words and _plain_words.match(self.text, self.place):
            self.take(_plain_words)
            words = 1
        while True:
            self.skip_space()
            if self.at_end():
                return
            try:
                if self.sees('"'):
                    self.take(_quoted)
                elif not _is_readable(self.take(_permissive_atom)):
                    raise _MailError
            except _MailError:
                if words:
                    return
                raise
            words += 1

    def comment(self) -> None:
        """Parses a comment, which may be nested; a backslash escapes the next character."""
        depth = 0
        for mark in _comment_mark.finditer(self.text, self.place):
            depth += {"(": 1, ")": -1}.get(mark.group(), 0)
            if depth == 0:
                self.place = mark.end()
                return
        raise _MailError

    def skip_space(self) -> None:
        match = _space.match(self.text, self.place)
        assert match is not None
        self.place = match.end()

    def skip_comments(self) -> None:
        self.skip_space()
        while self.sees("("):
            self.comment()
            self.skip_space()

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.place)
        if match is None:
            raise _MailError
        self.place = match.end()
        return match.group()

    def took(self, character: str) -> bool:
        if not self.sees(character):
            return False
        self.place += 1
        return True

    def sees(self, character: str) -> bool:
        return self.text.startswith(character, self.place)

    def at_end(self) -> bool:
        return self.place == len(self.text)


def _is_readable(word: str) -> bool:
    """A word in RFC 2047's form must be of a character set that Go supports."""
    match = _encoded_word(word)
    return match is None or match[1].lower() in _KNOWN_CHARSETS or match[2].lower() not in ("b", "q")


def _is_ip(text: str) -> bool:
    if is_ipv6(text):
        return True
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True
