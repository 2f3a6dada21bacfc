from __future__ import annotations

import random

from registry.definitions.priority import by_priority

ORDER = [
    "v11",
    "v2",
    "v01",
    "v1",
    "v2beta1",
    "v1beta1",
    "v2alpha1",
    "v1alpha10",
    "v1alpha2",
    "v1alpha1",
    "a1",
    "foo",
    "v1beta",
    "v99999999999999999999",
]


def test_order() -> None:
    shuffled = ORDER.copy()
    random.Random(1).shuffle(shuffled)
    assert by_priority(shuffled) == ORDER
