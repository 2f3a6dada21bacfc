"""Events of both groups: stored in the form of the core group, converted to and from events.k8s.io.

Follows kubernetes pkg/apis/core/validation/events.go, pkg/registry/core/event/strategy.go and
pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from registry.api.strategies.base import Object, Translation
from registry.api.strategies.builtin import TypedStrategy
from registry.builtin.structs import CORE, EVENTS
from registry.codec.go_text import GoText, go_json
from registry.codec.structs import structs
from registry.schema.field import MAX_TEXT, FieldError, invalid, required
from registry.schema.names import (
    NameFunction,
    dns1123_subdomain,
    label_key,
    name_is_dns_subdomain,
    name_is_stored_segment,
)

_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_ACTION, _REASON, _INSTANCE, _MESSAGE = 128, 128, 128, 1024

# Members of the core group's form, and their names in events.k8s.io.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_RENAMED_BACK = {new: old for old, new in _RENAMED.items()}


class EventStrategy(TypedStrategy):
    """Events of the core group. Names are not validated, and little else is without an eventTime."""

    struct = CORE["Event"]
    labels = (*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "type", "reportingComponent", "source")
    controller_field = "reportingComponent"
    checks_metadata = False
    allow_create_on_update = True
    propagates = False
    convertible: Sequence[str] = ("events.k8s.io/v1", "events.k8s.io/v1beta1")

    def name_function(self) -> NameFunction:
        return name_is_stored_segment

    def selectable(self, obj: Object) -> Iterable[tuple[str, str]]:
        involved = obj.get("involvedObject") or {}
        for name in _REFERENCE:
            yield f"involvedObject.{name}", involved.get(name) or ""
        for name in ("reason", "type", "reportingComponent"):
            yield name, obj.get(name) or ""
        yield "source", (obj.get("source") or {}).get("component") or obj.get("reportingComponent") or ""

    def errors(self, obj: Object) -> list[FieldError]:
        return event_errors(obj, self.controller_field)


class NewEventStrategy(EventStrategy):
    """Events of events.k8s.io: all of the new rules apply, and updates may only change the series."""

    struct = EVENTS["Event"]
    checks_finalizers = True
    labels = (*(f"regarding.{name}" for name in _REFERENCE), "reason", "type", "reportingController")
    controller_field = "reportingController"
    convertible = ("v1",)

    @property
    def translation(self) -> Translation:
        return Translation("events", _stored_form, from_core)

    def stored_field(self, label: str) -> str:
        first, dot, rest = label.partition(".")
        return f"{_RENAMED_BACK.get(first, first)}{dot}{rest}"

    def name_function(self) -> NameFunction:
        return name_is_dns_subdomain

    def selectable(self, obj: Object) -> Iterable[tuple[str, str]]:
        return super().selectable(to_core(obj))

    def errors(self, obj: Object) -> list[FieldError]:
        # As Go encodes it: clients that send protobuf write out empty fields, such as an empty source.
        core = to_core(self.finish(obj))
        errors = event_errors(core, self.controller_field) + self.meta_errors(obj) + _series_errors(core)
        if not core.get("eventTime"):
            errors.append(required("eventTime"))
        if core.get("type") not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {core.get('type') or ''}"))
        for name in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if core.get(name):
                errors.append(invalid(name, "", "needs to be unset"))
        return errors

    def update_errors(self, new: Object, old: Object) -> list[FieldError]:
        core, before = to_core(self.finish(new)), to_core(self.finish(old))
        errors = event_errors(core, self.controller_field)
        errors += self.meta_change_errors(new, old)
        if core.get("series") != before.get("series"):
            errors += _series_errors(core)
        return errors + [
            invalid(field, _error_value(name, core.get(name)), "field is immutable")
            for name, field in _IMMUTABLE
            if _member(core, name) != _member(before, name)
        ]


# Fields that an update through events.k8s.io cannot change, by their names in the internal form, which compares the
# reason twice.
_SAME_NAME = (
    "involvedObject reason message source firstTimestamp lastTimestamp count reason type eventTime action related"
)
_IMMUTABLE = (
    *((name, name) for name in _SAME_NAME.split()),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
# Members of internal structs have no JSON names, so errors print Go's names, all of them.
_GO_REFERENCE = {
    "kind": "Kind",
    "namespace": "Namespace",
    "name": "Name",
    "uid": "UID",
    "apiVersion": "APIVersion",
    "resourceVersion": "ResourceVersion",
    "fieldPath": "FieldPath",
}
_GO_STRUCTS: Mapping[str, Mapping[str, str]] = {
    "involvedObject": _GO_REFERENCE,
    "related": _GO_REFERENCE,
    "source": {"component": "Component", "host": "Host"},
}
_EMPTY: Mapping[str, object] = {
    "involvedObject": {},
    "source": {},
    "count": 0,
    "related": None,
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
}


def _member(core: Object, name: str) -> object:
    """Returns a member for comparison. Only `related` is a pointer in Go, so that an empty one is not an absent one."""
    value = core.get(name)
    return value if name == "related" else value or None


def _error_value(name: str, value: object) -> object:
    """Returns the value of a member as an error prints it."""
    if value is None or (not value and name != "related"):
        value = _EMPTY.get(name, "")
    if not isinstance(value, dict):
        return value
    members = (f"{go_json(go)}:{go_json(value.get(key) or '', MAX_TEXT)}" for key, go in _GO_STRUCTS[name].items())
    return GoText(f"{{{','.join(members)}}}")


def event_errors(event: Object, controller_field: str) -> list[FieldError]:
    """Returns the errors by the rules that both groups share, for the core group's form."""
    namespace = event["metadata"].get("namespace") or ""
    involved = (event.get("involvedObject") or {}).get("namespace") or ""
    errors: list[FieldError] = []
    mismatch = invalid("involvedObject.namespace", involved, "does not match event.namespace")
    if event.get("eventTime"):
        if not involved and namespace not in ("default", "kube-system"):
            errors.append(mismatch)
        errors += _reporting_errors(event, controller_field)
    elif (involved or "default") != (namespace or "default"):
        errors.append(mismatch)
    return errors + [invalid("namespace", namespace, problem) for problem in dns1123_subdomain(namespace)]


def _reporting_errors(event: Object, controller_field: str) -> list[FieldError]:
    controller = event.get("reportingComponent") or ""
    errors = [] if controller else [required(controller_field)]
    errors += [invalid(controller_field, controller, problem) for problem in label_key(controller)]
    for name, limit in (("reportingInstance", _INSTANCE), ("action", _ACTION), ("reason", _REASON)):
        errors += _text_errors(event.get(name) or "", name, limit)
    if len((event.get("message") or "").encode()) > _MESSAGE:
        errors.append(_too_long("message", _MESSAGE))
    return errors


def _text_errors(text: str, name: str, limit: int) -> Sequence[FieldError]:
    if not text:
        return [required(name)]
    return [_too_long(name, limit)] if len(text.encode()) > limit else []


def _too_long(name: str, limit: int) -> FieldError:
    return invalid(name, "", f"can have at most {limit} characters")


def _series_errors(event: Object) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _stored_form(event: Object) -> Object:
    """Returns an event of events.k8s.io as the core group's strategy stores it, with the fields that are never omitted
    there."""
    return structs.encode(CORE["Event"], to_core(event))


def to_core(event: Object) -> Object:
    """Converts an event of events.k8s.io to the form of the core group."""
    core = {_RENAMED_BACK.get(name, name): value for name, value in event.items()}
    return {**core, "apiVersion": "v1"}


def from_core(event: Object) -> Object:
    """Converts an event of the core group to the canonical form of events.k8s.io."""
    new = {_RENAMED.get(name, name): value for name, value in event.items()}
    if not new.get("reportingController"):
        new.pop("reportingController", None)
    if not new.get("reportingInstance"):
        new.pop("reportingInstance", None)
    if (series := new.get("series")) is not None:  # the core group omits a count of 0
        new["series"] = {"count": 0, "lastObservedTime": None, **series}
    return {**new, "apiVersion": "events.k8s.io/v1"}
