"""A short campaign of faults, and proof that the checker detects each of five injected defects."""

from __future__ import annotations

import asyncio

import pytest

from tests.faults.campaign import Plan, run
from tests.faults.defects import DEFECTS, module_of
from tests.faults.disturbances import Scene, cut, lose_answers
from tests.replication import Node

pytestmark = pytest.mark.slow


async def test_each_fault_once() -> None:
    report = await run(Plan(seed=1, each=1, longest_pause_seconds=1))
    print("\n".join(report.lines()))
    assert {len(times) for times in report.faults.values()} == {1}
    assert report.violations == []
    assert report.hung == []
    assert report.late == []
    assert report.acknowledged > 20


async def freeze_for_bookmarks(scene: Scene) -> None:
    """Nothing is written for so long that each watch gets bookmarks, which come after a second without changes."""
    with scene.proxy.frozen():
        await asyncio.sleep(4)  # nothing else shows that every watch has them


@pytest.mark.parametrize("defect", sorted(DEFECTS))
async def test_a_defective_server_is_detected(defect: str, migrated_node: Node) -> None:
    report = await run(
        Plan(
            seed=1,
            each=1,
            servers=1,
            writes=160,
            module=module_of(defect),
            disturbances=[cut, lose_answers, freeze_for_bookmarks],
            migrated=migrated_node,
        )
    )
    assert report.violations or report.late, (
        f"{report.acknowledged} writes, {report.events} events, and nothing was found"
    )
