"""Who asks: the forms of 401 and 403, and what is open to everybody."""

from __future__ import annotations

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import GROUP, NAMESPACES, WIDGETS
from tests.application import TOKEN, shares_application

pytestmark = shares_application

PATHS = [
    "/api",
    "/apis",
    f"/apis/{GROUP}/v1",
    WIDGETS,
    f"{WIDGETS}/a",
    NAMESPACES,
    "/openapi/v2",
    "/metrics",
    "/none",
    "/clusters/nobody/apis",
    f"/clusters/nobody{WIDGETS}",
]


async def test_an_unknown_token(api: Client) -> None:
    for token in ("wrong", TOKEN + "x", TOKEN[:-1], "é", "x" * 5000):
        for path in (*PATHS, "/version", "/healthz"):
            status = failure(await api.with_token(token).get(path), 401, "Unauthorized")
            assert status["message"] == "Unauthorized"


async def test_anonymous_users_have_no_rights(api: Client) -> None:
    """Whether or not there is anything at the path: a 403 tells no more."""
    for path in PATHS:
        status = failure(await api.with_token("").get(path), 403, "Forbidden")
        assert 'User "system:anonymous" cannot ' in status["message"]


async def test_paths_open_to_everyone(api: Client) -> None:
    for path in ("/version", "/healthz", "/livez", "/readyz"):
        assert (await api.with_token("").get(path)).code == 200, path


async def test_what_was_refused_is_said(api: Client) -> None:
    for method, verb in (("POST", "create"), ("DELETE", "deletecollection"), ("GET", "list")):
        status = failure(await api.with_token("").request(method, WIDGETS), 403, "Forbidden")
        assert status["message"] == (
            f'widgets.{GROUP} is forbidden: User "system:anonymous" cannot {verb} resource "widgets" in API group '
            f'"{GROUP}" in the namespace "default"'
        )
        assert status["details"] == {"group": GROUP, "kind": "widgets"}


HEADERS = {
    "another scheme": ("Basic YTpi", 403),
    "small letters": ("bearer " + TOKEN, 200),
    "capitals": ("BEARER " + TOKEN, 200),
    "no token": ("Bearer", 403),
    "two blanks": ("Bearer  " + TOKEN, 403),
    "blanks around": (" Bearer " + TOKEN + " ", 200),
    "wrong": ("Bearer wrong", 401),
    "no scheme": (TOKEN, 403),
}


async def test_forms_of_the_header(api: Client) -> None:
    found = {
        name: (await api.get(WIDGETS, headers={"authorization": header})).code for name, (header, _) in HEADERS.items()
    }
    assert found == {name: code for name, (_, code) in HEADERS.items()}


async def test_a_refusal_reads_no_body(api: Client) -> None:
    answer = await api.with_token("").post(WIDGETS, b"x" * 4_000_000)
    failure(answer, 403, "Forbidden")
