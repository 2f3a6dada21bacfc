"""Other forms of indexes: mixed directions, definitions with conversion rules, and built-in kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from registry.api.extraction import with_indexes
from registry.api.query import listing, reading
from registry.builtin import definitions
from registry.query.clusterpedia import Labels, split
from registry.query.reserved import ReservedError
from tests.api.client import Client, eventually
from tests.api.errors import failure
from tests.api.widgets import DEFINITIONS, WIDGETS, define, names_of, widget
from tests.application import serving, shares_application
from tests.conversion import gateways
from tests.query.lists import answers_by, declare, fill, query

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def pages(api: Client, **parameters: Any) -> list[str]:
    """The names on all pages of two objects."""
    found: list[str] = []
    token = ""
    while True:
        page = await query(api, limit=2, **parameters, **{"continue": token})
        found += names_of(page)
        token = page["metadata"]["continue"]
        if not token:
            return found


MIXED = {
    "up, then down": ("spec.color,spec.size desc", "f b e a d c"),
    "down, then up": ("spec.size desc,spec.color", "f e a d b c"),
    "the one field of an index, against it": ("spec.size", "b d a e f c"),
}


@shares_application
async def test_orders_of_mixed_directions(api: Client) -> None:
    await fill(api)
    for order, names in MIXED.values():
        assert await pages(api, orderBy=order) == names.split(), order
    await declare(api, "; ".join(["spec.color,spec.size desc", "spec.size desc,spec.color", "spec.size desc"]))
    before = answers_by("index")
    for order, names in MIXED.values():
        assert await pages(api, orderBy=order) == names.split(), order
    assert await pages(api, filter="object.spec.size > 1", orderBy="spec.size desc,spec.color") == list("fead")
    assert await pages(api, filter='object.spec.color == "red"', orderBy="spec.size desc") == list("adc")
    assert await pages(api, filter="object.spec.size <= 2") == list("db")
    assert answers_by("index") == before + 3 * 3 + 2 + 2 + 1


@shares_application
async def test_the_index_to_declare_has_directions(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await fill(api)
    monkeypatch.setattr(reading, "MAX_EXAMINED", 3)
    monkeypatch.setattr(listing, "MAX_EXAMINED", 3)
    for order, index in (
        ("spec.color,spec.size desc", "metadata.namespace,spec.color,spec.size desc"),
        ("spec.size desc", "metadata.namespace,spec.size"),
    ):
        status = failure(await api.get(f"{WIDGETS}?orderBy={quote(order)}"), 400, "BadRequest")
        assert status["message"].endswith(f'query.registry/index: "{index}"')
        await declare(api, index)
        path = f"{WIDGETS}?orderBy={quote(order)}&limit=2"

        async def is_answered(path: str = path) -> bool:
            return (await api.get(path)).code == 200

        await eventually(is_answered)


@shares_application
async def test_an_element_of_an_array_is_counted_and_paged_by_its_index(api: Client) -> None:
    await fill(api)
    await declare(api, "spec.parts[*]")
    before = answers_by("index")
    wanted = quote('"y" in object.spec.parts')
    answer = await api.get(f"{WIDGETS}?filter={wanted}&limit=1&count=exact")
    assert (names_of(answer.ok()), answer.header("x-total-count")) == (["a"], "2")
    both = '"x" in object.spec.parts && object.spec.parts.exists(p, p == "y")'
    assert names_of(await query(api, filter=both)) == ["a"]
    assert answers_by("index") == before + 2


@shares_application
async def test_a_definition_that_converts_by_rules_is_indexed_at_its_storage_version(
    api: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = gateways.definition()
    made["metadata"]["annotations"]["query.registry/index"] = "spec.scaling.replicas"
    await define(api, made)
    for number in range(6):
        (await api.post(gateways.BETA, gateways.gateway(f"g{number}", size=number % 3))).ok(201)

    async def by_index(path: str, **parameters: Any) -> bool:
        before = answers_by("index")
        await query(api, path, **parameters)
        return answers_by("index") > before

    async def is_used() -> bool:
        return await by_index(gateways.V1, orderBy="spec.scaling.replicas")

    await eventually(is_used)
    two = "object.spec.scaling.replicas == 2"
    assert names_of(await query(api, gateways.V1, filter=two)) == ["g2", "g5"]
    assert await by_index(gateways.V1, filter=two)
    assert names_of(await query(api, gateways.BETA, filter="object.spec.size == 2")) == ["g2", "g5"]
    assert not await by_index(gateways.BETA, filter="object.spec.size == 2")
    with monkeypatch.context() as patched:
        patched.setattr(reading, "MAX_EXAMINED", 3)
        patched.setattr(listing, "MAX_EXAMINED", 3)
        status = failure(await api.get(f"{gateways.BETA}?orderBy=spec.size"), 400, "BadRequest")
        assert "ask for the version v1" in status["message"]

    # Stored at another version from now on: what was stored before is looked into, or rewritten.
    crd = (await api.get(f"{DEFINITIONS}/{gateways.NAME}")).ok()
    crd["metadata"]["annotations"]["query.registry/index"] = "spec.size"
    for version in crd["spec"]["versions"]:
        version["storage"] = version["name"] == "v1beta1"
    (await api.put(f"{DEFINITIONS}/{gateways.NAME}", crd)).ok()
    (await api.post(gateways.V1, gateways.gateway("g6", "v1", scaling={"replicas": 2}))).ok(201)

    async def is_used_again() -> bool:
        assert names_of(await query(api, gateways.BETA, filter="object.spec.size == 2")) == ["g2", "g5", "g6"]
        return await by_index(gateways.BETA, filter="object.spec.size == 2")

    await eventually(is_used_again)
    ordered = await query(api, gateways.BETA, orderBy="spec.size desc", limit=4)
    assert names_of(ordered) == ["g2", "g5", "g6", "g1"]
    assert names_of(await query(api, gateways.V1, filter=two)) == ["g2", "g5", "g6"]


async def test_built_in_kinds_are_indexed_by_a_setting(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = (("configmaps", "metadata.labels['team'],metadata.name desc"), ("namespaces", "metadata.name"))
    async with serving(api_database, tmp_path, builtin_indexes=declared) as api:
        for name, team in (("a", "x"), ("b", "y"), ("c", "x")):
            (await api.post(CONFIG_MAPS, {"metadata": {"name": name, "labels": {"team": team}}})).ok(201)
        wanted = {
            "filter": 'object.metadata.labels.team >= "x"',
            "orderBy": "metadata.labels['team'],metadata.name desc",
        }

        async def is_used() -> bool:
            before = answers_by("index")
            assert names_of(await query(api, CONFIG_MAPS, **wanted)) == ["c", "a", "b"]
            return answers_by("index") > before

        await eventually(is_used)
        (await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"team": "z"}}})).ok()
        assert names_of(await query(api, CONFIG_MAPS, **wanted)) == ["c", "b", "a"]
        (await api.delete(f"{CONFIG_MAPS}/c")).ok()
        assert names_of(await query(api, CONFIG_MAPS, **wanted)) == ["b", "a"]
        monkeypatch.setattr(reading, "MAX_EXAMINED", 1)
        monkeypatch.setattr(listing, "MAX_EXAMINED", 1)
        status = failure(await api.get(f"{CONFIG_MAPS}?orderBy=metadata.uid"), 400, "BadRequest")
        assert '--builtin-indexes "configmaps=metadata.namespace,metadata.uid"' in status["message"]


@pytest.mark.parametrize(
    "declared",
    [
        ("widgets", "metadata.name"),
        ("events", "reason"),
        ("configmaps", "metadata.nothing"),
        ("secrets", "data['x']"),
        ("configmaps", "data"),
    ],
)
def test_kinds_that_no_setting_indexes(declared: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="--builtin-indexes"):
        with_indexes(definitions(), [declared])


# --- the label keys of clusterpedia

KEY = "search.clusterpedia.io"
LABELS: dict[str, tuple[str, Labels]] = {
    "none": ("a=b,c in (d,e)", Labels("a=b,c in (d,e)")),
    "order": (f"{KEY}/orderby=name_desc,a=b", Labels("a=b", "", {"orderBy": "metadata.name desc"})),
    "orders": (
        f"{KEY}/orderby in (namespace, created_at_desc, spec.size_asc)",
        Labels("", "", {"orderBy": "metadata.namespace,metadata.creationTimestamp desc,spec.size"}),
    ),
    "page": (
        f"{KEY}/limit=10,{KEY}/offset=5,{KEY}/with-continue=true,{KEY}/with-remaining-count=true",
        Labels("", "", {"limit": "10", "offset": "5", "count": "exact"}),
    ),
    "names": (f"{KEY}/names in (a, b)", Labels("", 'object.metadata.name in ["a", "b"]')),
    "namespaces": (f"{KEY}/namespaces=a", Labels("", 'object.metadata.namespace in ["a"]')),
    "fuzzy": ('internalstorage.clusterpedia.io/fuzzy-name=a"b', Labels("", 'object.metadata.name.contains("a\\"b")')),
    "owner": (f"{KEY}/owner-uid=u", Labels("", 'object.metadata.ownerReferences.exists(r, r.uid == "u")')),
    "times": (
        f"{KEY}/since=1700000000,{KEY}/before=2026-11-22 10:00:00",
        Labels(
            "",
            'object.metadata.creationTimestamp >= timestamp("2023-11-14T22:13:20+00:00") && '
            'object.metadata.creationTimestamp < timestamp("2026-11-22T10:00:00+00:00")',
        ),
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_the_keys_of_clusterpedia(case: str) -> None:
    selector, wanted = LABELS[case]
    assert split(selector) == wanted


@pytest.mark.parametrize(
    "selector",
    [
        f"{KEY}/clusters=a",
        f"{KEY}/orderby",
        f"{KEY}/limit in (1,2)",
        f"{KEY}/limit=1,{KEY}/limit=2",
        f"{KEY}/since=yesterday",
        f"{KEY}/names!=a",
        f"{KEY}/names=" + " " * 100_000 + "(",
    ],
)
def test_invalid_keys_of_clusterpedia(selector: str) -> None:
    with pytest.raises(ReservedError):
        split(selector)


async def test_clusterpedias_keys_are_opt_in(api: Client, api_database: str, tmp_path: Path) -> None:
    await fill(api)
    selector = quote(f"{KEY}/orderby=spec.size_desc,{KEY}/limit=2,{KEY}/with-remaining-count=true,team in (a)")
    # Without the setting they are labels, which no object has.
    assert names_of((await api.get(f"{WIDGETS}?labelSelector={selector}")).ok()) == []
    async with serving(api_database, tmp_path / "other", clusterpedia_labels=True) as other:
        page = (await other.get(f"{WIDGETS}?labelSelector={selector}")).ok()
        assert (names_of(page), page["metadata"]["remainingItemCount"]) == (["a", "e"], 1)
        rest = await query(other, labelSelector=f"{KEY}/orderby=spec.size_desc,{KEY}/limit=2,{KEY}/with-remaining-count=true,team in (a)",
                           **{"continue": page["metadata"]["continue"]})  # fmt: skip
        assert names_of(rest) == ["c"]
        assert names_of(await query(other, labelSelector=f"{KEY}/names in (a,b),team=b")) == ["b"]
        failure(await other.get(f"{WIDGETS}?labelSelector={KEY}/clusters=a"), 400, "BadRequest")
        path = f"{WIDGETS}?watch=1&labelSelector={quote(f'{KEY}/names=z,{KEY}/orderby=name')}"
        async with other.watch(path) as watch:
            (await other.post(WIDGETS, widget("y"))).ok(201)
            (await other.post(WIDGETS, widget("z"))).ok(201)
            assert (await watch.event())["object"]["metadata"]["name"] == "z"
