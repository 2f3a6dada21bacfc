"""The workflow of the public CI: it runs what .ci/run runs, and nothing that can change under it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
STEPS = [(name, step) for name, job in WORKFLOW["jobs"].items() for step in job["steps"]]
SCRIPTS = [pytest.param(step["run"], id=f"{name}-{step.get('name', step['run'])[:30]}")
           for name, step in STEPS if "run" in step]  # fmt: skip


def test_it_runs_the_same_steps_as_our_ci() -> None:
    assert ".ci/run" in [step.get("run") for name, step in STEPS if name == "test"]


def test_actions_are_named_by_commit() -> None:
    used = [step["uses"] for _, step in STEPS if "uses" in step]
    assert used
    for action in used:
        assert re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action), action


def test_it_has_read_permission_only() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    for name, job in WORKFLOW["jobs"].items():
        assert "permissions" not in job, name
        assert "pull_request_target" not in WORKFLOW[True]  # YAML 1.1 reads `on` as a boolean
        assert job["timeout-minutes"] <= 120
        assert not re.search(r":\d+$|latest", job["runs-on"])


def test_the_image_is_built_for_both_architectures() -> None:
    matrix = WORKFLOW["jobs"]["image"]["strategy"]["matrix"]["include"]
    assert {one["architecture"] for one in matrix} == {"amd64", "arm64"}


@pytest.mark.parametrize("script", SCRIPTS)
def test_steps_are_shell(script: str) -> None:
    script = re.sub(r"\$\{\{.*?\}\}", "value", script)
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_make_target_exists(script: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in re.findall(r"^ *make (.*)$", script, re.MULTILINE):
        for target in line.split():
            assert "=" in target or re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("script", SCRIPTS)
def test_no_step_interpolates_untrusted_input(script: str) -> None:
    """Titles, branches and messages in a script are code for who chooses them."""
    assert not re.search(r"\$\{\{\s*github\.(event|head_ref|ref_name)", script)


def test_every_secret_of_the_stack_is_made() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    made = next(step["run"] for name, step in STEPS if name == "image" and "secrets" in step.get("run", ""))
    for name in compose["secrets"]:
        assert name in made
