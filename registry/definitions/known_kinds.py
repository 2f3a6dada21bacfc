"""The kinds that kube-apiserver knows, whether they are served here or not.

An object of a known kind sent to another resource gets another error than one of an unknown kind.
Follows the registrations in staging/src/k8s.io/api/*/*/register.go at v1.36 (legacyscheme.Scheme).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

_KINDS: dict[str, frozenset[str]] = {
    group_version: frozenset(kinds.split())
    for group_version, kinds in {
        "v1": "Binding ComponentStatus ConfigMap Endpoints Event LimitRange List Namespace Node NodeProxyOptions "
        "PersistentVolume PersistentVolumeClaim Pod PodAttachOptions PodExecOptions PodLogOptions "
        "PodPortForwardOptions PodProxyOptions PodStatusResult PodTemplate RangeAllocation ReplicationController "
        "ResourceQuota Secret SerializedReference Service ServiceAccount ServiceProxyOptions",
        "admissionregistration.k8s.io/v1": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
        "ValidatingWebhookConfiguration",
        "admissionregistration.k8s.io/v1alpha1": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
        "admissionregistration.k8s.io/v1beta1": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding "
        "ValidatingWebhookConfiguration",
        "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
        "apps/v1beta1": "ControllerRevision Deployment DeploymentRollback Scale StatefulSet",
        "apps/v1beta2": "ControllerRevision DaemonSet Deployment ReplicaSet Scale StatefulSet",
        "authentication.k8s.io/v1": "SelfSubjectReview TokenRequest TokenReview",
        "authentication.k8s.io/v1alpha1": "SelfSubjectReview",
        "authentication.k8s.io/v1beta1": "SelfSubjectReview TokenReview",
        "authorization.k8s.io/v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview "
        "SubjectAccessReview",
        "authorization.k8s.io/v1beta1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview "
        "SubjectAccessReview",
        "autoscaling/v1": "HorizontalPodAutoscaler Scale",
        "autoscaling/v2": "HorizontalPodAutoscaler",
        "batch/v1": "CronJob Job",
        "batch/v1beta1": "CronJob",
        "certificates.k8s.io/v1": "CertificateSigningRequest",
        "certificates.k8s.io/v1alpha1": "ClusterTrustBundle",
        "certificates.k8s.io/v1beta1": "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest",
        "coordination.k8s.io/v1": "Lease",
        "coordination.k8s.io/v1alpha2": "LeaseCandidate",
        "coordination.k8s.io/v1beta1": "Lease LeaseCandidate",
        "discovery.k8s.io/v1": "EndpointSlice",
        "discovery.k8s.io/v1beta1": "EndpointSlice",
        "events.k8s.io/v1": "Event",
        "events.k8s.io/v1beta1": "Event",
        "extensions/v1beta1": "DaemonSet Deployment DeploymentRollback Ingress NetworkPolicy ReplicaSet Scale",
        "flowcontrol.apiserver.k8s.io/v1": "FlowSchema PriorityLevelConfiguration",
        "flowcontrol.apiserver.k8s.io/v1beta1": "FlowSchema PriorityLevelConfiguration",
        "flowcontrol.apiserver.k8s.io/v1beta2": "FlowSchema PriorityLevelConfiguration",
        "flowcontrol.apiserver.k8s.io/v1beta3": "FlowSchema PriorityLevelConfiguration",
        "internal.apiserver.k8s.io/v1alpha1": "StorageVersion",
        "networking.k8s.io/v1": "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR",
        "networking.k8s.io/v1beta1": "IPAddress Ingress IngressClass ServiceCIDR",
        "node.k8s.io/v1": "RuntimeClass",
        "node.k8s.io/v1alpha1": "RuntimeClass",
        "node.k8s.io/v1beta1": "RuntimeClass",
        "policy/v1": "Eviction PodDisruptionBudget",
        "policy/v1beta1": "Eviction PodDisruptionBudget",
        "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "rbac.authorization.k8s.io/v1alpha1": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "rbac.authorization.k8s.io/v1beta1": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "resource.k8s.io/v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
        "resource.k8s.io/v1alpha3": "DeviceTaintRule ResourcePoolStatusRequest",
        "resource.k8s.io/v1beta1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
        "resource.k8s.io/v1beta2": "DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice",
        "scheduling.k8s.io/v1": "PriorityClass",
        "scheduling.k8s.io/v1alpha2": "PodGroup Workload",
        "scheduling.k8s.io/v1beta1": "PriorityClass",
        "storage.k8s.io/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
        "storage.k8s.io/v1alpha1": "CSIStorageCapacity VolumeAttachment VolumeAttributesClass",
        "storage.k8s.io/v1beta1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment "
        "VolumeAttributesClass",
        "storagemigration.k8s.io/v1beta1": "StorageVersionMigration",
    }.items()
}
_WITHOUT_LIST = frozenset(
    "Binding DeploymentRollback Eviction List LocalSubjectAccessReview PodStatusResult RangeAllocation Scale "
    "SelfSubjectAccessReview SelfSubjectReview SelfSubjectRulesReview SerializedReference SubjectAccessReview "
    "TokenRequest TokenReview NodeProxyOptions PodAttachOptions PodExecOptions PodLogOptions PodPortForwardOptions "
    "PodProxyOptions ServiceProxyOptions".split()
)
# Kinds of meta.k8s.io/v1 that every version of a group has.
META_KINDS = frozenset(
    "CreateOptions DeleteOptions GetOptions ListOptions PatchOptions UpdateOptions WatchEvent".split()
)


def group_versions(names: Iterable[str]) -> frozenset[tuple[str, str]]:
    """{"apps/v1", "v1"} is {("apps", "v1"), ("", "v1")}."""
    return frozenset((group, version) for group, _, version in (name.rpartition("/") for name in names))


GROUP_VERSIONS = group_versions(_KINDS)


def is_known_kind(kind: str, api_version: str) -> bool:
    kinds = _KINDS.get(api_version)
    if kinds is None:
        return False
    listed = kind.removesuffix("List")
    return kind in kinds or kind in META_KINDS or (listed != kind and listed in kinds - _WITHOUT_LIST)


def is_kind_of_scheme(kind: str, api_version: str, own: str, versions: Collection[str]) -> bool:
    """Whether the scheme of a server with a single kind knows a kind: its own, its list, or one of meta.k8s.io/v1."""
    if kind in META_KINDS:
        return api_version in ("v1", *versions)
    return api_version in versions and kind in (own, f"{own}List")


def is_known_version(kind: str, group: str, api_version: str) -> bool:
    """Whether a kind of the group has this version, to and from which its objects are converted."""
    return kind in _KINDS.get(api_version, ()) and api_version.rpartition("/")[0] == group
