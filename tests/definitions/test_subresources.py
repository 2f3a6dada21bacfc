from __future__ import annotations

from typing import Any

import pytest

from registry.definitions.versions import has_status, validate_subresources
from tests.definitions.crds import messages

GOOD = {"specReplicasPath": ".spec.r", "statusReplicasPath": ".status.r"}


@pytest.mark.parametrize(
    "scale, errors",
    [
        pytest.param(GOOD, [], id="good"),
        pytest.param({"specReplicasPath": ".spec.", "statusReplicasPath": ".status..a[0]"}, [], id="hardly looked at"),
        pytest.param(
            {}, ["s.scale.specReplicasPath: Required value", "s.scale.statusReplicasPath: Required value"], id="empty"
        ),
        pytest.param(
            {**GOOD, "specReplicasPath": "spec.r"},
            ['s.scale.specReplicasPath: Invalid value: "spec.r": must be a simple json path starting with .'],
            id="dot",
        ),
        pytest.param(
            {**GOOD, "specReplicasPath": ".spec"},
            ['s.scale.specReplicasPath: Invalid value: ".spec": should be a json path under .spec'],
            id="spec",
        ),
        pytest.param(
            {**GOOD, "statusReplicasPath": ".spec.r"},
            ['s.scale.statusReplicasPath: Invalid value: ".spec.r": should be a json path under .status'],
            id="status",
        ),
        pytest.param({**GOOD, "labelSelectorPath": ""}, [], id="empty selector"),
        pytest.param(
            {**GOOD, "labelSelectorPath": ".metadata.l"},
            [
                's.scale.labelSelectorPath: Invalid value: ".metadata.l": should be a json path under either .spec '
                "or "
                ".status"
            ],
            id="selector",
        ),
    ],
)
def test_scale(scale: dict[str, Any], errors: list[str]) -> None:
    assert messages(validate_subresources({"scale": scale}, "s")) == errors


@pytest.mark.parametrize(
    "subresources, status",
    [
        pytest.param(None, False, id="none"),
        pytest.param({"scale": GOOD}, False, id="scale"),
        pytest.param({"status": {}}, True, id="status"),
    ],
)
def test_status(subresources: dict[str, Any] | None, status: bool) -> None:
    assert has_status(subresources) is status
    assert validate_subresources(subresources, "s") == []
