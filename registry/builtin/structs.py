"""The Go structs of the core, events, coordination groups and of reviews, as tables for
registry/definitions/structs/structs.py.

Follows staging/src/k8s.io/api/{core,events,coordination,authentication,authorization}/v1/types.go at v1.36.
"""

from __future__ import annotations

from registry.builtin.meta_structs import Condition, LabelSelector, LabelSelectorRequirement, kind
from registry.builtin.scalars import BYTES_MAP, MICRO_TIME, QUANTITY
from registry.definitions.structs.scalars import BOOL, INT_32, INT_64, STRING, Scalar, string_type
from registry.definitions.structs.structs import STRINGS, Field, Map, Pointer, Slice, Struct
from registry.definitions.types import TIME

_RESOURCES = Map(QUANTITY, "v1.ResourceList")

ObjectReference = Struct(
    "ObjectReference",
    (
        Field("kind", STRING),
        Field("namespace", STRING),
        Field("name", STRING),
        Field("uid", Scalar("types.UID", str, "")),
        Field("apiVersion", STRING),
        Field("resourceVersion", STRING),
        Field("fieldPath", STRING),
    ),
)

ConfigMap = kind(
    "ConfigMap", Field("immutable", Pointer(BOOL)), Field("data", Map(STRING)), Field("binaryData", BYTES_MAP)
)

Secret = kind(
    "Secret",
    Field("immutable", Pointer(BOOL)),
    Field("data", BYTES_MAP),
    Field("stringData", Map(STRING)),
    Field("type", string_type("SecretType")),
)

ServiceAccount = kind(
    "ServiceAccount",
    Field("secrets", Slice(ObjectReference)),
    Field("imagePullSecrets", Slice(Struct("LocalObjectReference", (Field("name", STRING),)))),
    Field("automountServiceAccountToken", Pointer(BOOL)),
)

NamespaceCondition = Struct(
    "NamespaceCondition",
    (
        Field("type", string_type("NamespaceConditionType"), True),
        Field("status", string_type("ConditionStatus"), True),
        Field("lastTransitionTime", TIME, True),
        Field("reason", STRING),
        Field("message", STRING),
    ),
)

Namespace = kind(
    "Namespace",
    Field("spec", Struct("NamespaceSpec", (Field("finalizers", Slice(string_type("FinalizerName"))),)), True),
    Field(
        "status",
        Struct(
            "NamespaceStatus",
            (Field("phase", string_type("NamespacePhase")), Field("conditions", Slice(NamespaceCondition))),
        ),
        True,
    ),
)

_ScopeRequirement = Struct(
    "ScopedResourceSelectorRequirement",
    (
        Field("scopeName", string_type("ResourceQuotaScope"), True),
        Field("operator", string_type("ScopeSelectorOperator"), True),
        Field("values", STRINGS),
    ),
)

ResourceQuota = kind(
    "ResourceQuota",
    Field(
        "spec",
        Struct(
            "ResourceQuotaSpec",
            (
                Field("hard", _RESOURCES),
                Field("scopes", Slice(string_type("ResourceQuotaScope"))),
                Field(
                    "scopeSelector",
                    Pointer(Struct("ScopeSelector", (Field("matchExpressions", Slice(_ScopeRequirement)),))),
                ),
            ),
        ),
        True,
    ),
    Field("status", Struct("ResourceQuotaStatus", (Field("hard", _RESOURCES), Field("used", _RESOURCES))), True),
)

_LimitRangeItem = Struct(
    "LimitRangeItem",
    (
        Field("type", string_type("LimitType"), True),
        Field("max", _RESOURCES),
        Field("min", _RESOURCES),
        Field("default", _RESOURCES),
        Field("defaultRequest", _RESOURCES),
        Field("maxLimitRequestRatio", _RESOURCES),
    ),
)

LimitRange = kind(
    "LimitRange", Field("spec", Struct("LimitRangeSpec", (Field("limits", Slice(_LimitRangeItem), True),)), True)
)

_EventSource = Struct("EventSource", (Field("component", STRING), Field("host", STRING)))

Event = kind(
    "Event",
    Field("involvedObject", ObjectReference, True),
    Field("reason", STRING),
    Field("message", STRING),
    Field("source", _EventSource, True),
    Field("firstTimestamp", TIME, True),
    Field("lastTimestamp", TIME, True),
    Field("count", INT_32),
    Field("type", STRING),
    Field("eventTime", MICRO_TIME, True),
    Field(
        "series", Pointer(Struct("EventSeries", (Field("count", INT_32), Field("lastObservedTime", MICRO_TIME, True))))
    ),
    Field("action", STRING),
    Field("related", Pointer(ObjectReference)),
    Field("reportingComponent", STRING, True),
    Field("reportingInstance", STRING, True),
)

# Scale of autoscaling/v1, which is a view of objects of other kinds.
Scale = kind(
    "Scale",
    Field("spec", Struct("ScaleSpec", (Field("replicas", INT_32),)), True),
    Field("status", Struct("ScaleStatus", (Field("replicas", INT_32, True), Field("selector", STRING))), True),
)

# Event of events.k8s.io.
NewEvent = kind(
    "Event",
    Field("eventTime", MICRO_TIME, True),
    Field(
        "series",
        Pointer(Struct("EventSeries", (Field("count", INT_32, True), Field("lastObservedTime", MICRO_TIME, True)))),
    ),
    Field("reportingController", STRING),
    Field("reportingInstance", STRING),
    Field("action", STRING),
    Field("reason", STRING),
    Field("regarding", ObjectReference, True),
    Field("related", Pointer(ObjectReference)),
    Field("note", STRING),
    Field("type", STRING),
    Field("deprecatedSource", _EventSource, True),
    Field("deprecatedFirstTimestamp", TIME, True),
    Field("deprecatedLastTimestamp", TIME, True),
    Field("deprecatedCount", INT_32),
)

Lease = kind(
    "Lease",
    Field(
        "spec",
        Struct(
            "LeaseSpec",
            (
                Field("holderIdentity", Pointer(STRING)),
                Field("leaseDurationSeconds", Pointer(INT_32)),
                Field("acquireTime", Pointer(MICRO_TIME)),
                Field("renewTime", Pointer(MICRO_TIME)),
                Field("leaseTransitions", Pointer(INT_32)),
                Field("strategy", Pointer(string_type("CoordinatedLeaseStrategy"))),
                Field("preferredHolder", Pointer(STRING)),
            ),
        ),
        True,
    ),
)

# -- roles and bindings

_RULES = Field(
    "rules",
    Slice(
        Struct(
            "PolicyRule",
            (
                Field("verbs", STRINGS, True),
                Field("apiGroups", STRINGS),
                Field("resources", STRINGS),
                Field("resourceNames", STRINGS),
                Field("nonResourceURLs", STRINGS),
            ),
        )
    ),
    True,
)
_BINDING = (
    Field(
        "subjects",
        Slice(
            Struct(
                "Subject",
                (
                    Field("kind", STRING, True),
                    Field("apiGroup", STRING),
                    Field("name", STRING, True),
                    Field("namespace", STRING),
                ),
            )
        ),
    ),
    Field(
        "roleRef",
        Struct("RoleRef", (Field("apiGroup", STRING, True), Field("kind", STRING, True), Field("name", STRING, True))),
        True,
    ),
)

Role = kind("Role", _RULES)
ClusterRole = kind(
    "ClusterRole",
    _RULES,
    Field(
        "aggregationRule", Pointer(Struct("AggregationRule", (Field("clusterRoleSelectors", Slice(LabelSelector)),)))
    ),
)
RoleBinding = kind("RoleBinding", *_BINDING)
ClusterRoleBinding = kind("ClusterRoleBinding", *_BINDING)

StorageVersionMigration = kind(
    "StorageVersionMigration",
    Field(
        "spec",
        Struct(
            "StorageVersionMigrationSpec",
            (
                Field(
                    "resource",
                    Struct("GroupResource", (Field("group", STRING, True), Field("resource", STRING, True))),
                    True,
                ),
            ),
            "v1beta1",
        ),
        True,
    ),
    Field(
        "status",
        Struct(
            "StorageVersionMigrationStatus",
            (Field("conditions", Slice(Condition)), Field("resourceVersion", STRING)),
            "v1beta1",
        ),
        True,
    ),
)

# -- reviews

_FieldSelectorRequirement = Struct(
    "FieldSelectorRequirement",
    (
        Field("key", STRING, True),
        Field("operator", string_type("FieldSelectorOperator"), True),
        Field("values", STRINGS),
    ),
)
_ResourceAttributes = Struct(
    "ResourceAttributes",
    (
        Field("namespace", STRING),
        Field("verb", STRING),
        Field("group", STRING),
        Field("version", STRING),
        Field("resource", STRING),
        Field("subresource", STRING),
        Field("name", STRING),
        Field(
            "fieldSelector",
            Pointer(
                Struct(
                    "FieldSelectorAttributes",
                    (Field("rawSelector", STRING), Field("requirements", Slice(_FieldSelectorRequirement))),
                )
            ),
        ),
        Field(
            "labelSelector",
            Pointer(
                Struct(
                    "LabelSelectorAttributes",
                    (Field("rawSelector", STRING), Field("requirements", Slice(LabelSelectorRequirement))),
                )
            ),
        ),
    ),
)
_NonResourceAttributes = Struct("NonResourceAttributes", (Field("path", STRING), Field("verb", STRING)))
_ATTRIBUTES = (
    Field("resourceAttributes", Pointer(_ResourceAttributes)),
    Field("nonResourceAttributes", Pointer(_NonResourceAttributes)),
)
_SubjectSpec = Struct(
    "SubjectAccessReviewSpec",
    (
        *_ATTRIBUTES,
        Field("user", STRING),
        Field("groups", STRINGS),
        Field("extra", Map(Slice(STRING, "v1.ExtraValue"))),
        Field("uid", STRING),
    ),
)
_ReviewStatus = Struct(
    "SubjectAccessReviewStatus",
    (Field("allowed", BOOL, True), Field("denied", BOOL), Field("reason", STRING), Field("evaluationError", STRING)),
)
_ResourceRule = Struct(
    "ResourceRule",
    (
        Field("verbs", STRINGS, True),
        Field("apiGroups", STRINGS),
        Field("resources", STRINGS),
        Field("resourceNames", STRINGS),
    ),
)
_NonResourceRule = Struct("NonResourceRule", (Field("verbs", STRINGS, True), Field("nonResourceURLs", STRINGS)))


def _review(name: str, spec: Struct) -> Struct:
    return kind(name, Field("spec", spec, True), Field("status", _ReviewStatus, True))


SubjectAccessReview = _review("SubjectAccessReview", _SubjectSpec)
LocalSubjectAccessReview = _review("LocalSubjectAccessReview", _SubjectSpec)
SelfSubjectAccessReview = _review("SelfSubjectAccessReview", Struct("SelfSubjectAccessReviewSpec", _ATTRIBUTES))
SelfSubjectRulesReview = kind(
    "SelfSubjectRulesReview",
    Field("spec", Struct("SelfSubjectRulesReviewSpec", (Field("namespace", STRING),)), True),
    Field(
        "status",
        Struct(
            "SubjectRulesReviewStatus",
            (
                Field("resourceRules", Slice(_ResourceRule), True),
                Field("nonResourceRules", Slice(_NonResourceRule), True),
                Field("incomplete", BOOL, True),
                Field("evaluationError", STRING),
            ),
        ),
        True,
    ),
)
_UserInfo = Struct(
    "UserInfo",
    (
        Field("username", STRING),
        Field("uid", STRING),
        Field("groups", STRINGS),
        Field("extra", Map(Slice(STRING, "v1.ExtraValue"))),
    ),
)
SelfSubjectReview = kind(
    "SelfSubjectReview", Field("status", Struct("SelfSubjectReviewStatus", (Field("userInfo", _UserInfo, True),)), True)
)

# -- tokens

TokenReview = kind(
    "TokenReview",
    Field("spec", Struct("TokenReviewSpec", (Field("token", STRING), Field("audiences", STRINGS))), True),
    Field(
        "status",
        Struct(
            "TokenReviewStatus",
            (
                Field("authenticated", BOOL),
                Field("user", _UserInfo, True),
                Field("audiences", STRINGS),
                Field("error", STRING),
            ),
        ),
        True,
    ),
)
TokenRequest = kind(
    "TokenRequest",
    Field(
        "spec",
        Struct(
            "TokenRequestSpec",
            (
                Field("audiences", STRINGS, True),
                Field("expirationSeconds", Pointer(INT_64), True),
                Field(
                    "boundObjectRef",
                    Pointer(
                        Struct(
                            "BoundObjectReference",
                            (
                                Field("kind", STRING),
                                Field("apiVersion", STRING),
                                Field("name", STRING),
                                Field("uid", Scalar("types.UID", str, "")),
                            ),
                        )
                    ),
                    True,
                ),
            ),
        ),
        True,
    ),
    Field(
        "status",
        Struct("TokenRequestStatus", (Field("token", STRING, True), Field("expirationTimestamp", TIME, True))),
        True,
    ),
)
