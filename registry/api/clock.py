"""The time that the server writes into objects."""

from __future__ import annotations

import datetime


def timestamp() -> str:
    """The present time as metav1.Time has it: `2026-01-02T03:04:05Z`."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age_seconds(timestamp: str) -> float:
    return (datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(timestamp)).total_seconds()
