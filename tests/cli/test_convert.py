"""`registry convert check`: output and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from registry.cli.root import main
from registry.definitions.decode import decode_definition
from registry.definitions.v1beta1.conversion import served_form

EXAMPLE = Path(__file__).parents[2] / "examples/conversion-rules"
DEFINITION, SAMPLES = EXAMPLE / "definition.yaml", EXAMPLE / "samples.yaml"


def changed(folder: Path, old: str, new: str) -> str:
    path = folder / "definition.yaml"
    text = DEFINITION.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return str(path)


def test_the_example_round_trips(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "check", str(DEFINITION), str(SAMPLES)]) == 0
    said = capsys.readouterr().out
    assert "# edge: v1beta1 to v1, and back: the same" in said
    assert "    replicas: 3" in said


def test_a_refusal_names_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "check", changed(tmp_path, "loss: Keep", "loss: Refuse"), str(SAMPLES)]) == 1
    assert "refused: metadata.annotations[conversion.registry/rules].conversions[0].loss" in capsys.readouterr().err


def test_an_object_changed_by_the_round_trip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "check", "--quiet", changed(tmp_path, "loss: Keep", "loss: Drop"), str(SAMPLES)]) == 1
    assert "# edge: v1beta1 to v1, and back: CHANGED" in capsys.readouterr().out


def test_conversions_that_are_not_proven_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "check", "--quiet", str(DEFINITION), str(SAMPLES)]) == 0
    assert "not proven" not in capsys.readouterr().out
    meeting = changed(tmp_path, "        back:", "        - drop: spec.scaling\n        back:")
    assert main(["convert", "check", "--quiet", meeting]) == 0
    assert "# from v1beta1 to v1: not proven to be undone" in capsys.readouterr().out


def test_a_file_without_a_definition(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "check", str(SAMPLES)]) == 1
    assert "there must be one CustomResourceDefinition" in capsys.readouterr().err


def test_a_v1beta1_definition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older = served_form(decode_definition(yaml.safe_load(DEFINITION.read_text())).value)
    path = tmp_path / "older.yaml"
    path.write_text(yaml.safe_dump(older))
    assert main(["convert", "check", "--quiet", str(path), str(SAMPLES)]) == 0
    assert "# edge: v1beta1 to v1, and back: the same" in capsys.readouterr().out
    del older["spec"]["versions"][0]["schema"]
    path.write_text(yaml.safe_dump(older))
    assert main(["convert", "check", "--quiet", str(path), str(SAMPLES)]) == 1
    assert "because otherwise all fields are pruned" in capsys.readouterr().err


def test_samples_in_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As kubectl get -o yaml writes them."""
    items = [yaml.safe_load(text) for text in SAMPLES.read_text().split("---")]
    samples = tmp_path / "list.yaml"
    samples.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["convert", "check", "--quiet", str(DEFINITION), str(samples)]) == 0
    assert capsys.readouterr().out.count("and back: the same") == len(items) > 1


@pytest.mark.parametrize("metadata", ["5", "[]", "{annotations: 7}", "{labels: {a: 1}}", "{name: [1]}"])
def test_a_sample_with_invalid_metadata(tmp_path: Path, metadata: str, capsys: pytest.CaptureFixture[str]) -> None:
    samples = tmp_path / "samples.yaml"
    samples.write_text(f"apiVersion: rules.example.com/v1\nkind: Gateway\nmetadata: {metadata}\n")
    assert main(["convert", "check", str(DEFINITION), str(samples)]) == 1
    assert "Gateway: " in capsys.readouterr().err
