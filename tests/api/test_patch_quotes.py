"""What the errors of patches quote: the patched object, or a value of the patch."""

from __future__ import annotations

import json
import re

import pytest

from tests.api.client import JSON_PATCH, MERGE, Body, Client
from tests.api.errors import failure
from tests.api.widgets import WIDGETS, make, widget
from tests.application import shares_application

pytestmark = shares_application

MAPS = "/api/v1/namespaces/default/configmaps"
FIRST_IS_MAP = {"metadata": {"labels": {"z": 1, "a": {}}}}


@pytest.mark.parametrize(
    "path, patch, content_type, type_",
    [
        pytest.param(f"{WIDGETS}/one", FIRST_IS_MAP, MERGE, "object", id="custom"),
        pytest.param(f"{WIDGETS}/one/scale", FIRST_IS_MAP, MERGE, "object", id="scale"),
        pytest.param(f"{MAPS}/one", FIRST_IS_MAP, MERGE, "object", id="built-in"),
        pytest.param(f"{MAPS}/one", {"metadata": {"name": 5}, "data": {"a": {}}}, MERGE, "object", id="whole"),
        # Go leaves the value of an operation as it was sent.
        pytest.param(
            f"{MAPS}/one",
            [{"op": "add", "path": "/metadata/labels", "value": {"z": 1, "a": {}}}],
            JSON_PATCH,
            "number",
            id="JSON patch",
        ),
        pytest.param(
            f"{MAPS}/one",
            [
                {"op": "add", "path": f"/{name}", "value": value}
                for name, value in (("metadata/name", 5), ("data", {"a": {}}))
            ],
            JSON_PATCH,
            "object",
            id="JSON patch of several fields",
        ),
    ],
)
async def test_the_first_of_several_wrong_types_is_reported(
    api: Client, path: str, patch: Body, content_type: str, type_: str
) -> None:
    """As recorded from kube-apiserver 1.36.2: of the patched object, as Go writes it."""
    await api.post(WIDGETS, widget("one", replicas=1))
    await api.post(MAPS, {"metadata": {"name": "one"}})
    status = failure(await api.patch(path, patch, content_type), 422, "Invalid")
    assert f"json: cannot unmarshal {type_} into Go struct field" in status["message"]


async def _quoted(api: Client, path: str, body: Body, content_type: str) -> str:
    """The object that the error of a patch quotes, without what differs from run to run."""
    [cause] = failure(await api.patch(path, body, content_type), 422, "Invalid")["details"]["causes"]
    text = json.loads(cause["message"].removeprefix("Invalid value: ").rpartition(": json:")[0])
    return re.sub(r'"(uid|resourceVersion|creationTimestamp|time)":"[^"]*"', r'"\1":""', text)


ENTRY = (
    '[{"manager":"m","operation":"Update","apiVersion":"v1","time":"","fieldsType":"FieldsV1",'
    '"fieldsV1":{"f:data":{".":{},"f:b":{}},"f:immutable":{},"f:metadata":{"f:labels":{".":{},"f:x":{}}}}}]'
)
IN_STRUCT_ORDER = (
    '"metadata":{"name":"a","namespace":"default","uid":"","resourceVersion":"","creationTimestamp":"",'
    f'"labels":{{"x":"y"}},"managedFields":{ENTRY}}}'
)
SORTED = (
    f'"metadata":{{"creationTimestamp":"","labels":7.0,"managedFields":{ENTRY},'
    '"name":"a","namespace":"default","resourceVersion":"","uid":""}'
)
HEAD = '{"apiVersion":"v1",'


@pytest.mark.parametrize(
    ("content_type", "body", "quoted"),
    [
        pytest.param(
            MERGE,
            '{"data":{"c":1e2}}',
            HEAD + '"data":{"b":"1","c":1e2},"immutable":false,"kind":"ConfigMap",' + IN_STRUCT_ORDER + "}",
            id="merge: what it does not change is in the order of the struct",
        ),
        pytest.param(
            MERGE,
            '{"metadata":{"labels":7.0}}',
            HEAD + '"data":{"b":"1"},"immutable":false,"kind":"ConfigMap",' + SORTED + "}",
            id="merge: a map that it changes is sorted",
        ),
        pytest.param(
            JSON_PATCH,
            '[{"op":"add","path":"/data","value":{"z":1,"y":{"b":1,"a":9223372036854775808}}}]',
            HEAD
            + '"data":{"z":1,"y":{"b":1,"a":9223372036854775808}},"immutable":false,"kind":"ConfigMap",'
            + IN_STRUCT_ORDER
            + "}",
            id="json: values are in their own order",
        ),
        pytest.param(
            JSON_PATCH,
            '[{"op":"add","path":"/metadata/labels","value":7.0}]',
            HEAD + '"data":{"b":"1"},"immutable":false,"kind":"ConfigMap",' + SORTED + "}",
            id="json: a map that it changes is sorted",
        ),
    ],
)
async def test_errors_quote_a_built_in_kind_in_the_order_of_its_struct(
    api: Client, content_type: str, body: str, quoted: str
) -> None:
    metadata = {"name": "a", "labels": {"x": "y"}}
    config_map = {"kind": "ConfigMap", "metadata": metadata, "data": {"b": "1"}, "immutable": False}
    (await api.post(f"{MAPS}?fieldManager=m", config_map)).ok(201)
    assert await _quoted(api, f"{MAPS}/a", body, content_type) == quoted


async def test_errors_quote_values_of_a_json_patch_as_they_were_written(api: Client) -> None:
    await make(api, "a", size=1)
    body = '[{"op":"add","path":"/spec/free","value":{"b":1.0,"a":2}},{"op":"add","path":"/metadata/labels","value":7}]'
    quoted = await _quoted(api, f"{WIDGETS}/a", body, JSON_PATCH)
    assert '"free":{"b":1.0,"a":2}' in quoted
