"""Exports and bindings of definitions, and the effect of their writes on the tenants that share (Write.sharing).

Only the controller (registry/controllers/sharing.py) writes the status of a binding: a status that a client sends is
ignored, and the finalizer stays until the controller is done.
"""

from __future__ import annotations

from typing import Final

from registry.api.strategies.base import Context, Object, WriteEffects
from registry.api.strategies.custom import CustomStrategy
from registry.codec.json_encode import encode_json_text
from registry.definitions.model import Definition, Version
from registry.store.types import NO_FLAGS, WriteFlag

FINALIZER: Final = "apis.registry/content"


class ExportStrategy(CustomStrategy):
    controlled = True

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        ending = new is old or bool(new["metadata"].get("deletionTimestamp"))
        name, definitions = new["metadata"]["name"], (new.get("spec") or {}).get("definitions") or []
        effect = {"kind": "export", "export": name, "definitions": definitions, "ending": ending}
        return {"sharing": encode_json_text(effect)}


class APIBindingStrategy(CustomStrategy):
    controlled = True

    def prepare_for_create(self, obj: Object, context: Context) -> None:
        super().prepare_for_create(obj, context)
        metadata = obj["metadata"]
        metadata["finalizers"] = _with_finalizer(metadata.get("finalizers"))
        obj["status"] = {"phase": "Binding"}

    def part(self, subresource: str) -> CustomStrategy:
        return FrozenStrategy(self.definition, self.version)

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        super().prepare_for_update(new, old, context)
        metadata = new["metadata"]
        if FINALIZER in (old["metadata"].get("finalizers") or ()):
            metadata["finalizers"] = _with_finalizer(metadata.get("finalizers"))

    def prepare_for_delete(self, obj: Object, context: Context) -> None:
        if not obj["metadata"].get("deletionTimestamp"):
            obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        if new is old:
            # The binding is removed, and what it has bound with it.
            return {"flags": WriteFlag.CHANGES_DEFINITIONS, "sharing": ending(new)}
        bound = (new.get("status") or {}).get("phase") == "Bound" and not new["metadata"].get("deletionTimestamp")
        flags = NO_FLAGS if old is None else WriteFlag.CHANGES_DEFINITIONS
        return {"flags": flags if bound else flags | WriteFlag.PENDING}


class FrozenStrategy(APIBindingStrategy):
    """/status of a binding for clients: it cannot be changed."""

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        new.clear()
        new.update(old)
        new["metadata"] = dict(old["metadata"])


class ControllerBindingStrategy(APIBindingStrategy):
    """A binding as the controller writes it; `sharing` is the effect of the write."""

    def __init__(self, definition: Definition, version: Version, sharing: str | None) -> None:
        super().__init__(definition, version)
        self._sharing = sharing

    def prepare_for_update(self, new: Object, old: Object, context: Context) -> None:
        """Prepares nothing: the controller's object is complete."""

    def write_effects(self, new: Object, old: Object | None) -> WriteEffects:
        effects = super().write_effects(new, old)
        return effects if self._sharing is None or new is old else {**effects, "sharing": self._sharing}


def ending(binding: Object) -> str:
    return encode_json_text({"kind": "binding", "binding": binding["metadata"]["name"], "ends": True})


def _with_finalizer(finalizers: list[str] | None) -> list[str]:
    names = list(finalizers or ())
    return names if FINALIZER in names else [*names, FINALIZER]
