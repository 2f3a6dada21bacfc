"""Admission by policies: matching, mutation and validation.

Follows apiserver pkg/admission/plugin/policy/{mutating,validating}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from registry.admission.activation import Failed, Inputs
from registry.admission.attributes import AdmissionAttributes, Object, Resource
from registry.admission.policies import (
    MutatingPolicy,
    MutationFailed,
    PolicyBinding,
    PolicyDecision,
    PolicyOutcome,
    ValidatingPolicy,
)
from registry.api.admission.inputs import AdmissionInputs, ConfigurationError
from registry.api.admission.metrics import CHECKS, NO_ERROR
from registry.api.admission.reinvocation import MutationRounds, is_unchanged
from registry.api.errors import Qualified, StatusError, forbidden
from registry.api.request import ResourceRequest
from registry.apply.types import UNTYPED, compile_type
from registry.apply.types import MergeType as AppliedType
from registry.cel.rules.rules import OUT_OF_BUDGET
from registry.codec.json_encode import encode_json_text
from registry.emulation import emulated

_FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"
# The most failures in the audit annotation (pkg/admission/plugin/policy/validating/dispatcher.go).
_MAX_AUDITED: Final = 50
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
# Tenants share schemas, and so their types.
_type_of = lru_cache(maxsize=1024)(compile_type)


class PolicyAdmission:
    """The policies of a tenant for one request."""

    def __init__(self, request: ResourceRequest, inputs: AdmissionInputs) -> None:
        self._request = request
        self._inputs = inputs

    async def mutate(
        self,
        policies: Sequence[tuple[MutatingPolicy, tuple[PolicyBinding, ...]]],
        attributes: AdmissionAttributes,
        rounds: MutationRounds,
    ) -> None:
        progress = rounds.policies
        if rounds.is_reinvoke:
            await progress.require_if_changed(attributes.object)
        errors: list[tuple[str, str]] = []
        mutations = []
        for policy, bindings in policies:
            for binding, resource, params, error in await self._bound(policy, bindings, attributes):
                if error:
                    if policy.fails:
                        errors.append((_denial_message(policy, binding, error), "Forbidden"))
                elif binding is not None:
                    mutations += [(policy, binding, resource, param) for param in params]
        dirty = False
        for policy, binding, resource, param in mutations:
            key = (policy.name, binding.name, (param or {}).get("metadata", {}).get("name"))
            changed, failures = await self._mutate_by(policy, binding, resource, param, attributes, rounds, key)
            if policy.fails:
                errors += [(_denial_message(policy, binding, failure), "Invalid") for failure in failures]
            if changed is None:
                continue
            if changed:
                dirty = rounds.should_reinvoke = True
                progress.require()
            if policy.reinvoked:
                progress.invoked.add(key)
        if dirty:
            progress.require()
        progress.output = attributes.object
        if errors:
            raise self._refusal(attributes, errors)

    async def _mutate_by(
        self,
        policy: MutatingPolicy,
        binding: PolicyBinding,
        resource: Resource,
        param: Object | None,
        attributes: AdmissionAttributes,
        rounds: MutationRounds,
        key: Any,
    ) -> tuple[bool | None, list[str]]:
        """Returns whether the policy changed the object, or None if it was not evaluated; and its failures.

        A failed mutation does not prevent the following ones.
        """
        inputs = await self._policy_inputs(attributes, resource, param)
        try:
            if not await self._inputs.decide(lambda: policy.conditions.hold(inputs, policy.variables)):
                return None, []
        except Failed as failed:
            return None, [str(failed)]
        if rounds.is_reinvoke and key not in rounds.policies.wanted:
            return None, []
        before = attributes.object
        failures: list[str] = []
        for i in range(len(policy.mutations)):
            if attributes.object is None:
                break
            current = replace(inputs, object=await self._inputs.at(attributes.object, resource, attributes))
            schema = self._schema(resource, attributes)

            def mutate(i: int = i, current: Inputs = current, schema: AppliedType = schema) -> Object:
                return policy.mutate(i, current, schema)

            try:
                result = await self._inputs.decide(mutate)
            except MutationFailed as failed:
                failures.append(str(failed))
                continue
            if result is not current.object:
                is_patch = policy.is_json_patch(i)
                attributes.object = await self._inputs.decode(
                    result, resource, attributes, of_policy=True, is_strict=is_patch
                )
        return not await is_unchanged(before, attributes.object), failures

    def _schema(self, resource: Resource, attributes: AdmissionAttributes) -> AppliedType:
        if attributes.subresource == "scale":
            return UNTYPED
        return _type_of(self._inputs.served_at(resource).version.schema().structural)

    def _refusal(self, attributes: AdmissionAttributes, errors: list[tuple[str, str]]) -> StatusError:
        text, reason = errors[0]
        base = forbidden(_resource_of(attributes), _display_name(attributes), text, [{"message": m} for m, _ in errors])
        return StatusError(403, reason, text, base.details)

    async def validate(
        self, policies: Sequence[tuple[ValidatingPolicy, tuple[PolicyBinding, ...]]], attributes: AdmissionAttributes
    ) -> None:
        denied: list[tuple[ValidatingPolicy, PolicyBinding | None, PolicyDecision]] = []
        audited: list[dict[str, Any]] = []
        for policy, bindings in policies:
            noted: dict[str, list[str]] = {}
            for binding, resource, params, error in await self._bound(policy, bindings, attributes):
                if error:
                    if policy.fails:
                        denied.append((policy, binding, PolicyDecision(error)))
                    continue
                assert binding is not None
                for param in params:
                    inputs = await self._policy_inputs(attributes, resource, param)

                    def decide(policy: ValidatingPolicy = policy, inputs: Inputs = inputs) -> PolicyOutcome:
                        return policy.validate(inputs)

                    outcome = await self._inputs.decide(decide)
                    denied += self._enforce(policy, binding, outcome, audited)
                    for key, text in outcome.annotations:
                        if text not in noted.setdefault(key, []):
                            noted[key].append(text)
            for key, texts in noted.items():
                self._request.context.annotate(f"{policy.name}/{key}", ", ".join(texts))
        if audited:
            # Servers before 1.37 write the annotation at each failure; only the first write succeeds.
            failures = audited[: _MAX_AUDITED if emulated().is_1_37 else 1]
            self._request.context.annotate(_FAILURE, encode_json_text(failures))
        if denied:
            raise self._denial(attributes, *denied[0])

    def _enforce(
        self, policy: ValidatingPolicy, binding: PolicyBinding, outcome: PolicyOutcome, audited: list[dict[str, Any]]
    ) -> list[tuple[ValidatingPolicy, PolicyBinding | None, PolicyDecision]]:
        """Returns the failures that the binding's actions deny; adds warnings, and failures for the audit log."""
        denied: list[tuple[ValidatingPolicy, PolicyBinding | None, PolicyDecision]] = []
        where = f"'{policy.name}' with binding '{binding.name}'"
        for index, decision in outcome.decisions:
            error_type = _error_type(decision)
            for action in binding.actions:
                self._request.context.once(CHECKS.labels(error_type, action.lower()).inc)
                if action == "Deny":
                    denied.append((policy, binding, decision))
                elif action == "Warn":
                    self._request.context.warnings.append(
                        f"Validation failed for ValidatingAdmissionPolicy {where}: {decision.message}"
                    )
                else:
                    audited.append(_failure(policy, binding, index, decision))
        denied += [(policy, binding, PolicyDecision(error)) for error in outcome.broken]
        return denied

    def _denial(
        self,
        attributes: AdmissionAttributes,
        policy: ValidatingPolicy,
        binding: PolicyBinding | None,
        decision: PolicyDecision,
    ) -> StatusError:
        where = f" with binding '{binding.name}'" if binding is not None else ""
        text = f"ValidatingAdmissionPolicy '{policy.name}'{where} denied request: {decision.message}"
        base = forbidden(_resource_of(attributes), _display_name(attributes), text, [{"message": text}])
        reason = decision.reason or "Invalid"
        return StatusError(_CODES.get(reason, 422), reason, base.message, base.details)

    async def _bound(
        self,
        policy: MutatingPolicy | ValidatingPolicy,
        bindings: tuple[PolicyBinding, ...],
        attributes: AdmissionAttributes,
    ) -> list[tuple[PolicyBinding | None, Resource, list[Object | None], str]]:
        """Returns the bindings by which a policy applies to the request, with their parameters or an error."""
        resource = await self._inputs.match(policy.match, attributes)
        if resource is None:
            return []
        served = None
        if policy.param_kind is not None:
            served = self._inputs.param_resource(policy.param_kind)
            if served is None:
                error = f"failed to find resource referenced by paramKind: '{policy.param_kind}'"
                return [(None, resource, [], f"failed to configure policy: {error}")]
        applicable: list[tuple[PolicyBinding | None, Resource, list[Object | None], str]] = []
        for binding in bindings:
            if binding.match is not None and await self._inputs.match(binding.match, attributes) is None:
                continue
            if policy.param_kind is None or served is None:
                applicable.append((binding, resource, [None], ""))
                continue
            try:
                params = await self._inputs.params(policy.param_kind, served, binding, attributes.namespace)
                applicable.append((binding, resource, list(params), ""))
            except ConfigurationError as error:
                applicable.append((binding, resource, [], f"failed to configure binding: {error}"))
        return applicable

    async def _policy_inputs(self, attributes: AdmissionAttributes, resource: Resource, param: Object | None) -> Inputs:
        return Inputs(
            await self._inputs.at(attributes.object, resource, attributes),
            await self._inputs.at(attributes.old_object, resource, attributes),
            attributes.variable(resource),
            await self._inputs.namespace_object(attributes),
            param,
            self._inputs.decisions,
            self._inputs.rounds,
        )


def _error_type(decision: PolicyDecision) -> str:
    if decision.reason:
        return NO_ERROR
    return "out_of_budget" if decision.message == OUT_OF_BUDGET else "invalid_error"


def _denial_message(policy: MutatingPolicy, binding: PolicyBinding | None, message: str) -> str:
    if binding is None:
        return f'policy "{policy.name}" denied request: {message}'
    return f"policy '{policy.name}' with binding '{binding.name}' denied request: {message}"


def _resource_of(attributes: AdmissionAttributes) -> Qualified:
    return Qualified(attributes.resource.resource, attributes.resource.group)


def _display_name(attributes: AdmissionAttributes) -> str:
    """Returns the name for a refusal: the request's, else the object's, else its generateName."""
    if attributes.name:
        return attributes.name
    metadata = (attributes.object or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"


def _failure(policy: ValidatingPolicy, binding: PolicyBinding, index: int, decision: PolicyDecision) -> dict[str, Any]:
    """Returns a failure as the audit log has it (ValidationFailureValue)."""
    return {
        "message": decision.message,
        "policy": policy.name,
        "binding": binding.name,
        "expressionIndex": index,
        "validationActions": list(binding.actions),
    }
