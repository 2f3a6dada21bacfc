"""Services as plain data: nothing here routes to them, but clients list and describe them."""

from __future__ import annotations

from collections.abc import Sequence

from registry.api.strategies.base import Context, Object, ObjectDecodeError
from registry.api.strategies.builtin import BuiltinStrategy
from registry.api.strategies.service_rules import spec_errors
from registry.builtin.service_structs import Service
from registry.definitions.structs import structs
from registry.definitions.structs.base import StructDecodeError
from registry.schema.field import FieldError
from registry.schema.names import NameFunction, name_is_dns1035_label


class ServiceStrategy(BuiltinStrategy):
    returns_deleted_object = True
    allow_create_on_update = True

    def part(self, subresource: str) -> BuiltinStrategy:
        return ServiceStatusStrategy(self.definition, self.version) if subresource == "status" else self

    @property
    def only_name_and_namespace(self) -> bool:
        return True

    def name_function(self) -> NameFunction:
        return name_is_dns1035_label

    def decode(self, obj: Object, unknown: list[str]) -> Object:
        """Decodes a service without its empty fields, which protobuf clients send."""
        try:
            decoded = structs.decode(Service, obj)
        except StructDecodeError as error:
            raise ObjectDecodeError(str(error)) from error
        unknown.extend(decoded.unknown)
        service = decoded.value
        if "spec" in service:
            spec = _without_empty(service["spec"])
            if "ports" in spec:
                spec["ports"] = [_without_empty(port) for port in spec["ports"]]
            service["spec"] = spec
        return super().decode(service, unknown)

    def complete(self, obj: Object) -> Object:
        return self.decode(obj, [])

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        obj["status"] = {"loadBalancer": {}}
        _default_ports(obj)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        new["status"] = old.get("status") or {"loadBalancer": {}}
        _default_ports(new)

    def validate(self, obj: Object) -> Sequence[FieldError]:
        return [*super().validate(obj), *spec_errors(obj.get("spec") or {})]

    def validate_update(self, new: Object, old: Object, warnings: list[str]) -> Sequence[FieldError]:
        """Validates the spec only if it changes: it was valid under the rules of its time."""
        errors = super().validate_update(new, old, warnings)
        return errors if new.get("spec") == old.get("spec") else [*errors, *spec_errors(new.get("spec") or {})]


class ServiceStatusStrategy(ServiceStrategy):
    """/status: only the status can change."""

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        new["spec"] = old.get("spec") or {}
        new["status"] = new.get("status") or {"loadBalancer": {}}


def _without_empty(members: Object) -> Object:
    return {name: value for name, value in members.items() if value not in ("", 0, False)}


def _default_ports(obj: Object) -> None:
    """Defaults targetPort to the port."""
    spec = dict(obj.get("spec") or {})
    if spec.get("ports"):
        spec["ports"] = [{**port, "targetPort": port.get("targetPort") or port.get("port")} for port in spec["ports"]]
    obj["spec"] = spec
