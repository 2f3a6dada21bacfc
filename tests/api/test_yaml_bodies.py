"""Objects in YAML, which kube-apiserver converts to JSON first: with sorted keys, and nothing as null."""

from __future__ import annotations

import pytest

from tests.api.client import Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS
from tests.application import shares_application

pytestmark = shares_application

SECRETS = "/api/v1/namespaces/default/secrets?dryRun=All"
YAML = {"content-type": "application/yaml"}


@pytest.mark.parametrize(
    "body",
    [
        "kind: Secret\nmetadata: {zone: a, name: a}\nfoo: 1\nSpec: {}\n",
        '{"kind":"Secret","metadata":{"zone":"a","name":"a"},"foo":1,"Spec":{}}',
    ],
    ids=["yaml", "json under the media type of yaml"],
)
async def test_unknown_fields_of_built_in_kinds_are_sorted(api: Client, body: str) -> None:
    answer = await api.post(SECRETS, body, headers=YAML)
    assert answer.ok(201)
    assert answer.warnings == [f'unknown field "{field}"' for field in ("Spec", "foo", "metadata.zone")]


async def test_the_first_wrong_type_is_that_of_the_first_key(api: Client) -> None:
    body = "kind: Secret\nmetadata: {name: a}\nstringData: {b: {}, a: []}\n"
    refused = failure(await api.post(SECRETS, body, headers=YAML), 400, "BadRequest")
    assert refused["message"].endswith(
        "json: cannot unmarshal array into Go struct field Secret.stringData of type string"
    )


@pytest.mark.parametrize("body", ["", "null", "# nothing", "---\n", "~"])
async def test_nothing_is_null(api: Client, body: str) -> None:
    answer = await api.post(f"{WIDGETS}?fieldValidation=Ignore", body, headers=YAML)
    assert failure(answer, 400, "BadRequest")["message"] == (
        "Widget in version \"v1\" cannot be handled as a Widget: Object 'Kind' is missing in 'null'"
    )
