"""How `make test` divides the tests among its processes: by file, and the files that take longest first.

What the tests of a file share, a server or a filled database, is then made in one process. The short files at the end
keep all processes busy until the last.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Folders whose files share what is expensive to make: a browser with a filled server, the servers of clients.
TOGETHER = ("tests/clients", "tests/console")
# What takes twenty seconds or more on two cores, or long and would be among the last. A longer file that is missing here
# costs time only if it is run last.
FIRST = (
    "tests/clients",
    "tests/console",
    "tests/conformance/test_recorded.py",
    "tests/conformance/kubectl/test_transcripts.py",
    "tests/faults/test_campaign.py",
    "tests/upgrades/test_rolling.py",
    "tests/authorization/test_authorized_names.py",
    "tests/faults/test_memory.py",
    "tests/api/test_budget.py",
    "tests/api/test_one_revision.py",
    "tests/fuzz/test_fuzz.py",
    "tests/docs/test_readme.py",
    "tests/supply/test_sbom.py",
    "tests/supply/test_package.py",
    "tests/http/test_hostile_evaluation.py",
    "tests/reporting/test_built_in.py",
    "tests/faults/test_postgresql.py",
    "tests/faults/test_processes.py",
    "tests/api/test_wrong_types.py",
    "tests/store/test_failover.py",
    "tests/aggregation/test_upgrade.py",
    "tests/reporting/test_real_definitions.py",
    "tests/query/test_groups.py",
    "tests/api/test_real_definitions.py",
    "tests/faults/test_conditions.py",
    "tests/http/test_supervisor.py",
    "tests/faults/test_network.py",
    "tests/aggregation/test_example.py",
    "tests/webhooks/test_https.py",
    "tests/test_frame.py",
)


def group_of(nodeid: str) -> str:
    """Returns the file of a test, or its folder if the files in it are run together."""
    file = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """pytest-xdist's scheduling of whole groups, in the order in which the tests were collected."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # which would put the groups with the most tests first

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return LongestFirst(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        order = {group: place for place, group in enumerate(FIRST)}
        items.sort(key=lambda item: order.get(group_of(item.nodeid), len(FIRST)))
