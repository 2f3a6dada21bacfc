"""The base of built-in kinds; unlike custom resources: no generation, unconditional updates, optional kinds in bodies.

Follows kubernetes pkg/registry/core/*/strategy.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from registry.api.errors import bad_request
from registry.api.strategies.base import Context, Object
from registry.api.strategies.custom import CustomStrategy
from registry.builtin.known_kinds import is_known_kind
from registry.schema.field import FieldError
from registry.schema.names import NameFunction, name_is_dns_subdomain
from registry.schema.objectmeta.decoding import late_owner_warnings, validate_object_meta, validate_object_meta_update

# Groups whose internal types are in a package of another name.
_PACKAGES = {"": "core", "events.k8s.io": "core", "rbac.authorization.k8s.io": "rbac"}


class BuiltinStrategy(CustomStrategy):
    """A built-in kind, by default without a status."""

    allow_unconditional_update = True
    completes_type = True
    # Where upstream registers the kind, which its errors name.
    scheme = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
    # Versions that upstream knows, and that are not served here.
    known_versions: Sequence[str] = ()
    convertible: Sequence[str] = ()

    def check_type(self, obj: Object) -> None:
        kind, api_version = obj["kind"], obj["apiVersion"]
        if kind == self._kind and api_version == self._api_version:
            return
        if kind == self._kind and api_version in (*self.known_versions, *self.convertible):
            raise bad_request(
                f"the API version in the data ({api_version}) does not match the expected API version "
                f"({self._api_version})"
            )
        version = api_version.rpartition("/")[2]
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {self._kind}: {self.type_fault(obj)}')

    def type_fault(self, obj: Object) -> str | None:
        kind, api_version = obj["kind"], obj["apiVersion"]
        if kind == self._kind and api_version in (self._api_version, *self.known_versions, *self.convertible):
            return None
        if self._is_known(kind, api_version):
            version = api_version.rpartition("/")[2]
            return f"converting ({version}.{kind}) to ({self._go_package}.{self._kind}): unknown conversion"
        return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{self.scheme}"'

    @property
    def _go_package(self) -> str:
        """The package of the internal type, for errors."""
        group = self.definition.group
        return _PACKAGES.get(group) or group.partition(".")[0] or "core"

    def _is_known(self, kind: str, api_version: str) -> bool:
        return is_known_kind(kind.removesuffix("List") or kind, api_version)

    def name_function(self) -> NameFunction:
        return name_is_dns_subdomain

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        context.warnings.extend(late_owner_warnings(obj["metadata"]))
        obj["metadata"].pop("generation", None)

    def validate(self, obj: Object) -> Sequence[FieldError]:
        errors = validate_object_meta(
            obj["metadata"], namespaced=self.definition.namespaced, name_function=self.name_function()
        )
        return errors + self.schema.validate_values(obj) + self.schema.validate_list_types(obj)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        context.warnings.extend(late_owner_warnings(new["metadata"]))

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        revision = old["metadata"].get("resourceVersion")
        errors = validate_object_meta_update({**new["metadata"], "resourceVersion": revision}, old["metadata"])
        return errors + self.schema.validate_values(new) + self.schema.validate_list_types(new)

    def warnings(self, new: Object, old: Object | None) -> Sequence[str]:
        return ()
