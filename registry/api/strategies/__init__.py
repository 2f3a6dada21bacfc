"""The strategy of each kind: custom resources by their schemas, built-in kinds by code of their own."""

from __future__ import annotations

from collections.abc import Callable

from registry.api.strategies.admission import strategies as admission_strategies
from registry.api.strategies.apiservice import APIServiceStrategy
from registry.api.strategies.base import Strategy
from registry.api.strategies.custom import CustomStrategy
from registry.api.strategies.data import ConfigMapStrategy, SecretStrategy
from registry.api.strategies.definition import BetaDefinitionStrategy, DefinitionStrategy
from registry.api.strategies.event import EventStrategy, NewEventStrategy
from registry.api.strategies.lease import LeaseStrategy
from registry.api.strategies.limitrange import LimitRangeStrategy
from registry.api.strategies.namespace import NamespaceStrategy
from registry.api.strategies.query import QueryStrategy
from registry.api.strategies.rbac import (
    ClusterRoleBindingStrategy,
    ClusterRoleStrategy,
    RoleBindingStrategy,
    RoleStrategy,
)
from registry.api.strategies.resourcequota import ResourceQuotaStrategy
from registry.api.strategies.review import (
    LocalSubjectAccessReviewStrategy,
    SelfSubjectAccessReviewStrategy,
    SelfSubjectReviewStrategy,
    SelfSubjectRulesReviewStrategy,
    SubjectAccessReviewStrategy,
    TokenReviewStrategy,
)
from registry.api.strategies.service import ServiceStrategy
from registry.api.strategies.serviceaccount import ServiceAccountStrategy
from registry.api.strategies.sharing import APIBindingStrategy, ExportStrategy
from registry.api.strategies.storageversionmigration import StorageVersionMigrationStrategy
from registry.api.strategies.tenant import TenantStrategy
from registry.builtin.sharing import binding_definition, export_definition
from registry.builtin.tenancy import tenant_definition
from registry.definitions.model import Definition, Version


def _of_definitions(definition: Definition, version: Version) -> Strategy:
    return (DefinitionStrategy if version.storage else BetaDefinitionStrategy)(definition, version)


# By the name that a built-in definition has in registry/builtin.
_STRATEGIES: dict[str, Callable[[Definition, Version], Strategy]] = {
    "": CustomStrategy,
    "apiservice": APIServiceStrategy,
    "clusterrole": ClusterRoleStrategy,
    "clusterrolebinding": ClusterRoleBindingStrategy,
    "configmap": ConfigMapStrategy,
    "definition": _of_definitions,
    "event": EventStrategy,
    "lease": LeaseStrategy,
    "limitrange": LimitRangeStrategy,
    "localsubjectaccessreview": LocalSubjectAccessReviewStrategy,
    "namespace": NamespaceStrategy,
    "newevent": NewEventStrategy,
    "query": QueryStrategy,
    "resourcequota": ResourceQuotaStrategy,
    "role": RoleStrategy,
    "rolebinding": RoleBindingStrategy,
    "secret": SecretStrategy,
    "selfsubjectaccessreview": SelfSubjectAccessReviewStrategy,
    "selfsubjectreview": SelfSubjectReviewStrategy,
    "selfsubjectrulesreview": SelfSubjectRulesReviewStrategy,
    "service": ServiceStrategy,
    "serviceaccount": ServiceAccountStrategy,
    "storageversionmigration": StorageVersionMigrationStrategy,
    "subjectaccessreview": SubjectAccessReviewStrategy,
    "tokenreview": TokenReviewStrategy,
    **dict(admission_strategies()),
}


def strategy_for(definition: Definition, version: Version) -> Strategy:
    if definition is tenant_definition():
        return TenantStrategy(definition, version)
    if definition is export_definition():
        return ExportStrategy(definition, version)
    if definition is binding_definition():
        return APIBindingStrategy(definition, version)
    return _STRATEGIES[definition.strategy](definition, version)
