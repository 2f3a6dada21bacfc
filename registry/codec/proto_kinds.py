"""The protobuf messages of built-in kinds: kubectl and client-go send what they have Go types for in protobuf.

Field numbers are those of kubernetes staging/src/k8s.io/api/*/v1/generated.proto.
"""

from __future__ import annotations

from registry.codec.proto import OBJECT_META, Field

Message = tuple[Field, ...]
_METADATA = Field(1, "metadata", OBJECT_META)

_CONDITION: Message = (
    Field(1, "type"),
    Field(2, "status"),
    Field(4, "lastTransitionTime", "time"),
    Field(5, "reason"),
    Field(6, "message"),
)
_OBJECT_REFERENCE: Message = (
    Field(1, "kind"),
    Field(2, "namespace"),
    Field(3, "name"),
    Field(4, "uid"),
    Field(5, "apiVersion"),
    Field(6, "resourceVersion"),
    Field(7, "fieldPath"),
)
_POLICY_RULE: Message = (
    Field(1, "verbs", repeated=True),
    Field(2, "apiGroups", repeated=True),
    Field(3, "resources", repeated=True),
    Field(4, "resourceNames", repeated=True),
    Field(5, "nonResourceURLs", repeated=True),
)
_LABEL_SELECTOR: Message = (
    Field(1, "matchLabels", "strings"),
    Field(
        2, "matchExpressions", (Field(1, "key"), Field(2, "operator"), Field(3, "values", repeated=True)), repeated=True
    ),
)
_SUBJECT: Message = (Field(1, "kind"), Field(2, "apiGroup"), Field(3, "name"), Field(4, "namespace"))
_ROLE_REF: Message = (Field(1, "apiGroup"), Field(2, "kind"), Field(3, "name"))
_BINDING: Message = (_METADATA, Field(2, "subjects", _SUBJECT, repeated=True), Field(3, "roleRef", _ROLE_REF))
_RESOURCE_ATTRIBUTES: Message = (
    Field(1, "namespace"),
    Field(2, "verb"),
    Field(3, "group"),
    Field(4, "version"),
    Field(5, "resource"),
    Field(6, "subresource"),
    Field(7, "name"),
)
_NON_RESOURCE_ATTRIBUTES: Message = (Field(1, "path"), Field(2, "verb"))
_SCOPE_SELECTOR: Message = (
    Field(
        1,
        "matchExpressions",
        (Field(1, "scopeName"), Field(2, "operator"), Field(3, "values", repeated=True)),
        repeated=True,
    ),
)
_LIMIT: Message = (
    Field(1, "type"),
    Field(2, "max", "quantities"),
    Field(3, "min", "quantities"),
    Field(4, "default", "quantities"),
    Field(5, "defaultRequest", "quantities"),
    Field(6, "maxLimitRequestRatio", "quantities"),
)

KINDS: dict[str, Message] = {
    "Namespace": (
        _METADATA,
        Field(2, "spec", (Field(1, "finalizers", repeated=True),)),
        Field(3, "status", (Field(1, "phase"), Field(2, "conditions", _CONDITION, repeated=True))),
    ),
    "ConfigMap": (
        _METADATA,
        Field(2, "data", "strings"),
        Field(3, "binaryData", "bytesmap"),
        Field(4, "immutable", "boolean"),
    ),
    "Secret": (
        _METADATA,
        Field(2, "data", "bytesmap"),
        Field(3, "type"),
        Field(4, "stringData", "strings"),
        Field(5, "immutable", "boolean"),
    ),
    "ServiceAccount": (
        _METADATA,
        Field(2, "secrets", _OBJECT_REFERENCE, repeated=True),
        Field(3, "imagePullSecrets", (Field(1, "name"),), repeated=True),
        Field(4, "automountServiceAccountToken", "boolean"),
    ),
    "ResourceQuota": (
        _METADATA,
        Field(
            2,
            "spec",
            (
                Field(1, "hard", "quantities"),
                Field(2, "scopes", repeated=True),
                Field(3, "scopeSelector", _SCOPE_SELECTOR),
            ),
        ),
        Field(3, "status", (Field(1, "hard", "quantities"), Field(2, "used", "quantities"))),
    ),
    "LimitRange": (_METADATA, Field(2, "spec", (Field(1, "limits", _LIMIT, repeated=True),))),
    "Event": (
        _METADATA,
        Field(2, "involvedObject", _OBJECT_REFERENCE),
        Field(3, "reason"),
        Field(4, "message"),
        Field(5, "source", (Field(1, "component"), Field(2, "host"))),
        Field(6, "firstTimestamp", "time"),
        Field(7, "lastTimestamp", "time"),
        Field(8, "count", "integer"),
        Field(9, "type"),
        Field(10, "eventTime", "microtime"),
        Field(11, "series", (Field(1, "count", "integer"), Field(2, "lastObservedTime", "microtime"))),
        Field(12, "action"),
        Field(13, "related", _OBJECT_REFERENCE),
        Field(14, "reportingComponent"),
        Field(15, "reportingInstance"),
    ),
    # That of events.k8s.io, which client-go's newer recorders send.
    "events.k8s.io/v1 Event": (
        _METADATA,
        Field(2, "eventTime", "microtime"),
        Field(3, "series", (Field(1, "count", "integer"), Field(2, "lastObservedTime", "microtime"))),
        Field(4, "reportingController"),
        Field(5, "reportingInstance"),
        Field(6, "action"),
        Field(7, "reason"),
        Field(8, "regarding", _OBJECT_REFERENCE),
        Field(9, "related", _OBJECT_REFERENCE),
        Field(10, "note"),
        Field(11, "type"),
        Field(12, "deprecatedSource", (Field(1, "component"), Field(2, "host"))),
        Field(13, "deprecatedFirstTimestamp", "time"),
        Field(14, "deprecatedLastTimestamp", "time"),
        Field(15, "deprecatedCount", "integer"),
    ),
    "Lease": (
        _METADATA,
        Field(
            2,
            "spec",
            (
                Field(1, "holderIdentity"),
                Field(2, "leaseDurationSeconds", "integer"),
                Field(3, "acquireTime", "microtime"),
                Field(4, "renewTime", "microtime"),
                Field(5, "leaseTransitions", "integer"),
            ),
        ),
    ),
    "Service": (
        _METADATA,
        Field(
            2,
            "spec",
            (
                Field(
                    1,
                    "ports",
                    (
                        Field(1, "name"),
                        Field(2, "protocol"),
                        Field(3, "port", "integer"),
                        Field(4, "targetPort", "intorstring"),
                        Field(5, "nodePort", "integer"),
                        Field(6, "appProtocol"),
                    ),
                    repeated=True,
                ),
                Field(2, "selector", "strings"),
                Field(3, "clusterIP"),
                Field(4, "type"),
                Field(5, "externalIPs", repeated=True),
                Field(7, "sessionAffinity"),
                Field(8, "loadBalancerIP"),
                Field(9, "loadBalancerSourceRanges", repeated=True),
                Field(10, "externalName"),
                Field(11, "externalTrafficPolicy"),
                Field(13, "publishNotReadyAddresses", "boolean"),
                Field(17, "ipFamilyPolicy"),
                Field(18, "clusterIPs", repeated=True),
                Field(19, "ipFamilies", repeated=True),
                Field(22, "internalTrafficPolicy"),
            ),
        ),
    ),
    "Role": (_METADATA, Field(2, "rules", _POLICY_RULE, repeated=True)),
    "ClusterRole": (
        _METADATA,
        Field(2, "rules", _POLICY_RULE, repeated=True),
        Field(3, "aggregationRule", (Field(1, "clusterRoleSelectors", _LABEL_SELECTOR, repeated=True),)),
    ),
    "RoleBinding": _BINDING,
    "ClusterRoleBinding": _BINDING,
    "TokenRequest": (
        _METADATA,
        Field(
            2,
            "spec",
            (
                Field(1, "audiences", repeated=True),
                Field(
                    3, "boundObjectRef", (Field(1, "kind"), Field(2, "apiVersion"), Field(3, "name"), Field(4, "uid"))
                ),
                Field(4, "expirationSeconds", "integer"),
            ),
        ),
    ),
    "TokenReview": (_METADATA, Field(2, "spec", (Field(1, "token"), Field(2, "audiences", repeated=True)))),
    "SelfSubjectReview": (_METADATA,),
    "SelfSubjectRulesReview": (_METADATA, Field(2, "spec", (Field(1, "namespace"),))),
    "SelfSubjectAccessReview": (
        _METADATA,
        Field(
            2,
            "spec",
            (
                Field(1, "resourceAttributes", _RESOURCE_ATTRIBUTES),
                Field(2, "nonResourceAttributes", _NON_RESOURCE_ATTRIBUTES),
            ),
        ),
    ),
    "SubjectAccessReview": (
        _METADATA,
        Field(
            2,
            "spec",
            (
                Field(1, "resourceAttributes", _RESOURCE_ATTRIBUTES),
                Field(2, "nonResourceAttributes", _NON_RESOURCE_ATTRIBUTES),
                Field(3, "user"),
                Field(4, "groups", repeated=True),
                Field(6, "uid"),
            ),
        ),
    ),
    "LocalSubjectAccessReview": (
        _METADATA,
        Field(
            2,
            "spec",
            (
                Field(1, "resourceAttributes", _RESOURCE_ATTRIBUTES),
                Field(2, "nonResourceAttributes", _NON_RESOURCE_ATTRIBUTES),
                Field(3, "user"),
                Field(4, "groups", repeated=True),
                Field(6, "uid"),
            ),
        ),
    ),
}
