"""Recorded YAML is read as yaml.safe_load reads it."""

from __future__ import annotations

import pytest
import yaml

from tests.conformance.harness import SCENARIOS
from tests.fast_yaml import load

DOCUMENTS = {
    "scalars": "[1, 0o7, 07, 1.5, 1e3, .inf, true, yes, ~, null, '', 'true', \"a\\nb\", 2001-01-02, 0x10, 1_000, a b]",
    "mappings": "a: {b: 1, 2: c, ~: d, true: e}\nf:\n- g: h\n  i: |\n    j\n    k\n",
    "anchors": "a: &x [1, 2]\nb: *x\nc: &y text\nd: *y\n",
    "one scalar": "text",
    "empty": "a:\nb: {}\nc: []\n",
}


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
def test_documents(text: str) -> None:
    assert repr(load(text)) == repr(yaml.safe_load(text))


@pytest.mark.parametrize("name", ["cel/budget-runtime.yaml", "apply/many-managers.yaml"])
def test_recordings(name: str) -> None:
    text = (SCENARIOS / name).read_text()
    assert repr(load(text)) == repr(yaml.load(text, yaml.CSafeLoader))


@pytest.mark.parametrize("text", ["a: !!int '5'", "a: !!python/name:os.system", "a: &x {b: 1}\nc:\n  <<: *x\n"])
def test_tags_and_merge_keys_are_refused(text: str) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, yaml.YAMLError)):
        load(text)
