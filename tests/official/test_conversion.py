"""The conversion suite of apiextensions-apiserver as a black box, with its own webhook server on the loopback.

As in test_apiextensions.py; here the compiled program is `conversion.test`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.emulating import AS_1_36
from tests.folders import data_folder
from tests.official.black_box import FOLDER, names_of_tests, run_as_upstream
from tests.running import RunningServer, running_server

_SUITE: Final = FOLDER / "conversion.test"
_SECONDS: Final = 400
_WRITES_TO_ETCD: Final = {"TestWebhookConversion_WhitespaceCABundleEtcdBypass"}
# The check that writes an object with an unknown field to etcd.
_SKIPPED: Final = "^TestWebhookConverter/^nontrivial-converter/^check-5$"
# The suite's groups of tests, with the number of checks in each.
_CHECKS: Final = {
    "noop-converter": 3,
    "nontrivial-converter": 7,
    "metadata-mutating": 1,
    "metadata-uid-mutating": 1,
    "empty-response": 1,
    "failure-message": 1,
    "unhandled": 1,
}
# A server for definitions alone, as the suite has it, needs no namespaces.
_NAMESPACES: Final = (
    "marker",
    "probe",
    *(
        f"webhook-conversion-{group}-{version}-check-{number}{ending}"
        for group, count in _CHECKS.items()
        for version in ("v1", "v1beta1")
        for number in range(count)
        for ending in ("", "-list")
    ),
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not _SUITE.exists(), reason="REGISTRY_TEST_OFFICIAL_SUITES names no folder with conversion.test"
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with data_folder() as folder, running_server(folder, "--allow-egress-to", "127.0.0.0/8", *AS_1_36) as server:
        yield server


@pytest.mark.parametrize("name", names_of_tests(_SUITE))
def test_as_upstream(name: str, server: RunningServer, tmp_path: Path) -> None:
    if name in _WRITES_TO_ETCD:
        pytest.skip("writes to etcd")
    run_as_upstream(_SUITE, server, tmp_path, f"^{name}$", namespaces=_NAMESPACES, seconds=_SECONDS, skipped=_SKIPPED)
