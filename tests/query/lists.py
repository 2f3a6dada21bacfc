"""Widgets with an index, and lists of them by queries."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from registry.api.query import listing
from tests.api.client import Client, eventually
from tests.api.widgets import DEFINITIONS, GROUP, WIDGETS, widget

NAME = f"widgets.{GROUP}"
INDEX = "spec.size; spec.color,spec.size; spec.parts[*]; metadata.namespace,spec.size"


async def declare(api: Client, index: str) -> None:
    """Declares indexes and waits until they are complete."""
    annotations = {"query.registry/index": index, "query.registry/condition": "true"}
    (await api.patch(f"{DEFINITIONS}/{NAME}", {"metadata": {"annotations": annotations}})).ok()

    async def complete() -> bool:
        found = (await api.get(f"{DEFINITIONS}/{NAME}")).ok()
        conditions = {c["type"]: c for c in found["status"]["conditions"]}
        return bool(conditions.get("Indexed", {}).get("status") == "True")

    await eventually(complete)


async def query(api: Client, path: str = WIDGETS, **parameters: Any) -> Any:
    return (await api.get(f"{path}?{text_of(parameters)}")).ok()


def text_of(parameters: dict[str, Any]) -> str:
    return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters.items())


async def fill(api: Client) -> None:
    for number, (name, spec) in enumerate(
        {
            "a": {"size": 3, "color": "red", "parts": ["x", "y"]},
            "b": {"size": 1, "color": "blue", "parts": ["y"]},
            "c": {"color": "red"},
            "d": {"size": 2, "color": "red", "parts": []},
            "e": {"size": 3, "color": "grün"},
            "f": {"size": 10, "color": "blue", "parts": ["x"]},
        }.items()
    ):
        obj = {**widget(name), "spec": spec}
        obj["metadata"]["labels"] = {"team": "ab"[number % 2]}
        (await api.post(WIDGETS, obj)).ok(201)


def answers_by(name: str) -> float:
    found: float = listing.QUERIES.labels(name)._value.get()
    return found
