"""Accept and Content-Type: which media type is chosen, and the message of each refusal."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.http.negotiation import (
    JSON,
    PROTOBUF,
    YAML,
    NotAcceptable,
    Representation,
    UnsupportedMediaType,
    body_encoding,
    error_representation,
    negotiate,
    negotiate_discovery,
    patch_type,
    pretty,
    require_stream,
    require_type,
)

J, Y, P = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
AS_TABLE = ";as=Table;v=v1;g=meta.k8s.io"
AS_META = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
ALL = f"only the following media types are accepted: {J}, {Y}, {P}"
TABLE = Representation(JSON, "Table", "v1")
META = Representation(JSON, "PartialObjectMetadata", "v1")


@pytest.mark.parametrize(
    "accept, expected",
    [
        ("", Representation()),
        (J, Representation()),
        (Y, Representation(YAML)),
        ("*/*", Representation()),
        ("*", Representation()),
        ("application/*", Representation()),
        (f"{J}, */*;q=0.8", Representation()),
        (f"{Y};q=0.5,{J}", Representation()),
        # goautoneg puts a clause without a wildcard before one with it.
        (f"*/*,{Y};q=0.1", Representation(YAML)),
        (f"application/*{AS_TABLE},{Y};q=0.5", Representation(YAML)),
        (f"{J};q=0.5,{Y}", Representation(YAML)),
        (f"{Y},{J}", Representation(YAML)),
        (f"*/*,{Y}", Representation(YAML)),
        (f"text/html, {Y};q=0.1", Representation(YAML)),
        (f"{P},{J}", Representation()),
        (f"{J}{AS_TABLE}", TABLE),
        (f"{Y}{AS_TABLE}", Representation(YAML, "Table", "v1")),
        (f"{J};as=Table;v=v1beta1;g=meta.k8s.io,{J}{AS_TABLE}", Representation(JSON, "Table", "v1beta1")),
        (f"{J}{AS_TABLE},{J};as=Table;v=v1beta1;g=meta.k8s.io,{J}", TABLE),
        (f"{P}{AS_TABLE},{J}{AS_TABLE}", TABLE),
        (f"{J};as=Chair;v=v1;g=meta.k8s.io,{J}", Representation()),
        (f"*/*{AS_TABLE}", TABLE),
        (f"{J}{AS_META}", META),
        (f"{P}{AS_META},{J}{AS_META},{J}", Representation(PROTOBUF, "PartialObjectMetadata", "v1")),
        (
            f"{J};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Representation(JSON, "PartialObjectMetadataList", "v1"),
        ),
        (f"{J};pretty=1", Representation(pretty=True)),
        (f"{J};pretty=true", Representation()),
        (f"{J};charset=utf-8", Representation()),
        (f"{J};sv=v1", Representation()),
        (f"{J};stream=watch", Representation()),
        (f" {J} ; as=Table ; v=v1 ; g=meta.k8s.io ", TABLE),
        (f"x,{J}", Representation()),
        (f"{J};as", Representation()),
        (f"{J};as=;g=;v=", Representation()),
        (f"{J};as=Table=x", Representation()),
        (f"{Y};q=,{J};q=0.9", Representation(YAML)),
    ],
)
def test_representations(accept: str, expected: Representation) -> None:
    assert negotiate(accept) == expected


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain",
        P,
        "APPLICATION/JSON",
        f"{J};as=Table;v=v2;g=meta.k8s.io",
        f"{J};as=Table;g=meta.k8s.io",
        f"{J};as=Table;v=v1",
        f"{J};as=Chair;v=v1;g=meta.k8s.io",
        f"{J};as=Table;v=v1;g=other.k8s.io",
        f"{P}{AS_TABLE}",
        f"{J};g=meta.k8s.io",
        f"{J};stream=tail",
        f"{Y};stream=watch",
        f"{J};sv=v9",
        ";;",
        ",",
        "a/b/c",
    ],
)
def test_not_acceptable(accept: str) -> None:
    with pytest.raises(NotAcceptable) as raised:
        negotiate(accept)
    assert str(raised.value) == ALL


@pytest.mark.parametrize(
    "accept, message",
    [
        ("text/plain", f"406: Not Acceptable\n\nAvailable representations: {J}, {Y}, {P}"),
        (f"{J};as=Chair;v=v1;g=meta.k8s.io", ALL),
        (P, ALL),
    ],
)
def test_not_acceptable_for_built_in_kinds(accept: str, message: str) -> None:
    with pytest.raises(NotAcceptable) as raised:
        negotiate(accept, builtin=True)
    assert str(raised.value) == message


def test_watches() -> None:
    for accept in ("", f"{J}{AS_TABLE}", f"{P}{AS_META}", f"{J}{AS_META.replace('Metadata', 'MetadataList')}"):
        require_stream(negotiate(accept, collection=True))


STREAMS = f"{J};stream=watch, {P};stream=watch"


@pytest.mark.parametrize("builtin", [False, True])
@pytest.mark.parametrize(
    "accept, message",
    [
        pytest.param(Y, f"only the following media types are accepted: {STREAMS}", id="yaml"),
        pytest.param(f"{Y}{AS_TABLE}", f"only the following media types are accepted: {STREAMS}", id="yaml table"),
        pytest.param(P, ALL, id="protobuf of what has no message"),
        pytest.param(f"{J};as=Chair;v=v1;g=meta.k8s.io", ALL, id="unknown kind"),
    ],
)
def test_watches_that_are_refused(accept: str, message: str, builtin: bool) -> None:
    with pytest.raises(NotAcceptable) as raised:
        require_stream(negotiate(accept, builtin=builtin, collection=True))
    assert str(raised.value) == message


def test_routes_of_collections_name_streams() -> None:
    with pytest.raises(NotAcceptable) as raised:
        negotiate("text/plain", builtin=True, collection=True)
    assert str(raised.value) == f"406: Not Acceptable\n\nAvailable representations: {J}, {Y}, {P}, {STREAMS}"


@pytest.mark.parametrize("accept", ["*", "application/*", f"*{AS_TABLE}", "*;q=0.5,text/html"])
def test_routes_know_no_single_star(accept: str) -> None:
    refusing: tuple[Any, ...] = (
        partial(negotiate, builtin=True),
        partial(negotiate_discovery, aggregated=True, fixed=True),
    )
    for refuse in refusing:
        with pytest.raises(NotAcceptable, match="406: Not Acceptable"):
            refuse(accept)
    with pytest.raises(NotAcceptable):
        require_type(accept, J)


def test_only_resources_have_a_server_version() -> None:
    assert negotiate(f"{Y};sv=v1") == Representation(YAML)
    assert error_representation(f"{Y};sv=v1") == Representation(pretty=True)
    with pytest.raises(NotAcceptable):
        negotiate_discovery(f"{Y};sv=v1", aggregated=True)


def test_the_aggregated_form_of_discovery_comes_first() -> None:
    aggregated = f"{Y};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;q=0.1"
    assert negotiate_discovery(f"{J},{aggregated}", aggregated=True).encoding == YAML
    assert negotiate_discovery(f"{J},{aggregated}", aggregated=False) == Representation()


def test_discovery() -> None:
    aggregated = f"{J};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert negotiate_discovery(aggregated, aggregated=True) == Representation(JSON, "APIGroupDiscoveryList", "v2")
    assert negotiate_discovery(f"{aggregated},{J}", aggregated=False) == Representation()
    assert negotiate_discovery(f"{aggregated.replace('v2', 'v9')},{J}", aggregated=True) == Representation()
    assert negotiate_discovery(f"{aggregated};profile=nopeer", aggregated=True).transform == "APIGroupDiscoveryList"
    for accept, is_aggregated in ((aggregated, False), (aggregated.replace("v2", "v2beta1"), True)):
        with pytest.raises(NotAcceptable) as raised:
            negotiate_discovery(accept, aggregated=is_aggregated)
        assert str(raised.value) == ALL
    with pytest.raises(NotAcceptable, match="406: Not Acceptable"):
        negotiate_discovery("text/plain", aggregated=True, fixed=True)


@pytest.mark.parametrize(
    "accept, encoding",
    [
        ("", JSON),
        ("text/plain", JSON),
        (Y, YAML),
        (P, PROTOBUF),
        (f"{J}{AS_TABLE}", JSON),
        (f"{Y};stream=watch", JSON),
        (f"{Y}{AS_META}", JSON),
        (f"{P}{AS_META}", JSON),
        (f"{P}{AS_META},{Y}", YAML),
        (f"{P},{J}", PROTOBUF),
    ],
)
def test_encoding_of_errors(accept: str, encoding: str) -> None:
    assert error_representation(accept).encoding == encoding


@pytest.mark.parametrize(
    "content_type, encoding",
    [
        ("", JSON),
        (J, JSON),
        ("Application/JSON", JSON),
        (f"{J}; charset=utf-8", JSON),
        (f"{J};a=b", JSON),
        (f'{J}; a="x;y\\""', JSON),
        (f"{J};", JSON),
        (f" {J} ; q=0.9", JSON),
        (Y, YAML),
        (f"{Y};charset=utf-8", YAML),
    ],
)
def test_body_encodings(content_type: str, encoding: str) -> None:
    assert body_encoding(content_type) == encoding


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "*/*",
        f"{J};;",
        f"{J}, {Y}",
        "json",
        "application/x-yaml",
        "application/vnd.example+json",
        f"{J} x",
        ";",
        f"{J};a",
        f"{J};a=b;A=c",
        "application/merge-patch+json",
        P,
        "application/cbor",
    ],
)
def test_unsupported_bodies(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType) as raised:
        body_encoding(content_type)
    assert str(raised.value) == (
        f"the body of the request was in an unknown format - accepted media types include: {J}, {Y}, {P}"
    )


def test_protobuf_bodies_where_they_can_be_decoded() -> None:
    assert body_encoding(P, protobuf=True) == PROTOBUF


PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
STRATEGIC = "application/strategic-merge-patch+json"


def test_patch_types() -> None:
    for media_type in PATCHES:
        assert patch_type(media_type) == patch_type(f"{media_type}; charset=utf-8") == media_type
    assert patch_type(STRATEGIC, builtin=True) == STRATEGIC


@pytest.mark.parametrize(
    "content_type", ["", J, Y, "Application/Merge-Patch+JSON", STRATEGIC, "text/plain", "application/merge-patch+yaml"]
)
def test_unsupported_patches(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType) as raised:
        patch_type(content_type)
    assert str(raised.value) == (
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(PATCHES)
    )
    if content_type != STRATEGIC:
        with pytest.raises(UnsupportedMediaType, match=r"\A415: Unsupported Media Type\Z"):
            patch_type(content_type, builtin=True)


@pytest.mark.parametrize(
    "parameter, user_agent, expected",
    [
        ("", "", False),
        ("", "curl/8.1", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("", "Wget/1", True),
        ("", "kubectl/v1", False),
        ("true", "kubectl", True),
        ("1", "", True),
        ("false", "curl/8.1", False),
        ("yes", "curl/8.1", False),
    ],
)
def test_pretty(parameter: str, user_agent: str, expected: bool) -> None:
    assert pretty(parameter, user_agent) is expected


@given(st.text(max_size=40) | st.text('application/json*;=q.0,as v1"', max_size=60))
def test_arbitrary_accept_headers_never_raise(text: str) -> None:
    for read in (negotiate, body_encoding, patch_type, error_representation):
        with contextlib.suppress(NotAcceptable, UnsupportedMediaType):
            assert read(text)


ENDLESS: dict[str, str] = {
    "clauses": "a/b," * 30_000,
    "parameters": J + ";a=b" * 30_000,
    "semicolons": J + ";" * 120_000,
    "spaces": J + "; a=b" + " " * 120_000 + "x",
    "spaces before": " " * 120_000 + "x",
    "an open quote": J + ';a="' + "\\a" * 60_000,
    "commas": "," * 120_000,
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
def test_long_headers_are_parsed_in_linear_time(text: str) -> None:
    """120 kB would take 40 ms as an Accept, and a quarter of an hour as a Content-Type."""
    started = time.process_time()
    for _ in range(50):
        with pytest.raises(NotAcceptable):
            negotiate(text)
        with pytest.raises(NotAcceptable):
            negotiate(text, builtin=True, collection=True)
        assert error_representation(text).encoding == JSON
        with pytest.raises(UnsupportedMediaType):
            body_encoding(text)
        with pytest.raises(UnsupportedMediaType):
            patch_type(text)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("length", [1_000, 2_000, 4_000])
def test_spaces_in_a_content_type_are_scanned_once(length: int) -> None:
    started = time.process_time()
    for _ in range(200):
        with pytest.raises(UnsupportedMediaType):
            body_encoding(J + "; a=b" + " " * length + "x")
    assert time.process_time() - started < 1
