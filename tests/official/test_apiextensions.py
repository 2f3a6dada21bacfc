"""The integration suite of apiextensions-apiserver as a black box: its own client, in its own encoding.

`REGISTRY_TEST_OFFICIAL_SUITES` names a folder with `apiextensions.test`, the suite as a compiled Go test program whose
fixture is replaced (black_box.py). Each test gets a tenant of its own. build.py compiles it; the sources are not
part of this repository.
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

_SUITE: Final = FOLDER / "apiextensions.test"
_SECONDS: Final = 120

# Tests that look into etcd, or start the server with a feature gate off.
_NOT_OF_A_BLACK_BOX: Final = {
    "TestCBORStorageEnablement": "reads what etcd holds",
    "TestCustomResourceDefaultingOfMetaFields": "reads what etcd holds",
    "TestEtcdStorage": "reads what etcd holds",
    "TestInvalidObjectMetaInStorage": "writes to etcd",
    "TestPruningFromStorage": "writes to etcd",
    "TestNonStructuralSchemaConditionUpdate": "writes to etcd",
    "TestNonStructuralSchemaConditionForCRDV1Beta1MigratedData": "writes to etcd",
    "TestFieldSelectorDropFields": "has a feature gate off",
    "TestFieldSelectorDisablement": "has a feature gate off",
    "TestRatchetingDropFields": "has a feature gate off",
}
# Tests of which a part runs.
_PARTS: Final = {
    # It runs with a gate on and off: here it is on.
    "TestCBORServingEnablement": "^TestCBORServingEnablement$/^enabled$",
    # Built with Go 1.27, the suite's copy of kube-openapi reads no extension of any v3 document: its decoder relies on
    # the former encoding/json (kubernetes #139867). Built with GOEXPERIMENT=nojsonv2 it reads the selectable fields.
    "TestFieldSelectorOpenAPI": "^TestFieldSelectorOpenAPI$/^OpenAPIv2$",
}
# The namespaces that tests write into; a server for definitions alone has none.
_NAMESPACES: Final = (
    "not-the-default",
    "test",
    "namespace-1",
    "namespace-2",
    "another-default-is-possible",
    "the-cruel-default",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not _SUITE.exists(), reason="REGISTRY_TEST_OFFICIAL_SUITES names no folder with apiextensions.test"
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    # Webhooks of the suite listen on the loopback.
    with (
        data_folder() as folder,
        running_server(folder, "--cbor", "--allow-egress-to", "127.0.0.0/8", *AS_1_36) as server,
    ):
        yield server


@pytest.mark.parametrize("name", names_of_tests(_SUITE))
def test_as_upstream(name: str, server: RunningServer, tmp_path: Path) -> None:
    if name in _NOT_OF_A_BLACK_BOX:
        pytest.skip(_NOT_OF_A_BLACK_BOX[name])
    run_as_upstream(
        _SUITE,
        server,
        tmp_path,
        _PARTS.get(name, f"^{name}$"),
        namespaces=_NAMESPACES,
        seconds=_SECONDS,
        program="integration.test",
    )
