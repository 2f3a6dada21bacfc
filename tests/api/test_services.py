"""Services: validation, and ownership of fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.client import APPLY, TABLE, Client
from tests.api.errors import failure
from tests.application import shares_application

pytestmark = shares_application

SERVICES = "/api/v1/namespaces/default/services"


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


HTTP = {"name": "http", "port": 80}
NAME = "must consist of lower case alphanumeric characters"


@pytest.mark.parametrize(
    "spec, field, message",
    [
        pytest.param({}, "spec.ports", "Required value", id="no ports"),
        pytest.param({"ports": [HTTP, {"port": 81}]}, "spec.ports[1].name", "Required value", id="a port without a name"),
        pytest.param({"ports": [HTTP, {**HTTP, "port": 81}]}, "spec.ports[1].name", 'Duplicate value: "http"', id="a name twice"),
        pytest.param(
            {"ports": [HTTP, {**HTTP, "name": "web", "targetPort": 8080}]},
            "spec.ports[1]",
            'Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}',
            id="a port twice",
        ),
        pytest.param(
            {"ports": [HTTP], "ipFamilies": ["IPv4", "IPv4"], "ipFamilyPolicy": "SingleStack"},
            "spec.ipFamilies[1]",
            'Duplicate value: "IPv4"',
            id="a family twice",
        ),
        pytest.param(
            {"ports": [HTTP], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"},
            "spec.ipFamilyPolicy",
            "Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families",
            id="two families of one stack",
        ),
        pytest.param(
            {"ports": [{"port": 70000}]}, "spec.ports[0].port", "Invalid value: 70000: must be between 1 and 65535, inclusive", id="port"
        ),
        pytest.param(
            {"ports": [{"port": 80, "protocol": "X"}]},
            "spec.ports[0].protocol",
            'Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
            id="protocol",
        ),
        pytest.param(
            {"ports": [{"port": 80, "targetPort": "80"}]},
            "spec.ports[0].targetPort",
            'Invalid value: "80": must contain at least one letter (a-z)',
            id="target port",
        ),
        pytest.param(
            {"ports": [{"port": 80, "nodePort": 30000}]},
            "spec.ports[0].nodePort",
            "Forbidden: may not be used when `type` is 'ClusterIP'",
            id="node port",
        ),
        pytest.param({"type": "ExternalName"}, "spec.externalName", "Required value", id="no external name"),
        pytest.param({"type": "ExternalName", "externalName": "A_b"}, "spec.externalName", 'Invalid value: "A_b": a lowercase RFC 1123', id="external name"),
        pytest.param(
            {"type": "X", "ports": [HTTP]},
            "spec.type",
            'Unsupported value: "X": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
            id="type",
        ),
        pytest.param(
            {"type": "NodePort", "clusterIP": "None", "ports": [HTTP]},
            "spec.clusterIPs[0]",
            "Invalid value: \"None\": may not be set to 'None' for NodePort services",
            id="headless",
        ),
        pytest.param({"ports": [{}]}, "spec.ports[0].port", "Invalid value: 0: must be between 1 and 65535", id="no number"),
        pytest.param(
            {"ports": [{**HTTP, "appProtocol": ""}]},
            "spec.ports[0].appProtocol",
            'Invalid value: "": name part must be non-empty',
            id="empty protocol of the application",
        ),
        pytest.param(
            {"ports": [HTTP], "ipFamilyPolicy": ""},
            "spec.ipFamilyPolicy",
            'Unsupported value: "": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"',
            id="empty policy",
        ),
        pytest.param({"ports": [HTTP], "selector": {"a b": "c"}}, "spec.selector", 'Invalid value: "a b": name part', id="selector"),
        pytest.param(
            {"ports": [HTTP], "sessionAffinity": "X"},
            "spec.sessionAffinity",
            'Unsupported value: "X": supported values: "ClientIP", "None"',
            id="affinity",
        ),
        *(
            pytest.param({"ports": [HTTP], "externalIPs": [ip]}, "spec.externalIPs[0]", f'Invalid value: "{ip}": {why}', id=f"external {ip}")
            for ip, why in (
                ("1.2.3", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
                ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
                ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
                ("127.0.000.1", "must not have leading 0s"),
                ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
                ("fe80::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
                ("224.0.0.1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
                ("ff12::1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
            )
        ),
        pytest.param(
            {"type": "LoadBalancer", "ports": [HTTP], "loadBalancerSourceRanges": [" 10.0.0.0/8 ", "10.0.0.0"]},
            "spec.LoadBalancerSourceRanges[1]",
            'Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
            id="source range",
        ),
        *(
            pytest.param(
                {"type": "LoadBalancer", "ports": [HTTP], "loadBalancerSourceRanges": [value]},
                "spec.LoadBalancerSourceRanges[0]",
                f'Invalid value: "{value}": must not have {why}',
                id=f"source range {value}",
            )
            for value, why in (
                ("10.0.0.1/8", "bits set beyond the prefix length"),
                ("10.0.0.0/08", "leading 0s in IP or prefix length"),
                ("010.0.0.0/8", "leading 0s in IP or prefix length"),
                ("::ffff:10.0.0.0/104", "an IPv4-mapped IPv6 address"),
            )
        ),
        pytest.param(
            {"ports": [HTTP], "loadBalancerSourceRanges": ["10.0.0.0/8"]},
            "spec.LoadBalancerSourceRanges",
            "Forbidden: may only be used when `type` is 'LoadBalancer'",
            id="source range of another type",
        ),
        pytest.param(
            {"type": "LoadBalancer", "ports": [HTTP], "loadBalancerClass": "A b"},
            "spec.loadBalancerClass",
            'Invalid value: "A b": name part must consist of alphanumeric characters',
            id="class",
        ),
        pytest.param(
            {"type": "LoadBalancer", "ports": [HTTP], "externalTrafficPolicy": "Local", "healthCheckNodePort": 70000},
            "spec.healthCheckNodePort",
            "Invalid value: 70000: must be between 1 and 65535, inclusive",
            id="port of health checks",
        ),
    ],
)  # fmt: skip
async def test_invalid_services(shared_api: Client, spec: dict[str, Any], field: str, message: str) -> None:
    status = failure(await shared_api.post(SERVICES, service(**spec)), 422, "Invalid")
    cause = status["details"]["causes"][0]
    assert cause["field"] == field
    assert cause["message"].startswith(message)
    assert (status["details"]["kind"], status["details"]["name"]) == ("Service", "s")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"clusterIP": "None"}, id="headless without ports"),
        pytest.param({"type": "ExternalName", "externalName": "db.example.com."}, id="external name"),
        pytest.param(
            {"ports": [HTTP, {"name": "dns", "port": 80, "protocol": "UDP", "targetPort": "dns-udp"}]}, id="ports"
        ),
    ],
)
async def test_valid_services(shared_api: Client, spec: dict[str, Any]) -> None:
    (await shared_api.post(SERVICES, service("taken", **spec))).ok(201)
    failure(await shared_api.patch(f"{SERVICES}/taken", {"spec": {"ports": [{"port": 0}]}}), 422, "Invalid")
    (await shared_api.delete(f"{SERVICES}/taken")).ok()


V4, V6 = (
    {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"},
    {"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"},
)
BOTH = {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}
INTERNAL = {"internalTrafficPolicy": "Cluster"}


@pytest.mark.parametrize(
    "spec, completed",
    [
        pytest.param({"ports": [HTTP]}, {"type": "ClusterIP", "sessionAffinity": "None", **V4, **INTERNAL}, id="none"),
        pytest.param({"clusterIP": "None", "selector": {"a": "b"}}, {"clusterIPs": ["None"], **V4, **INTERNAL}, id="headless"),
        pytest.param({"clusterIP": "None"}, {"clusterIPs": ["None"], **BOTH, **INTERNAL}, id="headless without selector"),
        pytest.param({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}, {"clusterIPs": ["None"], **V4}, id="headless, one family"),
        pytest.param({"ports": [HTTP], "clusterIP": "fd00::1"}, {"clusterIPs": ["fd00::1"], **V6}, id="an address"),
        pytest.param({"ports": [HTTP], "ipFamilyPolicy": "RequireDualStack"}, BOTH, id="both families"),
        pytest.param({"ports": [HTTP], "ipFamilyPolicy": "PreferDualStack"}, {"ipFamilies": ["IPv4"]}, id="both if possible"),
        pytest.param({"type": "NodePort", "ports": [HTTP]}, {"externalTrafficPolicy": "Cluster", **INTERNAL}, id="node port"),
        pytest.param(
            {"type": "LoadBalancer", "ports": [HTTP]},
            {"externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True, **V4},
            id="load balancer",
        ),
        pytest.param(
            {"ports": [HTTP], "sessionAffinity": "ClientIP"},
            {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}},
            id="affinity",
        ),
        pytest.param(
            {"type": "ExternalName", "externalName": "a.example.com"},
            {"clusterIPs": None, "ipFamilies": None, "ipFamilyPolicy": None, "internalTrafficPolicy": None},
            id="external name",
        ),
        pytest.param(
            {"ports": [{**HTTP, "protocol": "", "targetPort": ""}]},
            {"ports": [{**HTTP, "protocol": "TCP", "targetPort": 80}]},
            id="empty fields, as protobuf has them",
        ),
    ],
)  # fmt: skip
async def test_defaults_of_services(shared_api: Client, spec: dict[str, Any], completed: dict[str, Any]) -> None:
    made = (await shared_api.post(SERVICES, service("completed", **spec))).ok(201)["spec"]
    (await shared_api.delete(f"{SERVICES}/completed")).ok()
    assert {name: made.get(name) for name in completed} == completed
    assert {name: made.get(name) for name in spec if name != "ports"} == {k: v for k, v in spec.items() if k != "ports"}


ONCE = "may not change once set"


@pytest.mark.parametrize(
    "spec, patch, field, message",
    [
        pytest.param({"clusterIP": "10.0.0.1"}, {"clusterIP": "10.0.0.2"}, "spec.clusterIPs[0]", f'Invalid value: ["10.0.0.2"]: {ONCE}', id="another address"),
        pytest.param({"clusterIP": "10.0.0.1"}, {"clusterIP": "None"}, "spec.clusterIPs[0]", f'Invalid value: ["None"]: {ONCE}', id="headless afterwards"),
        pytest.param({"clusterIP": "10.0.0.1"}, {"clusterIPs": ["10.0.0.2"]}, "spec.clusterIPs", 'Invalid value: ["10.0.0.2"]: first value must match `clusterIP`', id="another list"),
        pytest.param({}, {"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]", f'Invalid value: ["IPv6"]: {ONCE}', id="another family"),
        pytest.param({}, {"clusterIP": "a"}, "spec.clusterIPs[0]", 'Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)', id="no address"),
        pytest.param({}, {"externalTrafficPolicy": "Local"}, "spec.externalTrafficPolicy", 'Invalid value: "Local": may only be set for externally-accessible services', id="traffic"),
        pytest.param(
            {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]},
            {"ipFamilies": ["IPv4"]},
            "spec.ipFamilyPolicy",
            'Invalid value: "RequireDualStack": must be \'SingleStack\' to release the secondary IP family',
            id="one family fewer",
        ),
        pytest.param(
            {"type": "LoadBalancer", "loadBalancerClass": "a/b"},
            {"loadBalancerClass": "a/c"},
            "spec.loadBalancerClass",
            'Invalid value: "a/c": may not change once set',
            id="another class",
        ),
        pytest.param(
            {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001},
            {"healthCheckNodePort": 30002},
            "spec.healthCheckNodePort",
            "Forbidden: field is immutable",
            id="another port of health checks",
        ),
        pytest.param({}, {"ipFamilyPolicy": "X"}, "spec.ipFamilyPolicy", 'Unsupported value: "X": supported values: "PreferDualStack", "RequireDualStack", "SingleStack"', id="policy"),
    ],
)  # fmt: skip
async def test_invalid_updates(
    shared_api: Client, spec: dict[str, Any], patch: dict[str, Any], field: str, message: str
) -> None:
    (await shared_api.post(SERVICES, service("changed", ports=[HTTP], **spec))).ok(201)
    status = failure(await shared_api.patch(f"{SERVICES}/changed", {"spec": patch}), 422, "Invalid")
    (await shared_api.delete(f"{SERVICES}/changed")).ok()
    assert (field, message) in [(cause["field"], cause["message"]) for cause in status["details"]["causes"]]


async def test_changing_the_type_drops_fields_of_the_old_type(api: Client) -> None:
    made = (await api.post(SERVICES, service(type="LoadBalancer", ports=[HTTP], clusterIP="10.0.0.1"))).ok(201)
    del made["spec"]["clusterIPs"]
    again = (await api.put(f"{SERVICES}/s", made)).ok()
    assert again["spec"]["clusterIPs"] == ["10.0.0.1"], "restored for a client that knows only clusterIP"
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    moved = (await api.patch(f"{SERVICES}/s", {"spec": {"type": "ClusterIP"}})).ok()["spec"]
    assert moved.keys() & {"externalTrafficPolicy", "allocateLoadBalancerNodePorts"} == set()
    named = {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}
    moved = (await api.patch(f"{SERVICES}/s", named)).ok()["spec"]
    assert moved.keys() & {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} == set()
    patched = (await api.patch(f"{SERVICES}/s", {"spec": {"internalTrafficPolicy": "Local"}})).ok()["spec"]
    assert "internalTrafficPolicy" not in patched
    failure(await api.patch(f"{SERVICES}/s", {"spec": {"internalTrafficPolicy": "x"}}), 422, "Invalid")
    named["spec"]["internalTrafficPolicy"] = "Local"
    created = (await api.post(SERVICES, service("named", **named["spec"]))).ok(201)["spec"]
    assert "internalTrafficPolicy" not in created


async def test_fields_of_selectors(api: Client) -> None:
    (await api.post(SERVICES, service("a", ports=[HTTP]))).ok(201)
    (await api.post(SERVICES, service("b", clusterIP="None"))).ok(201)
    (await api.post(SERVICES, service("c", type="ExternalName", externalName="a.example.com"))).ok(201)
    for selector, names in (
        ("spec.type=ClusterIP", ["a", "b"]),
        ("spec.type!=ClusterIP", ["c"]),
        ("spec.clusterIP=None,spec.type=ClusterIP", ["b"]),
        ("spec.type=ClusterIP,metadata.name=a", ["a"]),
    ):
        found = (await api.get(f"{SERVICES}?fieldSelector={selector}")).ok()["items"]
        assert [item["metadata"]["name"] for item in found] == names, selector
    async with api.watch(f"{SERVICES}?watch=true&fieldSelector=spec.type=ExternalName") as watch:
        assert (await watch.event())["object"]["metadata"]["name"] == "c"
        (await api.patch(f"{SERVICES}/c", {"spec": {"type": "ClusterIP", "ports": [HTTP]}})).ok()
        assert (await watch.event())["type"] == "DELETED"
    status = failure(await api.get(f"{SERVICES}?fieldSelector=spec.ports=80"), 400, "BadRequest")
    assert status["message"] == "field label not supported: spec.ports"


async def test_the_status_is_written_through_the_subresource_only(api: Client) -> None:
    status = {"loadBalancer": {"ingress": [{"ip": "10.0.0.1", "ipMode": "VIP"}]}}
    applied = json.dumps({**service(type="LoadBalancer", ports=[HTTP]), "status": status})
    made = (await api.patch(f"{SERVICES}/s?fieldManager=main", applied, APPLY)).ok(201)
    assert made["status"] == {"loadBalancer": {}}
    labelled = json.loads(applied) | {"metadata": {"name": "s", "labels": {"a": "b"}}}
    path = f"{SERVICES}/s/status?fieldManager=controller&force=true"
    written = (await api.patch(path, json.dumps(labelled), APPLY)).ok()
    assert (written["status"], written["metadata"]["labels"]) == (status, {"a": "b"})
    owned = {entry["manager"]: entry["fieldsV1"] for entry in written["metadata"]["managedFields"]}
    assert owned["main"].keys() == {"f:spec"}
    assert owned["controller"].keys() == {"f:metadata", "f:status"}


async def test_the_fields_that_an_apply_owns_below_the_affinity(shared_api: Client) -> None:
    config = {"clientIP": {"timeoutSeconds": 9}}
    body = json.dumps(service("affine", ports=[HTTP], sessionAffinity="ClientIP", sessionAffinityConfig=config))
    made = (await shared_api.patch(f"{SERVICES}/affine?fieldManager=m&dryRun=All", body, APPLY)).ok(201)
    [entry] = made["metadata"]["managedFields"]
    owned: dict[str, Any] = {"f:clientIP": {"f:timeoutSeconds": {}}}
    assert entry["fieldsV1"]["f:spec"]["f:sessionAffinityConfig"] == owned


async def test_applying_the_status_of_a_definition_sets_labels(api: Client) -> None:
    """As kube-apiserver, which means to leave metadata alone (kubernetes/kubernetes#137681)."""
    name = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.test.example.com"
    applied = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    metadata = {"name": "widgets.test.example.com", "labels": {"a": "b"}}
    body = json.dumps({**applied, "metadata": metadata, "status": {"storedVersions": ["v1"]}})
    written = (await api.patch(f"{name}/status?fieldManager=controller&force=true", body, APPLY)).ok()
    [entry] = [e for e in written["metadata"]["managedFields"] if e["manager"] == "controller"]
    assert ("f:metadata" in entry["fieldsV1"]) == ("labels" in written["metadata"])


@pytest.mark.parametrize(
    "spec, warnings",
    [
        pytest.param({"ports": [HTTP]}, [], id="none"),
        pytest.param(
            {"clusterIP": "None", "sessionAffinity": "ClientIP", "externalIPs": ["192.0.2.1"]},
            [
                "spec.externalIPs is ignored for headless services",
                "spec.SessionAffinity is ignored for headless services",
            ],
            id="headless",
        ),
        pytest.param(
            {"ports": [HTTP], "externalIPs": ["2001:DB8::1"]},
            [
                'spec.externalIPs[0]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")',
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            ],
            id="external addresses",
        ),
        pytest.param(
            {"ports": [HTTP], "externalName": "a.example.com"},
            ['spec.externalName is ignored when spec.type is not "ExternalName"'],
            id="external name",
        ),
        pytest.param(
            {"ports": [HTTP], "trafficDistribution": "PreferClose"},
            ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'],
            id="distribution",
        ),
        pytest.param(
            {"type": "LoadBalancer", "ports": [HTTP], "loadBalancerSourceRanges": ["FE80::/64"]},
            [
                'spec.loadBalancerSourceRanges[0]: IPv6 CIDR value "FE80::/64" should be in RFC 5952 canonical format '
                '("fe80::/64")'
            ],
            id="source ranges",
        ),
    ],
)
async def test_warnings(shared_api: Client, spec: dict[str, Any], warnings: list[str]) -> None:
    answer = await shared_api.post(f"{SERVICES}?dryRun=All", service("warned", **spec))
    answer.ok(201)
    assert answer.warnings == warnings


@shares_application
async def test_annotations(shared_api: Client) -> None:
    hints, mode = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
    ranges = "service.beta.kubernetes.io/load-balancer-source-ranges"
    made = service("annotated", type="LoadBalancer", ports=[HTTP])
    (await shared_api.post(SERVICES, made)).ok(201)
    for chosen, field, message in (
        ({hints: "Auto", mode: "auto"}, mode, f'Invalid value: "auto": must match annotations[{hints}] when both are'),
        ({ranges: " 10.0.0.0/8 , 10.0.0.0"}, ranges, 'Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g.'),
    ):
        patch = {"metadata": {"annotations": chosen}}
        status = failure(await shared_api.patch(f"{SERVICES}/annotated", patch), 422, "Invalid")
        [cause] = status["details"]["causes"]
        assert (cause["field"], cause["message"][: len(message)]) == (f"metadata.annotations[{field}]", message)
    (await shared_api.patch(f"{SERVICES}/annotated", {"metadata": {"annotations": {ranges: "10.0.0.0/8"}}})).ok()
    (await shared_api.delete(f"{SERVICES}/annotated")).ok()


@shares_application
@pytest.mark.parametrize(
    "type_, entry, field, message",
    [
        pytest.param("ClusterIP", {"ip": "10.0.0.1"}, "", "Forbidden: may only be used when `spec.type` is 'LoadBalancer'", id="type"),
        pytest.param("LoadBalancer", {"ip": "10.0.0"}, "[0].ip", 'Invalid value: "10.0.0": must be a valid IP address', id="address"),
        pytest.param("LoadBalancer", {"ipMode": "VIP"}, "[0].ipMode", "Forbidden: may not be specified when `ip` is not set", id="mode alone"),
        pytest.param(
            "LoadBalancer",
            {"ip": "10.0.0.1", "ipMode": "X"},
            "[0].ipMode",
            'Unsupported value: "X": supported values: "Proxy", "VIP"',
            id="mode",
        ),
        pytest.param("LoadBalancer", {"hostname": "A"}, "[0].hostname", 'Invalid value: "A": a lowercase RFC 1123', id="name"),
        pytest.param("LoadBalancer", {"hostname": "10.0.0.1"}, "[0].hostname", 'Invalid value: "10.0.0.1": must be a DNS name, not an IP', id="address as name"),
    ],
)  # fmt: skip
async def test_invalid_statuses(
    shared_api: Client, type_: str, entry: dict[str, Any], field: str, message: str
) -> None:
    (await shared_api.post(SERVICES, service("reached", type=type_, ports=[HTTP]))).ok(201)
    patch = {"status": {"loadBalancer": {"ingress": [entry]}}}
    status = failure(await shared_api.patch(f"{SERVICES}/reached/status", patch), 422, "Invalid")
    (await shared_api.delete(f"{SERVICES}/reached")).ok()
    [cause] = status["details"]["causes"]
    assert (cause["field"], cause["message"][: len(message)]) == (f"status.loadBalancer.ingress{field}", message)


@shares_application
async def test_ports_of_nodes_that_a_client_leaves_out_are_kept(shared_api: Client) -> None:
    ports = [{**HTTP, "nodePort": 30080}, {"name": "dns", "port": 53, "nodePort": 30053}]
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    made = service("kept", **spec, ports=ports, healthCheckNodePort=30099)
    (await shared_api.post(SERVICES, made)).ok(201)
    without = service("kept", **spec, ports=[HTTP, {"name": "dns", "port": 54}])
    kept = (await shared_api.put(f"{SERVICES}/kept", without)).ok()["spec"]
    (await shared_api.delete(f"{SERVICES}/kept")).ok()
    assert [port["nodePort"] for port in kept["ports"]] == [30080, 30053]
    assert kept["healthCheckNodePort"] == 30099


async def test_the_table(api: Client) -> None:
    for name, spec in (
        ("a", {"ports": [HTTP, {"name": "dns", "port": 53, "protocol": "UDP"}], "selector": {"b": "c", "a": "b"}}),
        ("b", {"type": "NodePort", "ports": [{**HTTP, "nodePort": 30080}], "externalIPs": ["192.0.2.1"]}),
        ("c", {"type": "LoadBalancer", "ports": [HTTP], "clusterIP": "10.0.0.1"}),
        ("d", {"type": "LoadBalancer", "ports": [HTTP]}),
        ("e", {"type": "ExternalName", "externalName": "a.example.com"}),
        ("f", {"clusterIP": "None"}),
    ):
        (await api.post(SERVICES, service(name, **spec))).ok(201)
    ingress = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}, {"hostname": "192.0.2.10.example.com"}]}}}
    (await api.patch(f"{SERVICES}/c/status", ingress)).ok()
    table = (await api.get(SERVICES, accept=TABLE)).ok()
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "Selector"
    ]  # fmt: skip
    assert [row["cells"][:5] + row["cells"][6:] for row in table["rows"]] == [
        ["a", "ClusterIP", "<none>", "<none>", "80/TCP,53/UDP", "a=b,b=c"],
        ["b", "NodePort", "<none>", "192.0.2.1", "80:30080/TCP", "<none>"],
        ["c", "LoadBalancer", "10.0.0.1", "192.0.2.10.example.com,192.0.2.9", "80/TCP", "<none>"],
        ["d", "LoadBalancer", "<none>", "<pending>", "80/TCP", "<none>"],
        ["e", "ExternalName", "<none>", "a.example.com", "<none>", "<none>"],
        ["f", "ClusterIP", "None", "<none>", "<none>", "<none>"],
    ]


async def test_empty_fields_and_a_missing_spec(shared_api: Client) -> None:
    """A client may send empty lists and maps; a spec may be missing as long as its defaults are valid."""
    empty = {"ports": [], "selector": {}, "externalIPs": [], "ipFamilies": [], "clusterIP": "None"}
    made = (await shared_api.post(SERVICES, service("2-empty", **empty))).ok(201)
    assert not made["spec"].keys() & {"ports", "selector", "externalIPs"}
    [entry] = made["metadata"]["managedFields"]
    assert "f:ipFamilies" not in entry["fieldsV1"]["f:spec"]
    bare = {"metadata": {"name": "2-empty"}}
    assert (await shared_api.put(f"{SERVICES}/2-empty", bare)).ok()["spec"]["sessionAffinity"] == "None"
    status = failure(
        await shared_api.put(f"{SERVICES}/2-empty", {"metadata": {"name": "2-empty", "uid": "u"}}), 409, "Conflict"
    )
    assert "Key: /registry/services/specs/default/2-empty, " in status["message"]
    (await shared_api.delete(f"{SERVICES}/2-empty")).ok()


async def test_a_put_to_status_that_creates_completes_no_addresses(shared_api: Client) -> None:
    """So one that needs them is refused (registry/core/service/storage/storage.go)."""
    path = f"{SERVICES}/by-status/status"
    refused = failure(await shared_api.put(path, service("by-status", clusterIP="None", ports=[HTTP])), 422, "Invalid")
    assert [(c["reason"], c["field"]) for c in refused["details"]["causes"]] == [
        ("FieldValueRequired", "spec.clusterIPs")
    ]
    made = (await shared_api.put(path, service("by-status", ports=[HTTP]))).ok(201)
    assert not made["spec"].keys() & {"clusterIPs", "ipFamilies", "ipFamilyPolicy"}
    (await shared_api.delete(f"{SERVICES}/by-status")).ok()


async def test_a_condition_without_its_required_fields_has_their_zero_values(shared_api: Client) -> None:
    (await shared_api.post(SERVICES, service("incomplete", ports=[HTTP]))).ok(201)
    path = f"{SERVICES}/incomplete/status"
    (await shared_api.patch(path, {"status": {"conditions": [{"type": "A", "status": "x"}]}})).ok()
    served = (await shared_api.get(path)).ok()["status"]["conditions"]
    assert served == [{"type": "A", "status": "x", "lastTransitionTime": None, "reason": "", "message": ""}]


async def test_a_strategic_patch_merges_ports(shared_api: Client) -> None:
    """As kubectl apply and kubectl patch send it: only what has changed."""
    path = f"{SERVICES}/merged"
    ports = [HTTP, {"name": "https", "port": 443}]
    (await shared_api.post(SERVICES, service("merged", clusterIP="None", ports=ports))).ok(201)
    patch = {"spec": {"ports": [{"port": 443, "name": "tls"}]}}
    after = (await shared_api.patch(path, patch, "application/strategic-merge-patch+json")).ok()
    assert {port["port"]: port["name"] for port in after["spec"]["ports"]} == {80: "http", 443: "tls"}
