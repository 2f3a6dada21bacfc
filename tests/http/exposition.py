"""The metrics of an application, read as Prometheus reads them."""

from __future__ import annotations

from tests.api.client import Client


async def exposition(api: Client) -> dict[str, float]:
    """Each series with its value."""
    answer = await api.get("/metrics")
    assert answer.code == 200, f"{answer.code} {answer.text[:2000]}"
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def risen(api: Client, before: dict[str, float], prefix: str) -> dict[str, float]:
    """The series of a name that have changed, without their name, and by how much."""
    return {
        series.removeprefix(prefix): value - before.get(series, 0)
        for series, value in (await exposition(api)).items()
        if series.startswith(prefix + "{") and value != before.get(series, 0)
    }
