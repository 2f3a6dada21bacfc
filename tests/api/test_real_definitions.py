"""Definitions of real projects are served: an object of each is created, read, patched, applied and shown.

Where the definitions are, and why not here: tests/definitions/test_real_definitions.py.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests import fast_yaml
from tests.api.client import APPLY, TABLE, Client
from tests.api.widgets import define
from tests.application import shares_application
from tests.definitions.instances import instance
from tests.definitions.real import FOLDER

pytestmark = shares_application

FILES = sorted(FOLDER.glob("**/*.[yj]*")) if FOLDER.is_dir() else []


@pytest.mark.slow
@pytest.mark.skipif(not FILES, reason=f"no definitions in {FOLDER}")
@pytest.mark.parametrize("start", range(8))
async def test_an_object_of_each_definition_can_be_written_and_read(api: Client, start: int) -> None:
    seen = set()
    for file in FILES[start::8]:
        crd = fast_yaml.load(file.read_text())
        if crd["metadata"]["name"] in seen:  # one stands in two channels of its project
            continue
        seen.add(crd["metadata"]["name"])
        await define(api, crd)
        await _lives(api, file, crd["spec"])


async def _lives(api: Client, file: Path, spec: dict[str, Any]) -> None:
    [version] = [v for v in spec["versions"] if v["storage"]]
    place = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    path = f"/apis/{spec['group']}/{version['name']}/{place}{spec['names']['plural']}"
    head = {"apiVersion": f"{spec['group']}/{version['name']}", "kind": spec["names"]["kind"]}
    for seed in range(60):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from hypothesis, of examples outside of @given
            made = instance(version["schema"]["openAPIV3Schema"], random.Random(seed))
        answer = await api.post(path, {**made, **head, "metadata": {"name": "a"}})
        assert answer.code in (201, 422), f"{file.name}: {answer.text}"
        if answer.code == 201:
            break
    assert answer.code == 201, f"{file.name}: {answer.text}"
    labelled = (await api.patch(f"{path}/a", {"metadata": {"labels": {"a": "b"}}})).ok(200)
    assert labelled["metadata"]["labels"] == {"a": "b"}, file.name
    (await api.patch(f"{path}/a?fieldManager=m", {**head, "metadata": {"name": "a", "labels": {"c": "d"}}}, APPLY)).ok()
    assert len((await api.get(path, accept=TABLE)).ok()["rows"]) == 1, file.name
