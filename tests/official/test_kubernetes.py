"""Integration suites of Kubernetes as black boxes: server-side apply, CEL, dry run, webhooks, garbage collection, discovery,
and what else test/integration has about an API server.

As in test_apiextensions.py; build.py compiles the programs. A suite that is not there is skipped. Resources that the
suites find in discovery and have no data for, because only this server has them, are left out of their loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.emulating import AS_1_36
from tests.folders import data_folder
from tests.official.black_box import FOLDER, names_of_tests, run_as_upstream
from tests.running import RunningServer, running_server

_SECONDS: Final = 150
_WORKLOADS: Final = "pods, deployments and other kinds that are not served"
_ETCD: Final = "reads or writes etcd"
_GATE: Final = "a feature gate that is off by default"
_SIZE: Final = "objects may be larger here (docs/differences.md)"
_FLAG: Final = "a flag or a file of kube-apiserver"

# Tests that are not about what this server does, with the reason.
_OUT_OF_SCOPE: Final[Mapping[str, Mapping[str, str]]] = {
    "apply": {
        "TestApplyCRDUnhandledSchema": _ETCD,
        "TestUpdateStatusWithOldVersion": _ETCD,
        "TestCreateVeryLargeObject": _SIZE,
        "TestUpdateVeryLargeObject": _SIZE,
        "TestPatchVeryLargeObject": _SIZE,
        "TestPatchVeryLargeObjectCBORApply": _SIZE,
        **dict.fromkeys(
            (
                "TestApplyCanRemoveMapItemsContributedToByControllers",
                "TestApplyCanTransferFieldOwnershipToController",
                "TestApplyConvertsManagedFieldsVersion",
                "TestApplyDoesNotChangeManagedFieldsViaSubresources",
                "TestApplyEmptyMarkerStructDifferentFromNil",
                "TestApplyFailsWithVersionMismatch",
                "TestApplyFormerlyAtomicFields",
                "TestApplyMatchesFakeClientsetApply",
                "TestApplyRemoveContainerPort",
                "TestApplyUnsetExclusivelyOwnedFields",
                "TestApplyUnsetSharedFields",
                "TestApplyUpdateApplyConflictForced",
                "TestDefaultMissingKeys",
                "TestDroppingSubresourceField",
                "TestDroppingSubresourceFromSpecField",
                "TestDuplicatesInAssociativeLists",
                "TestNoOpApplyWithEmptyMap",
                "TestNoSemanticUpdateApplySameResourceVersion",
                "TestNoSemanticUpdatePutSameResourceVersion",
                "TestRenamingAppliedFieldManagers",
                "TestRenamingUpdatedFieldManagers",
                "TestSubresourceField",
                "TestUpgradeClientSideToServerSideApply",
            ),
            _WORKLOADS,
        ),
    },
    "cel": {
        "TestPolicyAdmissionV1beta1": _GATE,
        "TestExcludedResources": "compares discovery with a list of Kubernetes",
        "TestStaticPolicyBlocksAPICreation": _GATE,
        "TestStaticPolicyComprehensive": _GATE,
        "TestAuthorizationDecisionCaching": "an authorization webhook",
        "Test_ValidateAnnotationsAndWarnings": "reads the audit log of kube-apiserver",
    },
    "admissionwebhook": {
        "TestBrokenWebhook": _WORKLOADS,
        "TestStaticWebhookBlocksAPICreation": _GATE,
        "TestStaticWebhookComprehensive": _GATE,
        "TestWebhookClientAuthWithAggregatorRouting": _FLAG,
        "TestWebhookClientAuthWithoutAggregatorRouting": _FLAG,
        "TestWebhookLoadBalance": "services are resolved by a hook in kube-apiserver",
        "TestWebhookReinvocationPolicyWithWatchCache": _WORKLOADS,
        "TestWebhookReinvocationPolicyWithoutWatchCache": _WORKLOADS,
    },
    "discovery": {"TestPeerAggregatedDiscovery": _GATE},
    "garbagecollector": {
        "TestCascadingDeleteOnCRDConversionFailure": "looks into the collector of Kubernetes",
        "TestStressingCascadingDeletion": "replication controllers, which orphan their dependents by default",
        **dict.fromkeys(
            ("TestCustomResourceCascadingDeletion", "TestMixedRelationships"),
            "objects of definitions that are younger than five seconds (docs/differences.md)",
        ),
    },
    "openapi": {
        "TestOpenAPIV3SpecRoundTrip": "documents of workloads",
        "TestOpenAPIV3ProtoRoundtrip": "upstream skips it",
    },
    "configmap": {"TestConfigMap": _WORKLOADS},
    "secrets": {"TestSecrets": _WORKLOADS},
    "apiserver": {
        **dict.fromkeys(
            (
                "TestCanaryCVE_2021_29923",
                "TestGetScaleSubresourceAsTableForAllBuiltins",
                "TestGetSubresourcesAsTables",
                "TestPodSubresourceAuth",
            ),
            _WORKLOADS,
        ),
        **dict.fromkeys(
            (
                "TestAllowedEmulationVersions",
                "TestDisableEmulationVersion",
                "TestEmulatedStorageVersion",
                "TestEnableEmulationVersion",
                "TestEnableEmulationVersionForwardCompatible",
                "TestEnableRuntimeConfigEmulationVersionForwardCompatible",
                "TestMinCompatibilityStorageVersion",
            ),
            _FLAG,
        ),
        **dict.fromkeys(
            (
                "TestShardedList",
                "TestShardedListAllResources",
                "TestShardedListByNamespace",
                "TestShardedListComplete",
                "TestShardedWatch",
            ),
            _GATE,
        ),
        "TestCustomResourceValidatorsWithSchemaConversion": _ETCD,
        "TestDefaultStorageEncoding": _ETCD,
        "TestListOptions": _ETCD,
        "TestNoNewBetaAPIsByDefault": "v1beta1 of definitions and of storage migrations is served (docs/differences.md)",
        "TestNondeterministicResponseEncoding": "expects two encodings of one object: here it has one",
        **dict.fromkeys(
            (
                "TestNotWhiteListedSecretTypeMutationUpdateDisallowed",
                "TestOpenShiftValidateWhiteListedSecretTypeMutationUpdateAllowed",
            ),
            "a change of OpenShift, not of Kubernetes",
        ),
        "TestRequestObjectConvertibleToUnstructured": "every kind of Kubernetes",
        "TestDedupOwnerReferences": "the garbage collector deletes what it makes: its owner does not exist",
        "TestTransform": "the service kubernetes, which a tenant does not have",
        "TestWatchTransformCaching": "counts ConfigMaps; a namespace has kube-root-ca.crt from a controller here",
    },
}
# Parts of tests: elements of the names of subtests, as -test.skip has them.
_OWN_RESOURCES: Final = (
    r".*/^(apis|query)\.registry",
    r".*/^apiextensions\.k8s\.io$/^v1beta1",
    r".*/^apiextensions\.k8s\.io\.v1beta1",
    r".*/^storagemigration\.k8s\.io$/^v1beta1",
)
_PARTS_LEFT_OUT: Final[Mapping[str, tuple[str, ...]]] = {
    # A Status that has its kind: client-go has other words for one without (docs/differences.md).
    "admissionwebhook": ("TestWebhookTimeout/^timed_out_client_requests_skip",),
    "apiserver": (
        "^TestFieldValidation$/^(Post|Put|PatchTyped|SMP|ApplyCreate|ApplyUpdate)$",  # deployments
        "^TestMaxResourceSize$/^Create_should_limit",  # deployments
        "^TestMaxResourceSize$/^ApplyPatchType_should_handle_a_patch_just_under",  # 1.5 million lists
    ),
    "apply": ("TestApplyAlsoCreates/test-pod",),
    "cel": (r"MutatingAdmissionPolicy/^v1beta1$",),
}
_NAMESPACES: Final[Mapping[str, tuple[str, ...]]] = {
    "apiserver": ("metadata-crd", "metadata-watch-crd", "test-api-crd-protobuf", "test-transform")
}
_SUITES: Final = (
    "admissionwebhook",
    "apiserver",
    "apply",
    "cel",
    "configmap",
    "discovery",
    "dryrun",
    "events",
    "garbagecollector",
    "namespace",
    "openapi",
    "secrets",
)
_TESTS: Final = [
    pytest.param(suite, name, id=f"{suite}-{name}")
    for suite in _SUITES
    for name in names_of_tests(FOLDER / f"{suite}.test")
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _TESTS, reason="REGISTRY_TEST_OFFICIAL_SUITES names no folder with suites of Kubernetes"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    arguments = (
        "--cbor",
        "--allow-egress-to=127.0.0.0/8",  # webhooks of the suites listen on the loopback
        "--strict-transport-security=max-age=31536000; includeSubDomains",
        *AS_1_36,
    )
    with data_folder() as folder, running_server(folder, *arguments) as server:
        yield server


@pytest.mark.parametrize("suite, name", _TESTS or [("none", "none")])
def test_as_upstream(suite: str, name: str, server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> None:
    if reason := _OUT_OF_SCOPE.get(suite, {}).get(name):
        pytest.skip(reason)
    run_as_upstream(
        FOLDER / f"{suite}.test",
        server,
        tmp_path_factory.mktemp("scripts"),
        f"^{name}$",
        namespaces=_NAMESPACES.get(suite, ()),
        seconds=_SECONDS,
        skipped="|".join((*_OWN_RESOURCES, *_PARTS_LEFT_OUT.get(suite, ()))),
    )
