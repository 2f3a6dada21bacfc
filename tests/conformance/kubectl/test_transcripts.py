"""Recorded sessions of an unmodified kubectl, repeated on a started server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.kubectl.harness import KNOWN_FAILURES, kubectl, replay_transcript, transcript_names
from tests.conformance.kubectl.known import MODULE
from tests.conformance.results import LEVELS, problems, read
from tests.running import RunningServer

KNOWN = read(KNOWN_FAILURES)


@pytest.mark.kubectl
@pytest.mark.slow
@pytest.mark.skipif(kubectl() is None, reason="there is no kubectl on the PATH")
@pytest.mark.parametrize("name", transcript_names())
def test_kubectl_prints_as_recorded(
    server: RunningServer, name: str, record_property: Callable[[str, Any], None]
) -> None:
    result = replay_transcript(server, name)
    for level in LEVELS:
        record_property("replayed", ("kubectl", level, *result.count(level)))
    found = problems(result, {case for case in KNOWN if case.startswith(f"{name}::")}, MODULE)
    assert not found, "\n".join([f"{len(found)} of {len(result.differences)} comparisons of {name}", *found])


def test_the_list_names_what_exists() -> None:
    assert [case for case in KNOWN if case.partition("::")[0] not in transcript_names()] == []
