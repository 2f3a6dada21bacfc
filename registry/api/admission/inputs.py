"""Inputs of policies and webhooks: the namespace, parameters, other versions, and decisions on rights.

Each is read when first needed, so that a request pays only for what the tenant's configuration uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from registry.admission.activation import EvaluationRounds, Paused
from registry.admission.attributes import CREATE, AdmissionAttributes, Resource
from registry.admission.authorizer import AuthorizerAnswer, AuthorizerQuestion, Decisions, Undecided
from registry.admission.policies import ParamKind, PolicyBinding
from registry.admission.rules import Match
from registry.admission.selectors import Labels
from registry.api.admission.namespace_lifecycle import NAMESPACES
from registry.api.bodies import field_faults
from registry.api.catalog import TenantCatalog
from registry.api.converted_texts import run_with_conversions
from registry.api.decoding import object_of
from registry.api.errors import Qualified, StatusError, internal_error, not_found, too_large
from registry.api.request import ResourceRequest
from registry.api.selectors.labels import parse_label_selector
from registry.api.served import MAX_BODY_CHARACTERS, Object, Served
from registry.api.strategies.base import ObjectDecodeError
from registry.authentication.user import AUTHENTICATED, User
from registry.authorization.attributes import Attributes as AuthorizationAttributes
from registry.builtin.structs import AUTOSCALING
from registry.codec.go_text import go_json, type_meta_error
from registry.codec.json_size import is_longer
from registry.codec.structs import structs
from registry.codec.structs.base import StructDecodeError
from registry.flowcontrol.evaluation import LARGE_BYTES, evaluate
from registry.flowcontrol.time_slice import TimeSlice
from registry.schema.field import MAX_TEXT
from registry.schema.objectmeta.decoding import drop_malformed
from registry.store.types import ObjectKey, Row, TenantId

T = TypeVar("T")

# The maximum number of objects that a binding may select as parameters.
_MAX_PARAMS = 1000
# The maximum number of different questions about rights in one request.
_MAX_QUESTIONS = 1000
# A rule, at least: matching it takes as long as other work on so many bytes.
_RULE_BYTES = 64
_NAMESPACE_METADATA = tuple(
    """
    name generateName labels annotations uid creationTimestamp deletionTimestamp deletionGracePeriodSeconds
    generation resourceVersion finalizers
    """.split()
)

# What precedes the error of a policy's result that is of another kind.
_CONVERTED = "failed to convert object: "


class ConfigurationError(Exception):
    """Parameters of a policy or binding are not available; the text follows `failed to configure binding: `."""


class _Namespace:
    """The part of a namespace that expressions and selectors see, which requests share while they run: it may have
    thousands of finalizers, and a thousand requests may wait for a webhook."""

    __slots__ = ("__weakref__", "visible")

    def __init__(self, obj: Object) -> None:
        metadata = {name: obj["metadata"][name] for name in _NAMESPACE_METADATA if name in obj["metadata"]}
        self.visible: Object = {"metadata": metadata, "spec": obj.get("spec") or {}, "status": obj.get("status") or {}}


_namespaces: WeakValueDictionary[tuple[TenantId, str, int], _Namespace] = WeakValueDictionary()


class AdmissionInputs:
    def __init__(self, request: ResourceRequest) -> None:
        self._request = request
        self._namespace: _Namespace | None = None
        self._has_metadata = True  # the last mutation has left the object with metadata that is a map, or without
        self._slices = TimeSlice.current()
        self.decisions = Decisions()
        self.rounds = EvaluationRounds(self._slices.expired)

    async def match(self, match: Match, attributes: AdmissionAttributes) -> Resource | None:
        """Returns the resource at the version that matches, None where none does."""
        if self._slices.expired():  # a tenant may have thousands of policies and webhooks
            await self._slices.yield_for_client()
        work = partial(match.resource, attributes)
        size = match.size * _RULE_BYTES
        resource = work() if size <= LARGE_BYTES else await evaluate(work, size, repeatable=True)
        if resource is None:
            return None
        labels = await self.labels_of_namespace(attributes) if match.needs_namespace(attributes) else None
        return resource if match.selects_namespace(attributes, labels) else None

    # -- the namespace

    async def labels_of_namespace(self, attributes: AdmissionAttributes) -> Labels:
        namespace = await self._load_namespace(attributes.namespace)
        labels: Labels = namespace["metadata"].get("labels") or {}
        return labels

    async def namespace_object(self, attributes: AdmissionAttributes) -> Object | None:
        """Returns `namespaceObject` for expressions; None for objects outside of namespaces."""
        if not attributes.namespace or attributes.is_namespace:
            return None
        return await self._load_namespace(attributes.namespace)

    async def _load_namespace(self, name: str) -> Object:
        if self._namespace is None:
            row, _ = await self._request.backend.store.load(self._request.tenant, NAMESPACES, ObjectKey(name))
            if row is None:
                raise not_found(Qualified("namespaces"), name)
            place = (self._request.tenant.id, name, row.revision)
            self._namespace = _namespaces.get(place)
            if self._namespace is None:
                namespace = _Namespace(await object_of(f'"resourceVersion":"{row.revision}",{row.body}'))
                self._namespace = _namespaces.setdefault(place, namespace)
        return self._namespace.visible

    # -- versions

    async def at(self, obj: Object | None, matched: Resource, attributes: AdmissionAttributes) -> Object | None:
        """Converts an object of the request to the version that a configuration has matched."""
        own = attributes.resource
        if obj is None or _same_form(matched, own) or attributes.subresource == "scale":
            return obj
        return await self._convert(obj, own, matched)

    async def back(self, obj: Object, matched: Resource, attributes: AdmissionAttributes) -> Object:
        own = attributes.resource
        if _same_form(matched, own) or attributes.subresource == "scale":
            return obj
        return await self._convert(obj, matched, own)

    async def decode(
        self,
        obj: Object,
        resource: Resource,
        attributes: AdmissionAttributes,
        *,
        of_policy: bool = False,
        is_strict: bool = False,
    ) -> Object:
        """Decodes the result of a mutation for what follows in admission: applies its kind's defaults.

        Custom resources keep unknown fields and lose metadata of another type, as in kube-apiserver.
        Raises a StatusError: 500 for another kind or version, for wrong types and, if `is_strict`, for fields that a
        built-in kind does not have; 413 for an object that is too large to be stored, since the next mutation might
        double it.
        """
        if await evaluate(partial(is_longer, obj, MAX_BODY_CHARACTERS), repeatable=True):
            raise too_large(f"the object would have more than {MAX_BODY_CHARACTERS} characters")
        if attributes.subresource == "scale":
            return obj
        served = self.served_at(resource)
        typed = _with_type(served, obj, _CONVERTED if of_policy else "")
        if not served.definition.builtin:
            metadata = typed.get("metadata", {})
            self._has_metadata = isinstance(metadata, dict)
            typed["metadata"] = drop_malformed(metadata) if self._has_metadata else {}
        unknown: list[str] = []
        try:
            decoded = await evaluate(partial(served.strategy.decode_mutated, typed, unknown))
        except ObjectDecodeError as error:
            raise internal_error(str(error)) from error
        if unknown and is_strict and served.definition.builtin:
            raise internal_error(f"strict decoding error: {', '.join(field_faults([], unknown))}")
        return await self.back(decoded, resource, attributes)

    def struct_of_scale(self, obj: Object, attributes: AdmissionAttributes) -> Object:
        """Returns a Scale as it is after all webhooks of a round: with the fields of its Go struct only."""
        if attributes.subresource != "scale":
            return obj
        try:
            return structs.encode(AUTOSCALING["Scale"], structs.decode(AUTOSCALING["Scale"], obj).value)
        except StructDecodeError:
            return obj  # refused when it is merged back

    async def finish(self, obj: Object, attributes: AdmissionAttributes) -> Object:
        """Returns what is written of a mutated object. Raises a StatusError (500)."""
        if attributes.subresource == "scale":
            return obj
        if attributes.operation == CREATE and not self._has_metadata:
            raise internal_error("system metadata was not initialized")
        try:
            return await evaluate(partial(self._request.served.strategy.finish_mutated, obj))
        except ObjectDecodeError as error:
            raise internal_error(str(error)) from error

    async def _convert(self, obj: Object, of: Resource, to: Resource) -> Object:
        request = self._request
        source, target = self.served_at(of), self.served_at(to)

        def convert() -> Object:
            copied = {**obj, "metadata": dict(obj["metadata"])}
            if of.group == to.group:
                converted = request.served.convert(copied, target.api_version)
            else:
                converted = target.translated_from(source, copied)
            target.version.schema().prune_and_default(converted)
            return converted

        return await request.run_with_conversions(convert)

    def served_at(self, resource: Resource) -> Served:
        """Returns the request's resource at another version, or in another group that stores the same objects."""
        own = self._request.served
        if resource.group != own.resource.group and self._request.subresource != "token":
            return next(
                other
                for other in self._request.catalog.stored_together(own)
                if (other.resource.group, other.version.name) == (resource.group, resource.version)
            )
        definition = own.definition
        if resource.version == own.version.name and self._request.subresource == "token":
            return own  # the resource of a token request is not in the catalog
        return self._request.catalog.at_version(definition, definition.versions[resource.version])

    # -- parameters

    def param_resource(self, kind: ParamKind) -> Served | None:
        return param_resource(self._request.catalog, kind)

    async def params(
        self, kind: ParamKind, served: Served, binding: PolicyBinding, namespace: str
    ) -> Sequence[Object | None]:
        """Returns the parameters of a binding: [None] if it declares none, empty if the binding is to be skipped."""
        ref = binding.param_ref
        if ref is None:
            return [None]
        of_ref = ref.get("namespace") or ""
        if served.namespaced:
            namespace = of_ref or namespace
            if not namespace:
                raise ConfigurationError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif of_ref:
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        rows = await self._param_rows(served, ref, namespace)
        if not rows and ref.get("parameterNotFoundAction") == "Deny":
            raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        converting = self._request.converting(served)
        params = []
        for row in rows:
            params.append(await self._param(converting, row))
        return params

    async def _param_rows(self, served: Served, ref: Mapping[str, Any], namespace: str) -> Sequence[Row]:
        request = self._request
        store = request.backend.store
        if ref.get("name"):
            row, _ = await store.load(request.tenant, served.resource_name, served.key(namespace, ref["name"]))
            return [row] if row is not None else []
        requirements = parse_label_selector(_selector_text(ref.get("selector") or {})).requirements
        page = await store.page(
            request.tenant,
            served.resource_name,
            namespace=namespace if served.namespaced else None,
            limit=_MAX_PARAMS + 1,
            requirements=requirements,
        )
        if len(page.rows) > _MAX_PARAMS:
            raise ConfigurationError(f"more than {_MAX_PARAMS} objects are selected by paramRef.selector")
        if page.more:  # a page of large objects ends early, and a policy needs all of its parameters
            raise ConfigurationError("the objects that are selected by paramRef.selector are too large together")
        return page.rows

    async def _param(self, served: Served, row: Row) -> Object:
        return await run_with_conversions(served, partial(served.object, row), len(row.body))

    # -- rights

    async def decide(self, make: Callable[[], T]) -> T:
        """Returns what `make` returns, once every question about rights that it asks has been answered.

        Other requests run between the expressions. Raises ClientGone if the client has disconnected.
        """
        while len(self.decisions.known) < _MAX_QUESTIONS:
            try:
                return await evaluate(partial(self.rounds.run, make))
            except Undecided as undecided:
                question = undecided.question
            except Paused:
                await self._slices.yield_for_client()
                continue
            self.decisions.known[question] = await self._answer(question)
        raise internal_error("the expressions of a policy ask about too many rights")

    async def _answer(self, question: AuthorizerQuestion) -> AuthorizerAnswer:
        request = self._request
        user = request.context.user if question.account is None else _service_account(*question.account)
        inquiry = AuthorizationAttributes(
            verb=question.verb,
            path=question.path,
            resource=question.resource,
            subresource=question.subresource,
            group=question.group,
            namespace=question.namespace,
            name=question.name,
            of_resource=not question.path,
        )
        decision = await request.backend.authorizer.decide(request.tenant, user, inquiry)
        return AuthorizerAnswer(decision.allowed, decision.reason, decision.evaluation_error)


def param_resource(catalog: TenantCatalog, kind: ParamKind) -> Served | None:
    """Returns the resource of a kind of parameters; None if the tenant has none."""
    group, _, version = kind.api_version.rpartition("/")
    for definition in catalog.definitions():
        if definition.group == group and definition.names.kind == kind.kind:
            return catalog.served(group, version, definition.names.plural)
    return None


def _with_type(served: Served, obj: Object, converted: str) -> Object:
    """Returns a copy with apiVersion and kind, which are filled in for a built-in kind. Raises a StatusError (500).

    An error about the conversion to the kind of the request begins with `converted`.
    """
    if (fault := type_meta_error(obj)) is not None:
        raise internal_error(fault)
    if served.definition.builtin:
        completed = {
            **obj,
            "apiVersion": obj.get("apiVersion") or served.api_version,
            "kind": obj.get("kind") or served.kind.name,
        }
        if (fault := served.strategy.type_fault(completed)) is not None:
            raise internal_error(f"{converted if fault.startswith('converting') else ''}{fault}")
        return completed
    if not obj.get("kind"):
        raise internal_error(f"Object 'Kind' is missing in '{go_json(obj, MAX_TEXT)}'")
    api_version = obj.get("apiVersion") or ""
    if api_version != served.api_version:
        of = f"{api_version if '/' in api_version else '/' + api_version}, Kind={obj['kind']}"
        text = f'{of} is unstructured and is not suitable for converting to "{served.api_version}"'
        raise internal_error(f"{converted}{text}") if converted else StatusError(500, "", text)
    return {**obj}


def _same_form(one: Resource, other: Resource) -> bool:
    """Whether objects of the two have the same form: each version of a group has one form per kind."""
    return (one.group, one.version) == (other.group, other.version)


def _service_account(namespace: str, name: str) -> User:
    return User(
        f"system:serviceaccount:{namespace}:{name}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED),
    )


def _selector_text(selector: Mapping[str, Any]) -> str:
    """Converts a label selector of a configuration to the text form of queries."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for requirement in selector.get("matchExpressions") or ():
        key, values = requirement["key"], ",".join(requirement.get("values") or ())
        parts.append(
            {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}.get(
                requirement["operator"], f"!{key}"
            )
        )
    return ",".join(parts)
