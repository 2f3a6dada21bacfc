"""The Go structs of admissionregistration.k8s.io/v1, as tables for registry/definitions/structs/structs.py.

Follows staging/src/k8s.io/api/admissionregistration/v1/types.go at v1.36.
"""

from __future__ import annotations

from registry.definitions.structs.scalars import BYTES, INT_32, INT_64, STRING, Scalar
from registry.definitions.structs.structs import STRINGS, Field, Pointer, Slice, Struct
from registry.definitions.structs.structs import Map as MapOf
from registry.definitions.types import TIME, ObjectMeta


def _string_type(name: str) -> Scalar:
    return Scalar(f"v1.{name}", str, "")


def _kind(name: str, *fields: Field) -> Struct:
    return Struct(
        name, (Field("kind", STRING), Field("apiVersion", STRING), Field("metadata", ObjectMeta, True), *fields)
    )


_FAILURE_POLICY = Field("failurePolicy", Pointer(_string_type("FailurePolicyType")))
_MATCH_POLICY = Field("matchPolicy", Pointer(_string_type("MatchPolicyType")))

LabelSelector = Struct(
    "LabelSelector",
    (
        Field("matchLabels", MapOf(STRING)),
        Field(
            "matchExpressions",
            Slice(
                Struct(
                    "LabelSelectorRequirement",
                    (
                        Field("key", STRING, True),
                        Field("operator", _string_type("LabelSelectorOperator"), True),
                        Field("values", STRINGS),
                    ),
                )
            ),
        ),
    ),
)

_RULE = (
    Field("operations", Slice(_string_type("OperationType"))),
    Field("apiGroups", STRINGS),
    Field("apiVersions", STRINGS),
    Field("resources", STRINGS),
    Field("scope", Pointer(_string_type("ScopeType"))),
)
_RuleWithOperations = Struct("RuleWithOperations", _RULE)
_NamedRule = Struct("NamedRuleWithOperations", (Field("resourceNames", STRINGS), *_RULE))

MatchResources = Struct(
    "MatchResources",
    (
        Field("namespaceSelector", Pointer(LabelSelector)),
        Field("objectSelector", Pointer(LabelSelector)),
        Field("resourceRules", Slice(_NamedRule)),
        Field("excludeResourceRules", Slice(_NamedRule)),
        _MATCH_POLICY,
    ),
)

_MatchCondition = Struct("MatchCondition", (Field("name", STRING, True), Field("expression", STRING, True)))
_MATCH_CONDITIONS = Field("matchConditions", Slice(_MatchCondition))
_VARIABLES = Field(
    "variables", Slice(Struct("Variable", (Field("name", STRING, True), Field("expression", STRING, True))))
)
_PARAM_KIND = Field("paramKind", Pointer(Struct("ParamKind", (Field("apiVersion", STRING), Field("kind", STRING)))))
_PARAM_REF = Field(
    "paramRef",
    Pointer(
        Struct(
            "ParamRef",
            (
                Field("name", STRING),
                Field("namespace", STRING),
                Field("selector", Pointer(LabelSelector)),
                Field("parameterNotFoundAction", Pointer(_string_type("ParameterNotFoundActionType"))),
            ),
        )
    ),
)

_Validation = Struct(
    "Validation",
    (
        Field("expression", STRING, True),
        Field("message", STRING),
        Field("reason", Pointer(_string_type("StatusReason"))),
        Field("messageExpression", STRING),
    ),
)

_Condition = Struct(
    "Condition",
    (
        Field("type", STRING, True),
        Field("status", _string_type("ConditionStatus"), True),
        Field("observedGeneration", INT_64),
        Field("lastTransitionTime", TIME, True),
        Field("reason", STRING, True),
        Field("message", STRING, True),
    ),
)

ValidatingAdmissionPolicy = _kind(
    "ValidatingAdmissionPolicy",
    Field(
        "spec",
        Struct(
            "ValidatingAdmissionPolicySpec",
            (
                _PARAM_KIND,
                Field("matchConstraints", Pointer(MatchResources)),
                Field("validations", Slice(_Validation)),
                _FAILURE_POLICY,
                Field(
                    "auditAnnotations",
                    Slice(
                        Struct("AuditAnnotation", (Field("key", STRING, True), Field("valueExpression", STRING, True)))
                    ),
                ),
                _MATCH_CONDITIONS,
                _VARIABLES,
            ),
        ),
        True,
    ),
    Field(
        "status",
        Struct(
            "ValidatingAdmissionPolicyStatus",
            (
                Field("observedGeneration", INT_64),
                Field(
                    "typeChecking",
                    Pointer(
                        Struct(
                            "TypeChecking",
                            (
                                Field(
                                    "expressionWarnings",
                                    Slice(
                                        Struct(
                                            "ExpressionWarning",
                                            (Field("fieldRef", STRING, True), Field("warning", STRING, True)),
                                        )
                                    ),
                                ),
                            ),
                        )
                    ),
                ),
                Field("conditions", Slice(_Condition)),
            ),
        ),
        True,
    ),
)

ValidatingAdmissionPolicyBinding = _kind(
    "ValidatingAdmissionPolicyBinding",
    Field(
        "spec",
        Struct(
            "ValidatingAdmissionPolicyBindingSpec",
            (
                Field("policyName", STRING),
                _PARAM_REF,
                Field("matchResources", Pointer(MatchResources)),
                Field("validationActions", Slice(_string_type("ValidationAction"))),
            ),
        ),
        True,
    ),
)

_Expression = (Field("expression", STRING),)
MutatingAdmissionPolicy = _kind(
    "MutatingAdmissionPolicy",
    Field(
        "spec",
        Struct(
            "MutatingAdmissionPolicySpec",
            (
                _PARAM_KIND,
                Field("matchConstraints", Pointer(MatchResources)),
                _VARIABLES,
                Field(
                    "mutations",
                    Slice(
                        Struct(
                            "Mutation",
                            (
                                Field("patchType", _string_type("PatchType"), True),
                                Field("applyConfiguration", Pointer(Struct("ApplyConfiguration", _Expression))),
                                Field("jsonPatch", Pointer(Struct("JSONPatch", _Expression))),
                            ),
                        )
                    ),
                ),
                _FAILURE_POLICY,
                _MATCH_CONDITIONS,
                Field("reinvocationPolicy", _string_type("ReinvocationPolicyType")),
            ),
        ),
        True,
    ),
)

MutatingAdmissionPolicyBinding = _kind(
    "MutatingAdmissionPolicyBinding",
    Field(
        "spec",
        Struct(
            "MutatingAdmissionPolicyBindingSpec",
            (Field("policyName", STRING), _PARAM_REF, Field("matchResources", Pointer(MatchResources))),
        ),
        True,
    ),
)

_ClientConfig = Struct(
    "WebhookClientConfig",
    (
        Field("url", Pointer(STRING)),
        Field(
            "service",
            Pointer(
                Struct(
                    "ServiceReference",
                    (
                        Field("namespace", STRING, True),
                        Field("name", STRING, True),
                        Field("path", Pointer(STRING)),
                        Field("port", Pointer(INT_32)),
                    ),
                )
            ),
        ),
        Field("caBundle", BYTES),
    ),
)
_WEBHOOK = (
    Field("name", STRING, True),
    Field("clientConfig", _ClientConfig, True),
    Field("rules", Slice(_RuleWithOperations)),
    _FAILURE_POLICY,
    _MATCH_POLICY,
    Field("namespaceSelector", Pointer(LabelSelector)),
    Field("objectSelector", Pointer(LabelSelector)),
    Field("sideEffects", Pointer(_string_type("SideEffectClass")), True),
    Field("timeoutSeconds", Pointer(INT_32)),
    Field("admissionReviewVersions", STRINGS, True),
)

ValidatingWebhookConfiguration = _kind(
    "ValidatingWebhookConfiguration",
    Field("webhooks", Slice(Struct("ValidatingWebhook", (*_WEBHOOK, _MATCH_CONDITIONS)))),
)
MutatingWebhookConfiguration = _kind(
    "MutatingWebhookConfiguration",
    Field(
        "webhooks",
        Slice(
            Struct(
                "MutatingWebhook",
                (
                    *_WEBHOOK,
                    Field("reinvocationPolicy", Pointer(_string_type("ReinvocationPolicyType"))),
                    _MATCH_CONDITIONS,
                ),
            )
        ),
    ),
)
