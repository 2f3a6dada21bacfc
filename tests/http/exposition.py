"""Parses /metrics as Prometheus does."""

from __future__ import annotations

from tests.api.client import Client


async def exposition(api: Client) -> dict[str, float]:
    """Returns each series and its value."""
    answer = await api.get("/metrics")
    assert answer.code == 200, f"{answer.code} {answer.text[:2000]}"
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def risen(api: Client, before: dict[str, float], prefix: str) -> dict[str, float]:
    """Returns the increase of each changed series with this prefix; keys are without the prefix."""
    return {
        series.removeprefix(prefix): value - before.get(series, 0)
        for series, value in (await exposition(api)).items()
        if series.startswith(prefix + "{") and value != before.get(series, 0)
    }
