"""Converts changes to the events of a watch: filtered by its selectors, at its version.

The text of an event is cached with its change, for all watches at the same version of the same definition, within
bounds for the process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from sys import getsizeof
from typing import Any, Final, NamedTuple

from registry.api.answers import Event
from registry.api.converted_texts import Image, convert_texts
from registry.api.selectors.requirements import holds, row_test
from registry.api.singleflight import singleflight
from registry.api.verbs.selection import Selection
from registry.flowcontrol.evaluation import evaluate
from registry.flowcontrol.time_slice import TimeSlice
from registry.store.labels import StoredLabels
from registry.store.types import Change, ChangeType, ObjectKey

# The limit for all changes of a process.
MAX_BYTES: Final = 16 << 20
LARGE_BYTES: Final = 64 * 1024


class EventForms:
    """Texts and lines of events, cached with their changes.

    They are of use while a change is sent to its watches; the ring keeps changes for far longer, and counts only their
    size when read. So the oldest are evicted first, and large ones are made for each watch instead.
    Invariant: `held_bytes` is the sum over `_entries`.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._entries: deque[tuple[dict[Any, Any], Hashable, int]] = deque()
        self.held_bytes = 0

    def keep(self, forms: dict[Any, Any], key: Hashable, form: str | bytes, *, is_needed: bool = False) -> None:
        """Caches a form with a change, until evicted; not a large one, unless it `is_needed` there."""
        size = getsizeof(form)
        if size > LARGE_BYTES and not is_needed:
            return
        forms[key] = form
        self._entries.append((forms, key, size))
        self.held_bytes += size
        while self.held_bytes > self._max_bytes and not is_needed:
            old, old_key, size = self._entries.popleft()
            old.pop(old_key, None)
            self.held_bytes -= size


EVENT_FORMS: Final = EventForms()


class _Tests(NamedTuple):
    """What the labels of a row must be, and the text of its object; None for anything."""

    labels: Callable[[StoredLabels], bool] | None
    text: Callable[[str], bool] | None


class _Selected(NamedTuple):
    """Whether the labels of an object are selected before a change and after it, and the tests of its texts."""

    change: Change
    before: bool
    after: bool
    shows_old: Callable[[str], bool] | None
    shows_new: Callable[[str], bool] | None


class EventFilter:
    """Converts changes to the events of one watch.

    Selectable fields are found among the labels of a row while these are right for the watch's definition, else in the
    texts of the object before and after the change, both as they are read now.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._served = selection.request.served
        # Objects stored at a version that is gone are still shown, with name and metadata.
        self._lenient = self._served.leniently()
        self._prefix = f"{selection.request.namespace}/" if selection.request.namespace else ""
        self._key = selection.fields.key
        self._accepts = selection.fields.accepts
        by_text = selection.by_text()
        self._by_labels = _tests(selection)
        self._by_text = self._by_labels if by_text is selection else _tests(by_text)
        self._selects_all = self._by_labels == (None, None)

    async def convert(self, changes: Sequence[Change]) -> None:
        """Has the webhook convert `changes`, which the watch will see, and caches the texts with them.

        Watches that need the same conversion at the same time share one call, and its failure.
        """
        served = self._served
        if served.conversions is None:
            return
        wanted: list[tuple[Change, str, Image]] = []
        for change in changes:
            wanted.append((change, "new", _new_image(change)))
            if not self._selects_all and change.previous_body is not None:
                wanted.append((change, "old", _old_image(change, change.previous_body)))
        # What others have converted may be evicted before this task resumes.
        while missing := [
            w for w in wanted if self._key_of(w[1]) not in w[0].forms and w[2].version in served.definition.versions
        ]:
            await self._convert_missing(missing)

    async def _convert_missing(self, wanted: Sequence[tuple[Change, str, Image]]) -> None:
        served = self._served

        async def work() -> None:
            texts = await convert_texts(served, [image for _, _, image in wanted])
            for (change, which, _), text in zip(wanted, texts, strict=True):
                EVENT_FORMS.keep(change.forms, self._key_of(which), text, is_needed=True)

        states = tuple((which, image.uid, image.revision) for _, which, image in wanted)
        await singleflight(wanted[0][0].forms, (served.form_key, states), work)

    def _key_of(self, which: str) -> tuple[str, str]:
        return which, self._served.form_key

    async def events(self, changes: Sequence[Change]) -> list[Event]:
        """Returns the events for changes, in their order."""
        slices, seen = TimeSlice.current(), []
        for change in changes:
            if self._sees_key(change.key):
                seen.append(change)
                if slices.expired():
                    await slices.yield_now()
        if self._selects_all:
            await self.convert(seen)
            return [self._new(change.type, change) for change in seen]
        selected = await self._selected(seen, slices)
        await self.convert(seen)
        return [event for one in selected if (event := await self._event_of(one)) is not None]

    async def _selected(self, changes: Sequence[Change], slices: TimeSlice) -> list[_Selected]:
        """Returns the changes with whether their labels are selected."""
        selected = []
        for change in changes:
            before, after = change.type is not ChangeType.ADDED, change.type is not ChangeType.DELETED
            new = self._tests_of(change.revision, change.schema)
            old = self._tests_of(change.previous_revision, change.previous_schema)
            if old.labels is not None:
                before = before and await holds(old.labels, change.previous_labels)
            if new.labels is not None:
                after = after and await holds(new.labels, change.labels)
            if slices.expired():
                await slices.yield_now()
            selected.append(_Selected(change, before, after, old.text, new.text))
        return selected

    def _tests_of(self, revision: int, schema: int) -> _Tests:
        return self._by_labels if self._selection.labels_hold(revision, schema) else self._by_text

    async def _event_of(self, selected: _Selected) -> Event | None:
        change, before, after, shows_old, shows_new = selected
        if before and shows_old is not None:
            text = self._text(change, "new" if change.type is ChangeType.DELETED else "old")
            before = await self._test(shows_old, text)
        if after and shows_new is not None:
            after = await self._test(shows_new, self._text(change, "new"))
        return self._transition(change, before, after)

    async def _test(self, shows: Callable[[str], bool], text: str) -> bool:
        if self._served.conversions is not None:
            return shows(text)  # without yielding: converted texts may be evicted while other tasks run
        return await evaluate(partial(shows, text), len(text), repeatable=True)

    def _transition(self, change: Change, before: bool, after: bool) -> Event | None:
        if change.type is ChangeType.DELETED:
            return self._new(ChangeType.DELETED, change) if before else None
        if after:
            return self._new(ChangeType.MODIFIED if before else ChangeType.ADDED, change)
        return self._old(change) if before else None

    def _sees_key(self, key: ObjectKey) -> bool:
        if self._prefix and not key.startswith(self._prefix):
            return False
        if self._key is not None and key != self._key:
            return False
        return self._accepts is None or self._accepts(key)

    def _new(self, type_: ChangeType, change: Change) -> Event:
        return self._event(type_.value, change, "new")

    def _old(self, change: Change) -> Event:
        """Returns the object as it was before it left the selection, at the revision at which it left."""
        return self._event("DELETED", change, "old")

    def _event(self, type_: str, change: Change, which: str) -> Event:
        return Event(type_, self._text(change, which), change.forms, self._key_of(which))

    def _text(self, change: Change, which: str) -> str:
        key = self._key_of(which)
        text: str | None = change.forms.get(key)
        if text is None:
            if which == "new":
                text = self._lenient.text_of(change.revision, change.version, change.schema, change.body)
            else:
                text = self._lenient.text_of(
                    change.revision, change.previous_version, change.previous_schema, change.previous_body or ""
                )
            EVENT_FORMS.keep(change.forms, key, text)
        return text


def _new_image(change: Change) -> Image:
    # A deletion carries the body of the previous state.
    revision = change.previous_revision if change.type is ChangeType.DELETED else change.revision
    return Image(change.uid, change.key, revision, change.revision, change.version, change.schema, change.body)


def _old_image(change: Change, body: str) -> Image:
    version, schema = change.previous_version, change.previous_schema
    return Image(change.uid, change.key, change.previous_revision, change.revision, version, schema, body)


def _tests(selection: Selection) -> _Tests:
    return _Tests(row_test(selection.requirements) if selection.requirements else None, selection.fields.shows)
