"""Metrics: what was asked, by what there is; strangers cannot make series."""

from __future__ import annotations

from tests.api.client import Client
from tests.api.widgets import GROUP, WIDGETS, make


async def exposition(api: Client) -> dict[str, float]:
    """Each series with its value."""
    answer = await api.get("/metrics")
    assert answer.code == 200
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def requests_series(verb: str, code: int, subresource: str = "") -> str:
    return (f'apiserver_request_total{{code="{code}",group="{GROUP}",resource="widgets",subresource="{subresource}",'
            f'verb="{verb}"}}')


async def test_requests_are_counted(api: Client) -> None:
    before = await exposition(api)
    await make(api, "a")
    await api.get(f"{WIDGETS}/a")
    await api.get(f"{WIDGETS}/none")
    await api.get(f"{WIDGETS}/a/status")
    after = await exposition(api)
    for name in (requests_series("create", 201), requests_series("get", 200), requests_series("get", 404),
                 requests_series("get", 200, "status")):
        assert after[name] - before.get(name, 0) == 1, name


async def test_watches_and_their_events_are_counted(api: Client) -> None:
    name = f'apiserver_watch_events_total{{group="{GROUP}",resource="widgets"}}'
    before = await exposition(api)
    async with api.watch(f"{WIDGETS}?watch=1") as watch:
        await make(api, "a", "b")
        await watch.events(2)
        during = await exposition(api)
        assert during["apiserver_longrunning_requests"] - before["apiserver_longrunning_requests"] == 1
    after = await exposition(api)
    assert after["apiserver_longrunning_requests"] == before["apiserver_longrunning_requests"]
    assert after[name] - before.get(name, 0) == 2


async def test_what_is_asked_for_in_vain_makes_no_series(api: Client) -> None:
    stranger = api.with_token("")
    await api.get(f"{WIDGETS}/x")
    await stranger.get(f"{WIDGETS}/x")
    await api.request("M0", "/x")
    await api.get(f"{WIDGETS}/a/sub")
    await stranger.get("/apis/g/v1/r/n/s")
    await api.get("/api/v1/r0")
    before = await exposition(api)
    for number in range(20):
        await api.get(f"/apis/g{number}.example.com/v1/r{number}")
        await api.get(f"/api/v1/r{number}")
        await api.get(f"{WIDGETS}/a/sub{number}")
        await stranger.get(f"/apis/g{number}/v1/r{number}/n/s{number}")
        await api.request(f"M{number}", "/x")
    after = await exposition(api)
    assert after.keys() == before.keys()


async def test_no_series_names_a_tenant_or_an_object(api: Client) -> None:
    await make(api, "very-special-name")
    assert "very-special-name" not in (await api.get("/metrics")).text
