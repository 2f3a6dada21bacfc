"""An application with the widgets' definition, and a webhook over real TLS whose answers a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.admission.policies import ADMISSION
from tests.admission.webhooks import Hook
from tests.api.client import Client
from tests.api.widgets import WIDGETS
from tests.application import serving
from tests.databases import temporary_database
from tests.https import serving_https


@pytest.fixture(scope="module")
def shared_hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
    with serving_https(Hook, tmp_path_factory.mktemp("hook")) as served:
        yield served


@pytest.fixture
def hook(shared_hook: Hook) -> Hook:
    """The webhook, which allows everything until a test says otherwise."""
    shared_hook.asked.clear()
    shared_hook.queries.clear()
    shared_hook.answer = lambda path, request: {"allowed": True}
    return shared_hook


# Bindings first: nothing that they bind may refuse what follows.
_USED = (
    f"{ADMISSION}/validatingadmissionpolicybindings",
    f"{ADMISSION}/mutatingadmissionpolicybindings",
    f"{ADMISSION}/validatingadmissionpolicies",
    f"{ADMISSION}/mutatingadmissionpolicies",
    f"{ADMISSION}/validatingwebhookconfigurations",
    f"{ADMISSION}/mutatingwebhookconfigurations",
    WIDGETS,
)


@pytest.fixture(scope="module")
def shared_database(postgres_server: str, api_template: str) -> Iterator[str]:
    with temporary_database(postgres_server, api_template) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    shared_database: str, shared_hook: Hook, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    """One server for all tests of a module, which may call webhooks on this machine.

    It ends before the webhook does, which waits for the connections that are kept to it.
    """
    folder = tmp_path_factory.mktemp("one")
    async with serving(shared_database, folder, allow_egress_to=("127.0.0.0/8",)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: Client) -> AsyncIterator[Client]:
    """The server, with what a test has made taken away after it."""
    yield shared
    for path in _USED:
        (await shared.delete(path)).ok()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def other(
    shared: Client, shared_database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Client]:
    """A second server process, as far as what it knows goes, on the same database; it may call no webhooks here."""
    async with serving(shared_database, tmp_path_factory.mktemp("two")) as client:
        yield client
