"""The Go structs of admissionregistration.k8s.io/v1, as tables for registry/definitions/structs/structs.py.

Follows staging/src/k8s.io/api/admissionregistration/v1/types.go at v1.36.
"""

from __future__ import annotations

from dataclasses import replace

from registry.builtin.meta_structs import Condition, LabelSelector, kind
from registry.definitions.structs.scalars import BYTES, INT_32, INT_64, STRING, string_type
from registry.definitions.structs.structs import STRINGS, Field, Pointer, Slice, Struct

_FAILURE_POLICY = Field("failurePolicy", Pointer(string_type("FailurePolicyType")))
_MATCH_POLICY = Field("matchPolicy", Pointer(string_type("MatchPolicyType")))

_RULE = (
    Field("apiGroups", STRINGS, embedded="Rule"),
    Field("apiVersions", STRINGS, embedded="Rule"),
    Field("resources", STRINGS, embedded="Rule"),
    Field("scope", Pointer(string_type("ScopeType")), embedded="Rule"),
)
_RULE_WITH_OPERATIONS = (Field("operations", Slice(string_type("OperationType"))), *_RULE)
_RuleWithOperations = Struct("RuleWithOperations", _RULE_WITH_OPERATIONS)
_NamedRule = Struct(
    "NamedRuleWithOperations",
    (
        Field("resourceNames", STRINGS),
        *(
            replace(field, embedded=".".join(part for part in ("RuleWithOperations", field.embedded) if part))
            for field in _RULE_WITH_OPERATIONS
        ),
    ),
)

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
                Field("parameterNotFoundAction", Pointer(string_type("ParameterNotFoundActionType"))),
            ),
        )
    ),
)

_Validation = Struct(
    "Validation",
    (
        Field("expression", STRING, True),
        Field("message", STRING),
        Field("reason", Pointer(string_type("StatusReason"))),
        Field("messageExpression", STRING),
    ),
)

ValidatingAdmissionPolicy = kind(
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
                Field("conditions", Slice(Condition)),
            ),
        ),
        True,
    ),
)

ValidatingAdmissionPolicyBinding = kind(
    "ValidatingAdmissionPolicyBinding",
    Field(
        "spec",
        Struct(
            "ValidatingAdmissionPolicyBindingSpec",
            (
                Field("policyName", STRING),
                _PARAM_REF,
                Field("matchResources", Pointer(MatchResources)),
                Field("validationActions", Slice(string_type("ValidationAction"))),
            ),
        ),
        True,
    ),
)

_Expression = (Field("expression", STRING),)
MutatingAdmissionPolicy = kind(
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
                                Field("patchType", string_type("PatchType"), True),
                                Field("applyConfiguration", Pointer(Struct("ApplyConfiguration", _Expression))),
                                Field("jsonPatch", Pointer(Struct("JSONPatch", _Expression))),
                            ),
                        )
                    ),
                ),
                _FAILURE_POLICY,
                _MATCH_CONDITIONS,
                Field("reinvocationPolicy", string_type("ReinvocationPolicyType")),
            ),
        ),
        True,
    ),
)

MutatingAdmissionPolicyBinding = kind(
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
    Field("sideEffects", Pointer(string_type("SideEffectClass")), True),
    Field("timeoutSeconds", Pointer(INT_32)),
    Field("admissionReviewVersions", STRINGS, True),
)

ValidatingWebhookConfiguration = kind(
    "ValidatingWebhookConfiguration",
    Field("webhooks", Slice(Struct("ValidatingWebhook", (*_WEBHOOK, _MATCH_CONDITIONS)))),
)
MutatingWebhookConfiguration = kind(
    "MutatingWebhookConfiguration",
    Field(
        "webhooks",
        Slice(
            Struct(
                "MutatingWebhook",
                (
                    *_WEBHOOK,
                    Field("reinvocationPolicy", Pointer(string_type("ReinvocationPolicyType"))),
                    _MATCH_CONDITIONS,
                ),
            )
        ),
    ),
)
