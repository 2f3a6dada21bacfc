"""The OpenAPI documents of kube-apiserver 1.36.2, as digests, compared with ours but for the descriptions.

`python -m tests.official.openapi --record` writes them, and prints what differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import yaml

from registry import builtin
from registry.builtin.subresources import subresources_of
from registry.definitions.compiled import compile_definition
from registry.definitions.decode import canonical
from registry.definitions.model import Definition
from registry.definitions.openapi.documents import document_path, openapi_v3_document
from registry.definitions.openapi.v2 import openapi_v2
from tests.definitions.crds import established, prepared
from tests.official.openapi import DEFINITIONS, DIGESTS, digest, restricted

pytestmark = pytest.mark.usefixtures("as_1_36")

RECORDED = {name: found for found, name in map(str.split, DIGESTS.read_text().splitlines())}


def of_kube_apiserver() -> Iterator[Definition]:
    """The built-in kinds without those that kube-apiserver does not have, and the definitions that it was given."""
    for definition in builtin.definitions():
        versions = {
            name: version
            for name, version in definition.versions.items()
            if document_path(definition.group, name) in RECORDED
        }
        if versions:
            yield replace(definition, versions=versions)
    for obj in yaml.safe_load_all(DEFINITIONS.read_text()):
        yield compile_definition(established(canonical(prepared(obj))))


@pytest.mark.parametrize("name", RECORDED)
def test_documents_are_as_recorded(name: str) -> None:
    definitions = list(of_kube_apiserver())
    if name == "v2":
        document: dict[str, Any] | None = openapi_v2(definitions, subresources_of)
    else:
        document = openapi_v3_document(definitions, name, subresources_of)
    assert document is not None
    assert digest(restricted(document, document)) == RECORDED[name]
