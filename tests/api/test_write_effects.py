"""What a write says of itself to the store, beside what its strategy says: by this others find what it left to do."""

from __future__ import annotations

from typing import Any, cast

import pytest

from registry.api.dependents import effects_of
from registry.api.strategies.base import Strategy, WriteEffects
from registry.store.types import NO_FLAGS, WriteFlag

PLAIN = {"metadata": {"name": "a"}}
OWNED = {"metadata": {"name": "a", "ownerReferences": [{"uid": "u"}]}}
ENDING = {"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/x"]}}
COLLECTED = {"metadata": {**ENDING["metadata"], "finalizers": ["foregroundDeletion"]}}
FOLLOW_UP, TERMINATING, PENDING = WriteFlag.FOLLOW_UP, WriteFlag.TERMINATING, WriteFlag.PENDING


class OfKind:
    def __init__(self, effects: WriteEffects) -> None:
        self._effects = effects

    def write_effects(self, new: object, old: object) -> WriteEffects:
        return self._effects


@pytest.mark.parametrize(
    "new, old, flags",
    [
        pytest.param(PLAIN, None, NO_FLAGS, id="a-create"),
        pytest.param(OWNED, None, FOLLOW_UP, id="a-create-with-owners"),
        pytest.param(OWNED, PLAIN, FOLLOW_UP, id="an-update-with-owners"),
        pytest.param(PLAIN, OWNED, NO_FLAGS, id="an-update-that-drops-owners"),
        pytest.param(ENDING, PLAIN, TERMINATING, id="a-mark"),
        pytest.param(COLLECTED, PLAIN, TERMINATING | PENDING, id="a-mark-for-the-collector"),
        pytest.param(PLAIN, PLAIN, FOLLOW_UP, id="a-deletion"),
        pytest.param(COLLECTED, COLLECTED, FOLLOW_UP | TERMINATING, id="the-deletion-of-what-was-collected"),
    ],
)
def test_the_flags_of_a_write(new: dict[str, Any], old: dict[str, Any] | None, flags: WriteFlag) -> None:
    assert effects_of(cast(Strategy, OfKind({})), new, old).get("flags", NO_FLAGS) == flags
    of_kind: WriteEffects = {"flags": WriteFlag.COUNTS_AS_DEFINITION, "sharing": "x"}
    expected = {"flags": flags | WriteFlag.COUNTS_AS_DEFINITION, "sharing": "x"}
    assert effects_of(cast(Strategy, OfKind(of_kind)), new, old) == expected
