"""The kinds that kube-apiserver knows, whether they are served here or not.

An object of a known kind sent to another resource gets another error than one of an unknown kind.
Follows the registrations in staging/src/k8s.io/api/*/v1/register.go at v1.36.
"""

from __future__ import annotations

_KINDS: dict[str, frozenset[str]] = {
    group_version: frozenset(kinds.split())
    for group_version, kinds in {
        "v1": "Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume "
        "PersistentVolumeClaim Pod PodStatusResult PodTemplate RangeAllocation ReplicationController ResourceQuota "
        "Secret SerializedReference Service ServiceAccount",
        "admissionregistration.k8s.io/v1": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding "
        "MutatingWebhookConfiguration ValidatingAdmissionPolicy "
        "ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
        "apiregistration.k8s.io/v1": "APIService",
        "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
        "authentication.k8s.io/v1": "SelfSubjectReview TokenRequest TokenReview",
        "authorization.k8s.io/v1": "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview "
        "SubjectAccessReview",
        "autoscaling/v1": "HorizontalPodAutoscaler Scale",
        "autoscaling/v2": "HorizontalPodAutoscaler",
        "batch/v1": "CronJob Job",
        "certificates.k8s.io/v1": "CertificateSigningRequest",
        "coordination.k8s.io/v1": "Lease",
        "discovery.k8s.io/v1": "EndpointSlice",
        "events.k8s.io/v1": "Event",
        "networking.k8s.io/v1": "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR",
        "node.k8s.io/v1": "RuntimeClass",
        "policy/v1": "Eviction PodDisruptionBudget",
        "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "scheduling.k8s.io/v1": "PriorityClass",
        "storage.k8s.io/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
    }.items()
}


def is_known_kind(kind: str, api_version: str) -> bool:
    return kind in _KINDS.get(api_version, frozenset())
