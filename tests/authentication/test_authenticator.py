"""The ways of authentication together: anonymous requests, what is logged, what is remembered."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from registry.authentication.authenticator import Anonymous, Authentication, Identified, Rejected, Unauthenticated
from registry.authentication.user import User
from registry.caches import ExpiringCache
from registry.settings.declarations import SettingsError
from registry.settings.loading import load
from tests.application import serving


class Knows:
    """An authenticator that knows one token and rejects those that begin like it."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked = 0

    def recall(self, token: str) -> User | None:
        return None

    async def identify(self, token: str, audiences: Sequence[str] | None = None) -> Identified | None:
        self.asked += 1
        if token == self.word:
            return Identified(User(self.word))
        if token.startswith(self.word):
            raise Rejected(f"no {self.word}")
        return None


async def test_the_first_authenticator_that_recognizes_a_credential_decides() -> None:
    first, second = Knows("a"), Knows("ab")
    authentication = Authentication([first, second])
    assert (await authentication.user_of({"path": "/"}, "Bearer ab", [])).name == "ab", "a rejection is no verdict"
    assert (await authentication.user_of({"path": "/"}, "Bearer a", [])).name == "a"
    assert (first.asked, second.asked) == (2, 1)
    faults: list[str] = []
    assert await authentication.identify("abc", None, faults) is None
    assert faults == ["no a", "no ab"]
    with pytest.raises(Unauthenticated):
        await authentication.user_of({"path": "/"}, "Bearer abc", [])
    assert await authentication.identify("a" * 70_000, None, []) is None
    assert first.asked == 4, "nobody is asked about a token that is too long"


async def test_failures_are_logged_once_a_second(caplog: pytest.LogCaptureFixture) -> None:
    authentication = Authentication([Knows("a")])
    with caplog.at_level(logging.INFO):
        for number in range(100):
            with pytest.raises(Unauthenticated):
                await authentication.user_of({"path": "/"}, f"Bearer a{number}", [])
    assert 1 <= len(caplog.records) < 50
    assert caplog.records[0].getMessage() == "a bearer token was refused: no a"


ANONYMOUS: dict[str, tuple[Anonymous, str, bool]] = {
    "all": (Anonymous(), "/api", True),
    "nothing": (Anonymous(False), "/livez", False),
    "one path": (Anonymous(True, frozenset({"/livez"})), "/livez", True),
    "another path": (Anonymous(True, frozenset({"/livez"})), "/readyz", False),
    "a path below": (Anonymous(True, frozenset({"/livez"})), "/livez/ping", False),
}


@pytest.mark.parametrize("anonymous, path, allowed", ANONYMOUS.values(), ids=ANONYMOUS)
def test_who_may_be_anonymous(anonymous: Anonymous, path: str, allowed: bool) -> None:
    assert anonymous.allows(path) is allowed


async def test_no_anonymous_requests(api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path, anonymous_auth=False) as api:
        assert (await api.get("/version")).code == 200
        for path in ("/version", "/livez", "/api/v1/namespaces"):
            assert (await api.with_token("").get(path)).code == 401, path


def test_a_cache_is_bounded_and_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("registry.caches.monotonic", lambda: now)
    cache: ExpiringCache[str, int] = ExpiringCache(2)
    cache.put("a", 1, 10)
    cache.put("b", 2, 10)
    assert cache.get("a") == 1
    cache.put("c", 3, 5)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)
    now = 5.0
    assert (cache.get("a"), cache.get("c")) == (1, None)
    cache.pop("a")
    assert cache.get("a") is None


ISSUERS = {
    "": False,
    "https://a.example": True,
    "https://a.example:8443/b/": True,
    "http://a.example": False,
    "https://": False,
    "https://a.example?x": False,
    "https://a.example#x": False,
    "https://u@a.example": False,
    "https://é.example": False,
    "a.example": False,
}


@pytest.mark.parametrize("text, good", ISSUERS.items())
def test_issuers_that_can_be_set(text: str, good: bool, tmp_path: Path) -> None:
    typed = {"data_dir": str(tmp_path), "service_account_issuer": text}
    if good:
        assert load(typed, {}).service_account_issuer == text.rstrip("/")
    else:
        with pytest.raises(SettingsError, match="--service-account-issuer"):
            load(typed, {})
