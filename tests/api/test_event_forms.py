"""The cache of events encoded for other watchers is bounded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from registry.api.answers import Event
from registry.api.served import Served
from registry.api.verbs.event_filter import EVENT_FORMS, LARGE_BYTES, EventForms
from registry.api.wildcard.requests import annotated_event


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


@pytest.mark.parametrize("size, are_kept", [(1_000, True), (LARGE_BYTES, False)])
async def test_events_of_several_tenants_are_kept_within_the_same_bounds(size: int, are_kept: bool) -> None:
    """They were kept for as long as the change, which may be hours, and were not counted."""
    head = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"'
    served = cast(Served, SimpleNamespace(head=head))
    forms: dict[Any, Any] = {}
    event = Event("ADDED", f'{head}7","name":"a"}},"data":{{"a":"{"x" * size}"}}}}', forms, ("new",))
    before = EVENT_FORMS.held_bytes
    annotated = await annotated_event(event, served, "acme")
    assert '"annotations":{"tenancy.registry/tenant":"acme"}' in annotated.text
    assert (len(forms), EVENT_FORMS.held_bytes > before) == (are_kept, are_kept)
