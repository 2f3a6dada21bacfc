"""CustomResourceDefinitions of apiextensions.k8s.io/v1beta1, which are stored as v1.

Follows apiextensions-apiserver pkg/registry/customresourcedefinition/strategy.go at v0.21.
"""

from __future__ import annotations

from collections.abc import Sequence

from registry.api.strategies.base import Context, Object, Translation
from registry.api.strategies.definition import DefinitionStrategy, StatusOfDefinitions, with_revision
from registry.conversion.declarative.check import validate_rules
from registry.definitions import decode as v1
from registry.definitions import strategy, validation
from registry.definitions import warnings as definition_warnings
from registry.definitions.v1beta1 import decode as beta
from registry.definitions.v1beta1.conversion import internal_beta, served_form, stored_form, to_v1
from registry.schema.field import FieldError


class BetaDefinitionStrategy(DefinitionStrategy):
    known_versions: Sequence[str] = (v1.API_VERSION,)
    _decode_struct = staticmethod(beta.decode_definition)
    _default_struct = staticmethod(beta.default_definition)

    @property
    def translation(self) -> Translation:
        return Translation(self.definition.name, stored_form, served_form, v1.API_VERSION)

    def part(self, subresource: str) -> BetaDefinitionStrategy:
        return _BetaStatusStrategy(self.definition, self.version)

    def validate(self, obj: Object) -> Sequence[FieldError]:
        errors = validation.validate_create(obj, demands=validation.OF_V1BETA1, spec=internal_beta(obj))
        return errors or validate_rules(to_v1(obj))

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        prepared = strategy.prepare_for_update(to_v1(new), to_v1(old))
        new.update(metadata=prepared["metadata"], status=prepared["status"])

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        new, old = with_revision(new, old)
        errors = validation.validate_update(
            new, old, demands=validation.OF_V1BETA1, spec=internal_beta(new), old_spec=internal_beta(old)
        )
        return errors or validate_rules(to_v1(new))

    def finish(self, obj: Object) -> Object:
        return beta.canonical(obj)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return definition_warnings.warnings(to_v1(new), None if old is None else to_v1(old))


class _BetaStatusStrategy(StatusOfDefinitions, BetaDefinitionStrategy):
    """/status of the v1beta1 form."""
