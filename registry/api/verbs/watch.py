"""Watch: what happens to the objects of a selection, from a revision on, in the order of the commits.

A watch is a list (where it begins with what is there) and then the change log from exactly the revision of that list.
An object that leaves the selection is a DELETED with its old content, one that enters it an ADDED.

Follows apiserver pkg/endpoints/handlers/get.go, pkg/storage/cacher and pkg/storage/etcd3/watcher.go.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple

from registry.api.answers import Event, WatchAnswer
from registry.api.conversions import Image
from registry.api.errors import StatusError, expired, plain_internal, too_large
from registry.api.freshness import wait_for_revision
from registry.api.options import ListOptions, list_options, parse_revision
from registry.api.request import CatalogStale, ResourceRequest
from registry.api.selectors import satisfies
from registry.api.singleflight import singleflight
from registry.api.verbs.list import Selection, row_texts, select
from registry.budget import BudgetExceeded
from registry.codec.json_encode import encode_json_text
from registry.store.errors import RevisionExpired, StoreError
from registry.store.types import Change, ChangeType, ObjectKey, Page

# Clients reconnect after 70 seconds of silence (kopf), and kube-apiserver sends a bookmark a minute.
BOOKMARK_SECONDS = 50.0
# A watch without timeoutSeconds lasts between this and twice this, so that not all clients return at once
# (handlers/get.go, minRequestTimeout).
MIN_WATCH_SECONDS = 1800
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


async def watch(request: ResourceRequest) -> WatchAnswer:
    """The selectors and the start are judged at once; what goes wrong later is an ERROR event."""
    options = replace(list_options(request.query), watch=True)
    selection = select(request, options)
    revision = start_of(options)
    if revision > 0:
        await wait_for_revision(request, revision)
    # Read here, so that a request that was judged by old definitions is judged again instead of ending at once.
    beginning: Beginning | None = None
    if begins_with_state(options, revision):
        pages = selection.pages()
        beginning = Beginning(await anext(pages), pages)
    return WatchAnswer(request.served, _events(selection, options, revision, beginning))


class Beginning(NamedTuple):
    """What is there when a watch begins."""

    first: Page
    others: AsyncGenerator[Page, None]


def begins_with_state(options: ListOptions, revision: int) -> bool:
    """Whether the watch begins with what is there: where it is asked for, or no revision is named."""
    asked = options.send_initial_events
    return revision == 0 if asked is None else asked


def start_of(options: ListOptions) -> int:
    """The revision to go on from; 0 begins with what is there."""
    text = options.resource_version
    try:
        revision = parse_revision(text) if text else 0
    except ValueError as error:
        why = f'resourceVersion: Invalid value: "{text}": {error}'
        raise plain_internal(why) from error
    return revision


async def _events(
    selection: Selection, options: ListOptions, revision: int, beginning: Beginning | None
) -> AsyncGenerator[Sequence[Event], None]:
    seconds = options.timeout_seconds or random.uniform(MIN_WATCH_SECONDS, 2 * MIN_WATCH_SECONDS)
    deadline = asyncio.get_running_loop().time() + seconds
    request = selection.request
    try:
        if beginning is not None:
            page: Page | None
            (page, others), beginning = beginning, None  # a watch lives long, its beginning need not
            revision = page.revision
            async with aclosing(others):
                while page is not None:
                    if page.rows:
                        yield [Event("ADDED", text) for text in await row_texts(request, page.rows)]
                    page = await anext(others, None)
            if options.allow_watch_bookmarks:
                yield [bookmark(request, revision, ends_initial_events=True)]
        elif revision == 0:
            revision = (await request.backend.store.state(request.tenant)).revision
        async with aclosing(_live(selection, options, revision, deadline)) as live:
            while (events := await anext(live, None)) is not None:
                yield events
                del events  # the next may be long in coming
    except StatusError as error:
        yield [error_event(error)]  # the webhook failed
    except BudgetExceeded as error:
        yield [error_event(too_large(str(error)))]
    except RevisionExpired as error:
        yield [error_event(expired(f"too old resource version: {error.revision} ({error.compact_revision})"))]
    except (CatalogStale, StoreError):
        return  # the client resumes from the last revision that it has seen


async def _live(
    selection: Selection, options: ListOptions, revision: int, deadline: float
) -> AsyncGenerator[Sequence[Event], None]:
    request = selection.request
    now = asyncio.get_running_loop().time
    quiet_since = now()
    sight = EventFilter(selection)
    see = sight.event
    # The schemas that the changes so far were processed by; none of them is newer than this watch's.
    schemas = {request.served.identity}
    subscription = await request.backend.store.subscribe(request.tenant, request.served.resource_name, revision)
    # Once in any case: who asks for short watches gets on even where beginning one has taken all its time.
    begun = False
    try:
        while (left := deadline - now()) > 0 or not begun:
            begun = True
            silence = quiet_since + BOOKMARK_SECONDS - now()
            batch = await subscription.next_batch(max(0.0, min(left, silence)))
            if not schemas.issuperset([change.schema for change in batch.changes]):
                schemas.update([change.schema for change in batch.changes])
                if await is_superseded(request):
                    return  # the client resumes, and is shown these changes by the new definition
            if request.served.conversions is not None:
                await sight.convert(batch.changes)
            events = [e for c in batch.changes if (e := see(c)) is not None]
            if events:
                yield events
                quiet_since = now()
            elif now() >= quiet_since + BOOKMARK_SECONDS:
                if await is_superseded(request):
                    return  # nothing of this definition may ever come again
                if options.allow_watch_bookmarks:
                    yield [bookmark(request, batch.revision)]
                quiet_since = now()
            del batch, events  # what a watch has sent is not its to keep until there is more
    finally:
        subscription.close()


async def is_superseded(request: ResourceRequest) -> bool:
    """Whether the definition has got another schema since the watch began, or is no longer served."""
    served = request.served
    catalog = await request.backend.catalogs.current(request.tenant)
    found = catalog.served(served.definition.group, served.version.name, served.definition.names.plural)
    return found is None or found.identity != served.identity


class EventFilter:
    """What a watch sees of a change."""

    def __init__(self, selection: Selection) -> None:
        self._served = selection.request.served
        # What is stored at a version that is gone: its name and metadata are told all the same.
        self._lenient = self._served.leniently()
        self._prefix = f"{selection.request.namespace}/" if selection.request.namespace else ""
        self._key = selection.fields.key
        self._accepts = selection.fields.accepts
        self._requirements = selection.requirements
        self._shows = selection.fields.shows

    async def convert(self, changes: Sequence[Change]) -> None:
        """Has the webhook convert what will be seen of `changes`, and keeps the texts with them.

        Watchers that need the same at the same moment have it converted once, and fail together.
        """
        served, conversions = self._served, self._served.conversions
        if conversions is None:
            return
        wanted: list[tuple[Change, str, Image]] = []
        for change in changes:
            if not self._sees_key(change.key):
                continue
            # The body of a deletion is that of the state before.
            revision = change.previous_revision if change.type is ChangeType.DELETED else change.revision
            wanted.append(
                (
                    change,
                    "new",
                    Image(
                        change.uid, change.key, revision, change.revision, change.version, change.schema, change.body
                    ),
                )
            )
            if (self._requirements or self._shows is not None) and change.previous_body is not None:
                wanted.append(
                    (
                        change,
                        "old",
                        Image(
                            change.uid,
                            change.key,
                            change.previous_revision,
                            change.revision,
                            change.previous_version,
                            change.previous_schema,
                            change.previous_body,
                        ),
                    )
                )
        wanted = [
            w for w in wanted if self._key_of(w[1]) not in w[0].forms and w[2].version in served.definition.versions
        ]
        if not wanted:
            return

        async def work() -> None:
            texts = await conversions.texts(served, [image for _, _, image in wanted])
            for (change, which, _), text in zip(wanted, texts, strict=True):
                change.forms[self._key_of(which)] = text

        states = tuple((which, image.uid, image.revision) for _, which, image in wanted)
        await singleflight(wanted[0][0].forms, (served.api_version, served.identity, states), work)

    def _key_of(self, which: str) -> tuple[str, str, int]:
        return which, self._served.api_version, self._served.identity

    def event(self, change: Change) -> Event | None:
        if not self._sees_key(change.key):
            return None
        shows = self._shows
        if not self._requirements and shows is None:
            return self._new(change.type, change)
        before = change.type is not ChangeType.ADDED and satisfies(self._requirements, change.previous_labels)
        after = change.type is not ChangeType.DELETED and satisfies(self._requirements, change.labels)
        if shows is not None:
            before = before and shows(self._text(change, "new" if change.type is ChangeType.DELETED else "old"))
            after = after and shows(self._text(change, "new"))
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
        """The object as it was before it left the selection, at the revision at which it left."""
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
            change.forms[key] = text
        return text


def bookmark(request: ResourceRequest, revision: int, *, ends_initial_events: bool = False) -> Event:
    served = request.served
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if ends_initial_events:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    obj = {"kind": served.kind.name, "apiVersion": served.api_version, "metadata": metadata}
    return Event("BOOKMARK", encode_json_text(obj))


def error_event(error: StatusError) -> Event:
    return Event("ERROR", encode_json_text(error.status()))
