"""Admission in the verbs: what policies and webhooks make of a write, and whether they let it through.

    admitter = admitter_of(request, options)            # None where nothing is configured
    obj = await admitter.mutate("CREATE", name, obj, None)
    await admitter.validate("CREATE", name, obj, None)

Order: mutating policies, mutating webhooks, once more those that ask for it, then the verb's own validation, validating
policies, validating webhooks (all of them at once; the first refusal in their order counts).

Follows apiserver pkg/admission/{chain,reinvocation}.go and pkg/admission/plugin/{policy,webhook}.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from registry.admission.attributes import Attributes, Object, Resource
from registry.admission.configuration import Admission, policies_apply, webhooks_apply
from registry.admission.environment import OUT_OF_BUDGET, Failed, Inputs
from registry.admission.policies import Binding, Decision, MutatingPolicy, MutationFailed, Outcome, ValidatingPolicy
from registry.admission.rules import Match
from registry.admission.webhooks import Webhook
from registry.api.admission_hooks import Hooks
from registry.api.admission_inputs import AdmissionInputs, ConfigurationError
from registry.api.admission_metrics import CHECKS, NO_ERROR
from registry.api.errors import Qualified, StatusError, forbidden, internal_error
from registry.api.options import DeleteOptions, WriteOptions
from registry.api.request import ResourceRequest
from registry.api.sameness import same
from registry.api.strategy import DecodeError
from registry.apply.types import UNTYPED, compile_type
from registry.apply.types import Type as AppliedType
from registry.codec.json_encode import encode_json_text

logger = logging.getLogger(__name__)

_FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
# Schemas are shared by tenants, and so are their types.
_type_of = lru_cache(maxsize=1024)(compile_type)

Options = Mapping[str, Any]


def write_options_json(kind: str, options: WriteOptions) -> Options:
    """The options of a create or update as reviews show them."""
    found: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        found["dryRun"] = ["All"]
    if options.field_manager:
        found["fieldManager"] = options.field_manager
    if options.field_validation:
        found["fieldValidation"] = options.field_validation
    return found


def delete_options_json(options: DeleteOptions) -> Options:
    found: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    if options.grace_period_seconds is not None:
        found["gracePeriodSeconds"] = options.grace_period_seconds
    wanted = options.preconditions
    conditions = {name: value for name, value in (("uid", wanted.uid), ("resourceVersion", wanted.resource_version))
                  if value is not None}
    if conditions:
        found["preconditions"] = conditions
    if options.orphan_dependents is not None:
        found["orphanDependents"] = options.orphan_dependents
    if options.propagation_policy is not None:
        found["propagationPolicy"] = options.propagation_policy
    if options.dry_run:
        found["dryRun"] = ["All"]
    return found


def admitter_of(request: ResourceRequest, options: Options, *, dry_run: bool) -> Admitter | None:
    """None where the tenant has nothing that could concern this resource."""
    admission = request.catalog.admission
    if admission is None:
        return None
    group, plural = request.served.resource.group, request.served.resource.name
    policies, webhooks = policies_apply(group, plural), webhooks_apply(group, plural)
    if not policies and not webhooks:
        return None
    return Admitter(request, admission, options, dry_run=dry_run, policies=policies, webhooks=webhooks)


class Admitter:
    """Admission of one request. What it has read (namespace, rights) it remembers from mutating to validating."""

    def __init__(self, request: ResourceRequest, admission: Admission, options: Options, *, dry_run: bool,
                 policies: bool = True, webhooks: bool = True) -> None:
        self._request = request
        self._admission = admission
        self._options = options
        self._dry_run = dry_run
        self._policies = policies
        self._webhooks = webhooks
        self._inputs = AdmissionInputs(request)
        self._hooks = Hooks(request, self._inputs)

    @property
    def mutates(self) -> bool:
        return self._admission.mutates

    @property
    def validates(self) -> bool:
        return self._admission.validates

    def _attributes(self, operation: str, name: str, obj: Object | None, old: Object | None) -> Attributes:
        request = self._request
        resource = _resource(request, request.served.version.name)
        others = [_resource(request, version.name) for version in request.served.definition.versions.values()
                  if version.served and version is not request.served.version]
        namespace = name if resource.resource == "namespaces" and not resource.group else request.namespace
        return Attributes(operation, resource, request.subresource, namespace, name, obj, old, self._options,
                          self._dry_run, _user_json(request), others)

    # -- mutating

    async def mutate(self, operation: str, name: str, obj: Object | None, old: Object | None) -> Object | None:
        """The object as policies and webhooks leave it, decoded by its kind; `obj` and `old` are not changed."""
        if not self._admission.mutates:
            return obj
        attributes = self._attributes(operation, name, obj, old)
        rounds = _Rounds()
        for again in (False, True):
            if again and not rounds.again:
                break
            rounds.is_again = again
            if self._policies and self._admission.mutating_policies:
                await self._mutate_by_policies(attributes, rounds)
            if self._webhooks and self._admission.mutating_webhooks:
                await self._mutate_by_webhooks(attributes, rounds)
        return attributes.object

    async def _mutate_by_policies(self, attributes: Attributes, rounds: _Rounds) -> None:
        told = rounds.policies
        if rounds.is_again and told.output is not None and not same(told.output, attributes.object or {}):
            told.require()
        errors: list[tuple[str, str]] = []
        found = []
        for policy, bindings in self._admission.mutating_policies:
            for binding, resource, params, error in await self._bound(policy, bindings, attributes):
                if error:
                    if policy.fails:
                        errors.append((_denied(policy, binding, error), "Forbidden"))
                elif binding is not None:
                    found += [(policy, binding, resource, param) for param in params]
        dirty = False
        for policy, binding, resource, param in found:
            key = (policy.name, binding.name, (param or {}).get("metadata", {}).get("name"))
            try:
                changed = await self._mutate_by(policy, binding, resource, param, attributes, rounds, key)
            except MutationFailed as failed:
                if policy.fails:
                    errors.append((_denied(policy, binding, str(failed)), "Invalid"))
                continue
            if changed is None:
                continue
            if changed:
                dirty = rounds.again = True
                told.require()
            if policy.reinvoked:
                told.invoked.add(key)
        if dirty:
            told.require()
        told.output = attributes.object
        if errors:
            raise self._refused_by_policies(attributes, errors)

    async def _mutate_by(self, policy: MutatingPolicy, binding: Binding, resource: Resource, param: Object | None,
                         attributes: Attributes, rounds: _Rounds, key: Any) -> bool | None:
        """Whether the policy has changed the object; None where it has not been asked."""
        inputs = await self._policy_inputs(attributes, resource, param)
        try:
            if not await self._inputs.decided(lambda: policy.conditions.hold(inputs, policy.variables)):
                return None
        except Failed as failed:
            raise MutationFailed(str(failed)) from failed
        if rounds.is_again and key not in rounds.policies.wanted:
            return None
        before = attributes.object
        failure: MutationFailed | None = None
        for i in range(len(policy.mutations)):
            if attributes.object is None:
                break
            current = replace(inputs, object=await self._inputs.at(attributes.object, resource, attributes))
            schema = self._schema(resource, attributes)

            def mutated(i: int = i, current: Inputs = current, schema: AppliedType = schema) -> Object:
                return policy.mutate(i, current, schema)

            try:
                made = await self._inputs.decided(mutated)
            except MutationFailed as failed:
                failure = failure or failed
                continue
            if made is not current.object:
                attributes.object = await self._decoded(made, resource, attributes)
        if failure is not None:
            raise failure
        return before is not attributes.object and not same(before or {}, attributes.object or {})

    def _schema(self, resource: Resource, attributes: Attributes) -> AppliedType:
        if attributes.subresource == "scale":
            return UNTYPED
        return _type_of(self._inputs.served_at(resource).version.schema().structural)

    async def _decoded(self, obj: Object, resource: Resource, attributes: Attributes) -> Object:
        """What a mutation has made, with the defaults of its kind and nothing that the kind does not know."""
        if attributes.subresource == "scale":
            return obj
        try:
            decoded = self._inputs.served_at(resource).strategy.decode({**obj}, [])
        except DecodeError as error:
            raise internal_error(str(error)) from error
        return await self._inputs.back(decoded, resource, attributes)

    def _refused_by_policies(self, attributes: Attributes, errors: list[tuple[str, str]]) -> StatusError:
        text, reason = errors[0]
        base = forbidden(_qualified(attributes), _shown_name(attributes), text, [{"message": m} for m, _ in errors])
        return StatusError(403, reason, text, base.details)

    async def _mutate_by_webhooks(self, attributes: Attributes, rounds: _Rounds) -> None:
        told = rounds.webhooks
        if rounds.is_again and told.output is not None and not same(told.output, attributes.object or {}):
            told.require()
        for hook in self._admission.mutating_webhooks:
            if rounds.is_again and hook.identity not in told.wanted:
                # The order matters only for its cost: whether it matches is not asked of those who are not called.
                continue
            resource = await self._hooks.matched(hook, attributes)
            if resource is None:
                continue
            if await self._mutate_by_webhook(hook, resource, attributes):
                told.require()
                rounds.again = True
            if hook.reinvoked:
                told.invoked.add(hook.identity)
        told.output = attributes.object

    async def _mutate_by_webhook(self, hook: Webhook, resource: Resource, attributes: Attributes) -> bool:
        verdict = await self._hooks.ask(hook, attributes, resource, mutating=True)
        if verdict is None:
            return False
        current = await self._inputs.at(attributes.object, resource, attributes)
        patched = self._hooks.patched(hook, verdict, current)
        if patched is None or patched is current:
            return False
        before = attributes.object or {}
        attributes.object = await self._decoded(patched, resource, attributes)
        return not same(before, attributes.object)

    # -- validating

    async def validate(self, operation: str, name: str, obj: Object | None, old: Object | None) -> None:
        """Raises a StatusError where the write is refused; warnings go to the context."""
        if not self._admission.validates:
            return
        attributes = self._attributes(operation, name, obj, old)
        if self._policies and self._admission.validating_policies:
            await self._validate_by_policies(attributes)
        if self._webhooks and self._admission.validating_webhooks:
            await self._validate_by_webhooks(attributes)

    async def _validate_by_policies(self, attributes: Attributes) -> None:
        denied: list[tuple[ValidatingPolicy, Binding | None, Decision]] = []
        for policy, bindings in self._admission.validating_policies:
            noted: dict[str, list[str]] = {}
            for binding, resource, params, error in await self._bound(policy, bindings, attributes):
                if error:
                    if policy.fails:
                        denied.append((policy, binding, Decision(error)))
                    continue
                assert binding is not None
                for param in params:
                    inputs = await self._policy_inputs(attributes, resource, param)

                    def judge(policy: ValidatingPolicy = policy, inputs: Inputs = inputs) -> Outcome:
                        return policy.validate(inputs)

                    outcome = await self._inputs.decided(judge)
                    denied += self._enforced(policy, binding, outcome)
                    for key, text in outcome.annotations:
                        if text not in noted.setdefault(key, []):
                            noted[key].append(text)
            for key, texts in noted.items():
                self._request.context.annotate(f"{policy.name}/{key}", ", ".join(texts))
        if denied:
            raise self._denial(attributes, *denied[0])

    def _enforced(self, policy: ValidatingPolicy, binding: Binding,
                  outcome: Outcome) -> list[tuple[ValidatingPolicy, Binding | None, Decision]]:
        """What the binding makes of the failures: those that deny; the others are told."""
        denied: list[tuple[ValidatingPolicy, Binding | None, Decision]] = []
        where = f"'{policy.name}' with binding '{binding.name}'"
        for index, decision in outcome.decisions:
            error_type = _error_type(decision)
            for action in binding.actions:
                CHECKS.labels(error_type, action.lower()).inc()
                if action == "Deny":
                    denied.append((policy, binding, decision))
                elif action == "Warn":
                    self._request.context.warnings.append(
                        f"Validation failed for ValidatingAdmissionPolicy {where}: {decision.message}")
                else:
                    self._note(policy, binding, index, decision)
        denied += [(policy, binding, Decision(error)) for error in outcome.broken]
        return denied

    def _note(self, policy: ValidatingPolicy, binding: Binding, index: int, decision: Decision) -> None:
        failure = {"message": decision.message, "policy": policy.name, "binding": binding.name,
                   "expressionIndex": index, "validationActions": list(binding.actions)}
        self._request.context.annotate(_FAILURE, encode_json_text([failure]))

    def _denial(self, attributes: Attributes, policy: ValidatingPolicy, binding: Binding | None,
                decision: Decision) -> StatusError:
        where = f" with binding '{binding.name}'" if binding is not None else ""
        text = f"ValidatingAdmissionPolicy '{policy.name}'{where} denied request: {decision.message}"
        base = forbidden(_qualified(attributes), _shown_name(attributes), text, [{"message": text}])
        reason = decision.reason or "Invalid"
        return StatusError(_CODES.get(reason, 422), reason, base.message, base.details)

    async def _validate_by_webhooks(self, attributes: Attributes) -> None:
        asked = []
        for hook in self._admission.validating_webhooks:
            resource = await self._hooks.matched(hook, attributes)
            if resource is not None:
                asked.append((hook, resource))
        if len(asked) == 1:
            await self._hooks.ask(*asked[0][:1], attributes, asked[0][1], mutating=False)
            return
        calls = [self._hooks.ask(hook, attributes, resource, mutating=False) for hook, resource in asked]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    # -- both

    async def _bound(self, policy: MutatingPolicy | ValidatingPolicy, bindings: tuple[Binding, ...],
                     attributes: Attributes) -> list[tuple[Binding | None, Resource, list[Object | None], str]]:
        """The bindings by which a policy concerns the request, with their parameters or what is wrong with them."""
        resource = await self._match(policy.match, attributes)
        if resource is None:
            return []
        served = None
        if policy.param_kind is not None:
            served = self._inputs.param_resource(policy.param_kind)
            if served is None:
                error = f"failed to find resource referenced by paramKind: '{policy.param_kind}'"
                return [(None, resource, [], f"failed to configure policy: {error}")]
        found: list[tuple[Binding | None, Resource, list[Object | None], str]] = []
        for binding in bindings:
            if binding.match is not None and await self._match(binding.match, attributes) is None:
                continue
            if policy.param_kind is None or served is None:
                found.append((binding, resource, [None], ""))
                continue
            try:
                params = await self._inputs.params(policy.param_kind, served, binding, attributes.namespace)
                found.append((binding, resource, list(params), ""))
            except ConfigurationError as error:
                found.append((binding, resource, [], f"failed to configure binding: {error}"))
        return found

    async def _match(self, match: Match, attributes: Attributes) -> Resource | None:
        resource = match.resource(attributes)
        if resource is None:
            return None
        labels = await self._inputs.labels_of_namespace(attributes) if match.needs_namespace(attributes) else None
        return resource if match.selects_namespace(attributes, labels) else None

    async def _policy_inputs(self, attributes: Attributes, resource: Resource, param: Object | None) -> Inputs:
        return Inputs(await self._inputs.at(attributes.object, resource, attributes),
                      await self._inputs.at(attributes.old_object, resource, attributes),
                      attributes.request(resource), await self._inputs.namespace_object(attributes), param,
                      self._inputs.decisions)


class _Told:
    """Who of one sort of plugin has been asked and wants to be asked again, and the object as they left it."""

    __slots__ = ("invoked", "output", "wanted")

    def __init__(self) -> None:
        self.invoked: set[Any] = set()
        self.wanted: set[Any] = set()
        self.output: Object | None = None

    def require(self) -> None:
        """The object has changed since those who were asked before saw it."""
        self.wanted |= self.invoked
        self.invoked = set()


class _Rounds:
    __slots__ = ("again", "is_again", "policies", "webhooks")

    def __init__(self) -> None:
        self.again = False          # something has changed the object
        self.is_again = False       # this is the second round
        self.policies = _Told()
        self.webhooks = _Told()


def _error_type(decision: Decision) -> str:
    """As metrics tell it."""
    if decision.reason:
        return NO_ERROR
    return "out_of_budget" if decision.message == OUT_OF_BUDGET else "invalid_error"


def _denied(policy: MutatingPolicy, binding: Binding | None, message: str) -> str:
    if binding is None:
        return f'policy "{policy.name}" denied request: {message}'
    return f"policy '{policy.name}' with binding '{binding.name}' denied request: {message}"


def _qualified(attributes: Attributes) -> Qualified:
    return Qualified(attributes.resource.resource, attributes.resource.group)


def _shown_name(attributes: Attributes) -> str:
    """The name that a refusal tells: that of the request, else of the object, else what it is generated from."""
    if attributes.name:
        return attributes.name
    metadata = (attributes.object or {}).get("metadata") or {}
    return metadata.get("name") or metadata.get("generateName") or "Unknown"


def _resource(request: ResourceRequest, version: str) -> Resource:
    definition = request.served.definition
    kind = (definition.group, version, definition.names.kind)
    if request.subresource == "scale":
        kind = ("autoscaling", "v1", "Scale")
    return Resource(definition.group, version, definition.names.plural, *kind)


def _user_json(request: ResourceRequest) -> dict[str, Any]:
    user = request.context.user
    info: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups),
                            "extra": {key: list(values) for key, values in user.extra.items()}}
    return {name: value for name, value in info.items() if value}
