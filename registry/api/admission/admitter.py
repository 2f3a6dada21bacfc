"""Admission in the verbs: policies and webhooks mutate a write, and allow or refuse it.

    admitter = admitter_of(request, options, dry_run=False)
    obj = await admitter.mutate("CREATE", name, obj, None)
    await admitter.validate("CREATE", name, obj, None)

Order: mutating policies, mutating webhooks, reinvocation of those that ask for it, the verb's own validation,
validating policies, validating webhooks (all of them at once; the first refusal in their order counts).

Follows apiserver pkg/admission/{chain,reinvocation}.go and pkg/admission/plugin/{policy,webhook}.
"""

from __future__ import annotations

from collections.abc import Callable

from registry.admission.attributes import AdmissionAttributes, Object, Resource
from registry.admission.configuration import GROUP, TENANT_BYTES, Admission, policies_apply, webhooks_apply
from registry.api.admission.inputs import AdmissionInputs
from registry.api.admission.options import Options
from registry.api.admission.policies import PolicyAdmission
from registry.api.admission.reinvocation import MutationRounds
from registry.api.admission.webhooks import WebhookAdmission
from registry.api.errors import forbidden
from registry.api.request import ResourceRequest
from registry.definitions.model import Definition


class NullAdmitter:
    """Admission if nothing is configured: leaves every object as it is, and allows it."""

    async def mutate(self, operation: str, name: str, obj: Object | None, old: Object | None) -> Object | None:
        return obj

    async def validate(self, operation: str, name: str, obj: Object | None, old: Object | None) -> None:
        pass


_NOTHING = NullAdmitter()


def admitter_of(request: ResourceRequest, options: Callable[[], Options], *, dry_run: bool) -> Admitter | NullAdmitter:
    """Returns the admitter of a request; `options` are the request's, as reviews show them."""
    admission = request.catalog.admission
    if admission is None:
        return _NOTHING
    group, plural = request.served.resource.group, request.served.resource.name
    policies, webhooks = policies_apply(group, plural), webhooks_apply(group, plural)
    if not policies and not webhooks:
        return _NOTHING
    if admission.is_incomplete and group != GROUP:
        why = f"the tenant's admission policies and webhooks take more than {TENANT_BYTES} bytes of memory: delete some"
        raise forbidden(request.served.resource, request.name, why)
    return Admitter(request, admission, options(), dry_run=dry_run, policies=policies, webhooks=webhooks)


class Admitter:
    """Admission of one request. What it reads (namespace, rights) is kept from mutation to validation."""

    def __init__(
        self,
        request: ResourceRequest,
        admission: Admission,
        options: Options,
        *,
        dry_run: bool,
        policies: bool = True,
        webhooks: bool = True,
    ) -> None:
        self._request = request
        self._admission = admission
        self._options = options
        self._dry_run = dry_run
        self._policies = policies
        self._webhooks = webhooks
        self._inputs = AdmissionInputs(request)
        self._by_policies = PolicyAdmission(request, self._inputs)
        self._by_webhooks = WebhookAdmission(request, self._inputs)
        self._mutated: Object = {}  # members of the mutated object, with fields that its schema does not name

    def _attributes(self, operation: str, name: str, obj: Object | None, old: Object | None) -> AdmissionAttributes:
        request = self._request
        served = request.served
        resource = _resource(request, served.definition, served.version.name)
        others = [
            _resource(request, served.definition, version.name)
            for version in served.definition.versions.values()
            if version.served and version is not served.version
        ]
        others += [
            _resource(request, other.definition, other.version.name)
            for other in request.catalog.stored_together(served)
        ]
        namespace = name if resource.resource == "namespaces" and not resource.group else request.namespace
        return AdmissionAttributes(
            operation,
            resource,
            request.subresource,
            namespace,
            name,
            obj,
            old,
            self._options,
            self._dry_run,
            request.context.user.info(),
            others,
        )

    async def mutate(self, operation: str, name: str, obj: Object | None, old: Object | None) -> Object | None:
        """Returns the object after all mutations, decoded by its kind; `obj` and `old` are not changed."""
        if not self._admission.mutates:
            return obj
        # A built-in kind is shown as Go encodes it: with members that the client has left out (`spec: {}`).
        shown = None if obj is None else self._request.served.strategy.as_written(obj)
        attributes = self._attributes(operation, name, shown, old)
        rounds = MutationRounds()
        for rounds.is_reinvoke in (False, True):
            if rounds.is_reinvoke and not rounds.should_reinvoke:
                break
            if self._policies and self._admission.mutating_policies:
                await self._by_policies.mutate(self._admission.mutating_policies, attributes, rounds)
            if self._webhooks and self._admission.mutating_webhooks:
                await self._by_webhooks.mutate(self._admission.mutating_webhooks, attributes, rounds)
        if attributes.object is shown or attributes.object is None:
            return obj if attributes.object is shown else None
        written = await self._inputs.finish(attributes.object, attributes)
        self._mutated = self._parts_of(attributes.object) if written is not attributes.object else {}
        return written

    def _parts_of(self, mutated: Object) -> Object:
        """Returns the members of a mutated custom resource that the request may change, but for metadata."""
        served = self._request.served
        if self._request.subresource == "status":
            names = {"status"} & mutated.keys()
        else:
            names = mutated.keys() - {"metadata", "status" if served.version.status else ""}
        return {name: mutated[name] for name in names}

    async def validate(self, operation: str, name: str, obj: Object | None, old: Object | None) -> None:
        """Raises a StatusError if the write is refused; warnings go to the context."""
        if not self._admission.validates:
            return
        # What a mutation has added and the schema does not name is not written; kube-apiserver, which drops it as late
        # as when it reads, shows it to validation.
        attributes = self._attributes(operation, name, obj and {**obj, **self._mutated}, old)
        if self._policies and self._admission.validating_policies:
            await self._by_policies.validate(self._admission.validating_policies, attributes)
        if self._webhooks and self._admission.validating_webhooks:
            await self._by_webhooks.validate(self._admission.validating_webhooks, attributes)


def _resource(request: ResourceRequest, definition: Definition, version: str) -> Resource:
    kind = (definition.group, version, definition.names.kind)
    if request.subresource == "scale":
        kind = ("autoscaling", "v1", "Scale")
    if request.subresource == "token":
        return Resource("", "v1", "serviceaccounts", *kind)
    return Resource(definition.group, version, definition.names.plural, *kind)
