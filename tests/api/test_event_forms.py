"""The cache of events encoded for other watchers is bounded."""

from __future__ import annotations

from typing import Any

from registry.api.event_forms import LARGE_BYTES, EventForms


def test_the_oldest_encodings_are_evicted_first() -> None:
    forms: list[dict[Any, Any]] = [{} for _ in range(5)]
    kept = EventForms(max_bytes=3_500)
    for one in forms:
        kept.keep(one, "text", "x" * 1_000)
    assert [len(one) for one in forms] == [0, 0, 1, 1, 1]
    assert kept.held_bytes < 3_500


def test_large_encodings_are_kept_only_if_needed() -> None:
    form: dict[Any, Any] = {}
    kept = EventForms()
    kept.keep(form, "line", b"x" * LARGE_BYTES)
    assert not form
    kept.keep(form, "converted", "x" * LARGE_BYTES, is_needed=True)
    assert form
