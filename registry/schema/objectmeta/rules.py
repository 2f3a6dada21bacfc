"""Validation of ObjectMeta: names, namespaces, labels, annotations, owners, finalizers, managed fields.

All functions take metadata as returned by decode_object_meta. kube-apiserver validates the same metadata repeatedly on
an update, and lists a cause each time; validate_update_thrice does the same.

Follows apimachinery pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation/validation.go, apiserver
pkg/registry/rest/{create,update}.go and apiextensions-apiserver pkg/registry/customresource/validator.go, all at 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from registry.codec.go_text import GoText, go_json, go_quote
from registry.emulation import emulated
from registry.schema.field import (
    MAX_ERRORS,
    FieldError,
    forbidden,
    invalid,
    join_shortened,
    not_supported,
    required,
    shorten,
    too_long,
)
from registry.schema.names import (
    NameFunction,
    dns1123_label,
    label_key,
    label_value,
    name_is_dns_subdomain,
    name_is_path_segment,
)

MAX_ANNOTATIONS_BYTES = 262144
MAX_MANAGER_BYTES = 128
MAX_SUBRESOURCE_BYTES = 256

ORPHAN = "orphan"
FOREGROUND_DELETION = "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset({ORPHAN, FOREGROUND_DELETION, "kubernetes"})

Meta = Mapping[str, Any]


def validate_object_meta(
    meta: Meta, *, namespaced: bool, name_function: NameFunction = name_is_dns_subdomain, path: str = "metadata"
) -> list[FieldError]:
    """The errors of a new object's metadata, in kube-apiserver's order; a generated name must already be set."""
    errors: list[FieldError] = []
    generate_name = meta.get("generateName")
    if generate_name:
        for message in name_function(generate_name, True):
            errors.append(invalid(f"{path}.generateName", generate_name, message))
    name = meta.get("name")
    if not name:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    else:
        for message in name_function(name, False):
            errors.append(invalid(f"{path}.name", name, message))
    namespace = meta.get("namespace")
    if namespaced:
        if not namespace:
            errors.append(required(f"{path}.namespace"))
        else:
            for message in dns1123_label(namespace):
                errors.append(invalid(f"{path}.namespace", namespace, message))
    elif namespace:
        errors.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    return errors + validate_object_meta_common(meta, path=path)


def validate_object_meta_common(meta: Meta, *, path: str = "metadata") -> list[FieldError]:
    """The rules that do not concern names and namespace."""
    errors: list[FieldError] = []
    _generation(meta, path, errors)
    _labels(meta, path, errors)
    _annotations(meta, path, errors)
    _owner_references(meta, path, errors)
    _finalizers(meta, path, errors)
    _managed_fields(meta, path, errors)
    return errors


def validate_object_meta_update(new: Meta, old: Meta) -> list[FieldError]:
    """The errors that a type's own strategy finds in the metadata of an update (ValidateObjectMetaUpdate)."""
    errors = _transition(new, old, "metadata")
    _labels(new, "metadata", errors)
    _annotations(new, "metadata", errors)
    _owner_references(new, "metadata", errors)
    _managed_fields(new, "metadata", errors)
    return errors


def finalizer_name_errors(meta: Meta) -> list[FieldError]:
    """The errors of finalizers that are neither standard nor qualified: `a.example.com/b` is.

    Only kinds of the core and RBAC groups check it (kubernetes pkg/apis/core/validation, ValidateObjectMeta).
    """
    why = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{position}]", finalizer, why)
        for position, finalizer in enumerate(meta.get("finalizers") or ())
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS
    ]


def validate_custom_meta(meta: Meta, *, namespaced: bool) -> list[FieldError]:
    """The errors of a new custom object's metadata: as `validate_object_meta`; since 1.37 each text once
    (ValidateObjectMetaDeclaratively, whose filter of errors makes an aggregate of them)."""
    errors = validate_object_meta(meta, namespaced=namespaced)
    return _each_once(errors) if emulated().is_1_37 else errors


def validate_custom_meta_update(new: Meta, old: Meta, *, namespaced: bool) -> list[FieldError]:
    """All errors of the metadata in an update of a custom object: as `validate_update_thrice`; since 1.37 the type's
    own have each text once."""
    return validate_update_thrice(new, old, namespaced=namespaced, own_once=emulated().is_1_37)


def validate_update_thrice(new: Meta, old: Meta, *, namespaced: bool, own_once: bool = False) -> list[FieldError]:
    """All errors of the metadata in an update of a definition, causes repeated as kube-apiserver does.

    First the checks common to all updates; then the type's own strategy validates the update again. So an invalid label
    is reported three times, a changed uid twice. A type without rules of its own omits the last. With `own_once` the
    type's own errors have each text once.
    """
    common, update = _common_errors(new, old, namespaced=namespaced)
    return common + (_each_once(update) if own_once else update)


def _common_errors(new: Meta, old: Meta, *, namespaced: bool) -> tuple[list[FieldError], list[FieldError]]:
    """Returns the errors of rest.validateCommonFields, and those of them that are about the update.

    The rules of a new object, with any path segment as a name, come before those of an update.
    """
    errors = validate_object_meta(new, namespaced=namespaced, name_function=name_is_path_segment)
    # If there are none, all rules that look at the new object alone hold.
    update = validate_object_meta_update(new, old) if errors else _transition(new, old, "metadata")
    return errors + update, update


def _each_once(errors: list[FieldError]) -> list[FieldError]:
    return list({error.message(): error for error in errors}.values()) if len(errors) > 1 else errors


def _transition(new: Meta, old: Meta, path: str) -> list[FieldError]:
    """The rules that compare both objects."""
    errors: list[FieldError] = []
    if old.get("deletionTimestamp"):
        _no_new_finalizers(new, old, path, errors)
    if not new.get("resourceVersion"):
        errors.append(invalid(f"{path}.resourceVersion", "", "must be specified for an update"))
    _generation(new, path, errors)
    if new.get("generation", 0) < old.get("generation", 0):
        errors.append(invalid(f"{path}.generation", new.get("generation", 0), "must not be decremented"))
    for name, empty in _IMMUTABLE:
        mine, theirs = new.get(name, empty), old.get(name, empty)
        if mine != theirs:
            errors.append(invalid(f"{path}.{name}", mine, "field is immutable"))
    return errors


# An absent pointer or time prints as null, an absent text as "".
_IMMUTABLE: tuple[tuple[str, Any], ...] = (
    ("name", ""),
    ("namespace", ""),
    ("uid", ""),
    ("creationTimestamp", None),
    ("deletionTimestamp", None),
    ("deletionGracePeriodSeconds", None),
)


def validate_common_fields(new: Meta, old: Meta, *, namespaced: bool) -> list[FieldError]:
    """The checks of every update that precede the type's own strategy (rest.validateCommonFields), which an object of
    another kind passes, too."""
    return _common_errors(new, old, namespaced=namespaced)[0]


def finalizer_warnings(new: Meta, old: Meta | None) -> list[str]:
    """The warnings on finalizers that `new` adds, sorted by name, for custom resources."""
    finalizers = new.get("finalizers")
    if not finalizers:
        return []
    added = set(finalizers) - set(old.get("finalizers") or () if old is not None else ())
    warnings: list[str] = []
    for finalizer in sorted(added):
        start = f"metadata.finalizers: {go_quote(finalizer)}: "
        warnings.extend(start + message for message in label_key(finalizer))
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            including = "including a path (/) " if "." in finalizer else ""
            warnings.append(
                f"{start}prefer a domain-qualified finalizer name {including}to avoid accidental conflicts "
                "with other finalizer writers"
            )
    return warnings


def owner_reference_warnings(meta: dict[str, Any]) -> list[str]:
    """Removes duplicate owner references in place, and returns a warning for each.

    kube-apiserver checks before mutating admission, except for patches.
    """
    references = meta.get("ownerReferences")
    if not references or len(references) < 2:
        return []
    unique: dict[frozenset[Any], dict[str, Any]] = {}
    doubles: dict[str, None] = {}
    for reference in references:
        # Members are strings and booleans, which are never equal to each other.
        if unique.setdefault(frozenset(reference.items()), reference) is not reference:
            doubles[reference.get("uid", "")] = None
    if not doubles:
        return []
    meta["ownerReferences"] = list(unique.values())
    return [
        f".metadata.ownerReferences contains duplicate entries; API server dedups owner references in "
        "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) "
        f"observed: {join_shortened(doubles, ', ')}"
    ]


def late_owner_warnings(meta: dict[str, Any]) -> list[str]:
    """Removes duplicate owners that a patch or mutating admission added, and returns the warning."""
    return [
        warning.replace("duplicate entries;", "duplicate entries after mutating admission happens;")
        for warning in owner_reference_warnings(meta)
    ]


# ---- single fields


def _generation(meta: Meta, path: str, errors: list[FieldError]) -> None:
    generation = meta.get("generation", 0)
    if generation < 0:
        errors.append(invalid(f"{path}.generation", generation, "must be greater than or equal to 0"))


def _labels(meta: Meta, path: str, errors: list[FieldError]) -> None:
    labels = meta.get("labels")
    if labels:
        errors.extend(label_errors(labels, f"{path}.labels"))


def label_errors(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    for key, value in labels.items():
        for message in label_key(key):
            yield invalid(path, key, message)
        for message in label_value(value):
            yield invalid(path, value, message)


def _annotations(meta: Meta, path: str, errors: list[FieldError]) -> None:
    annotations = meta.get("annotations")
    if not annotations:
        return
    size = 0
    for key, value in annotations.items():
        for message in label_key(key.lower()):
            errors.append(invalid(f"{path}.annotations", key, message))
        size += len(key) + (len(value) if value.isascii() else len(value.encode()))
    if size > MAX_ANNOTATIONS_BYTES:
        errors.append(too_long(f"{path}.annotations", MAX_ANNOTATIONS_BYTES))


def _owner_references(meta: Meta, path: str, errors: list[FieldError]) -> None:
    references = meta.get("ownerReferences")
    if not references:
        return
    path = f"{path}.ownerReferences"
    controller = ""
    quoted: GoText | None = None  # all references; each error has the same text
    for position, reference in enumerate(references):
        if emulated().is_1_37:
            _owner_reference_1_37(reference, f"{path}[{position}]", errors)
        else:
            _owner_reference(reference, path, errors)
        if reference.get("controller"):
            this = shorten(f"{reference.get('kind', '')}/{reference.get('name', '')}")
            if controller:
                if quoted is None:
                    quoted = GoText(f"[{join_shortened(map(_owner_json, references), ',')}]")
                why = (
                    'Only one reference can have Controller set to true. Found "true" in references '
                    f"for {controller} and {this}"
                )
                errors.append(invalid(path, quoted, why))
            else:
                controller = this
        if len(errors) > MAX_ERRORS:
            return


def _owner_reference(reference: Meta, path: str, errors: list[FieldError]) -> None:
    """The errors of one reference; for a built-in kind, empty members are absent."""
    api_version = reference.get("apiVersion", "")
    group, _, version = api_version.rpartition("/")
    if not version or "/" in group:
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    for name in ("kind", "name", "uid"):
        if not reference.get(name):
            errors.append(invalid(f"{path}.{name}", "", "must not be empty"))
    _banned_owner(reference, path, errors)


def _owner_reference_1_37(reference: Meta, path: str, errors: list[FieldError]) -> None:
    """The same since 1.37, which distinguishes missing fields from invalid ones."""
    api_version = reference.get("apiVersion", "")
    group, _, version = api_version.rpartition("/")
    if not api_version:
        errors.append(required(f"{path}.apiVersion", "must not be empty"))
    elif not version or "/" in group:
        errors.append(invalid(f"{path}.apiVersion", api_version, "must be <group>/<version> or <version>"))
    for name in ("kind", "name", "uid"):
        if not reference.get(name):
            errors.append(required(f"{path}.{name}", "must not be empty"))
    _banned_owner(reference, path, errors)


def _banned_owner(reference: Meta, path: str, errors: list[FieldError]) -> None:
    if reference.get("apiVersion", "") in ("v1", "/v1") and reference.get("kind", "") == "Event":
        errors.append(
            invalid(path, GoText(_owner_json(reference)), "/v1, Kind=Event is disallowed from being an owner")
        )


def _owner_json(reference: Meta) -> str:
    """The reference as Go prints the struct: its fields in declaration order, not sorted."""
    names = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
    return "{" + ",".join(f'"{name}":{go_json(reference[name])}' for name in names if name in reference) + "}"


def _finalizers(meta: Meta, path: str, errors: list[FieldError]) -> None:
    finalizers = meta.get("finalizers")
    if not finalizers:
        return
    for finalizer in finalizers:
        for message in label_key(finalizer):
            errors.append(invalid(f"{path}.finalizers", finalizer, message))
    if ORPHAN in finalizers and FOREGROUND_DELETION in finalizers:
        why = f"finalizer {ORPHAN} and {FOREGROUND_DELETION} cannot be both set"
        errors.append(invalid(f"{path}.finalizers", finalizers, why))


def _no_new_finalizers(new: Meta, old: Meta, path: str, errors: list[FieldError]) -> None:
    extra = sorted(set(new.get("finalizers") or ()) - set(old.get("finalizers") or ()))
    if extra:
        names = join_shortened(map(go_quote, extra), ", ")
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{names}}}"
        errors.append(forbidden(f"{path}.finalizers", why))


def _managed_fields(meta: Meta, path: str, errors: list[FieldError]) -> None:
    for position, entry in enumerate(meta.get("managedFields") or ()):
        here = f"{path}.managedFields[{position}]"
        operation = entry.get("operation", "")
        if operation not in ("Apply", "Update"):
            errors.append(_wrong_operation(operation, f"{here}.operation"))
        fields_type = entry.get("fieldsType", "")
        if fields_type and fields_type != "FieldsV1":
            errors.append(invalid(f"{here}.fieldsType", fields_type, "must be `FieldsV1`"))
        errors.extend(validate_field_manager(entry.get("manager", ""), f"{here}.manager"))
        if len(entry.get("subresource", "").encode()) > MAX_SUBRESOURCE_BYTES:
            errors.append(too_long(f"{here}.subresource", MAX_SUBRESOURCE_BYTES))


def _wrong_operation(operation: str, path: str) -> FieldError:
    if not emulated().is_1_37:
        return invalid(path, operation, "must be `Apply` or `Update`")
    return not_supported(path, operation, ["Apply", "Update"]) if operation else required(path, "must not be empty")


def validate_field_manager(manager: str, path: str) -> list[FieldError]:
    """The errors of a field manager's name; an empty one counts as absent."""
    errors: list[FieldError] = []
    if len(manager.encode()) > MAX_MANAGER_BYTES:
        errors.append(too_long(path, MAX_MANAGER_BYTES))
    if not manager.isprintable():
        position = 0
        for character in manager:
            if not character.isprintable():
                errors.append(
                    invalid(path, manager, f"invalid character U+{ord(character):04X} (at position {position})")
                )
            position += len(character.encode())
    return errors
