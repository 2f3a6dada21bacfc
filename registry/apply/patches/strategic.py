"""Strategic merge patches of built-in kinds: merge patches with keyed lists and directives.

`$patch: replace|delete` in an object or a list item, `$retainKeys`, `$deleteFromPrimitiveList/<list>` and
`$setElementOrder/<list>`. Neither the object nor the patch is changed. Custom resources do not support them.

Follows apimachinery pkg/util/strategicpatch/patch.go and apiserver's interpretStrategicMergePatchError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from registry.apply.errors import PatchInapplicable, PatchUndecodable, StrategicPatchError
from registry.apply.patches.strategic_kinds import Fields, StrategicField, fields_of
from registry.apply.validate import go_plain, go_text
from registry.codec.go_text import go_type, json_type
from registry.codec.sorting import sorted_by
from registry.schema.model import Json

Object = dict[str, Json]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_ORDER = "$setElementOrder"

_NO_FIELD = StrategicField()


def apply_strategic(kind: str, document: Object, patch: Json) -> Json:
    """The object of a built-in kind after a patch: `{"metadata": {"finalizers": ["a"]}}` adds one in front.

    Raises PatchUndecodable, StrategicPatchError or PatchInapplicable.
    """
    if patch is None:
        return document
    if not isinstance(patch, dict):
        raise PatchUndecodable(
            f"json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}"
        )
    try:
        return _merge_map(document, patch, fields_of(kind))
    except RecursionError:
        raise StrategicPatchError("the patch and the object are nested too deeply", 400) from None


def _merge_map(original: Object, patch: Object, fields: Fields) -> Object:
    if _DIRECTIVE in patch:
        return _by_directive(patch)
    result, patch = dict(original), dict(patch)
    _retain(result, patch)
    for name in [name for name in patch if name.startswith(_ORDER)]:
        _merge_in_order(result, patch, name, fields)
    for name, value in patch.items():
        deletes = name.startswith(_DELETE_FROM)
        if deletes:
            name = _require_list(name, _DELETE_FROM, "primitive list")
        if value is None:
            result.pop(name, None)
        elif name not in result or type(result[name]) is not type(value):
            if not deletes:
                _set(result, name, value)
        else:
            result[name] = _merge_value(result[name], value, fields.get(name, _NO_FIELD), deletes)
    return result


def _by_directive(patch: Object) -> Object:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    raise _unknown(directive, patch)


def _unknown(directive: Json, patch: Object) -> StrategicPatchError:
    return StrategicPatchError(f"unknown patch type: {go_text(directive)} in map: {go_plain(patch)}")


def _retain(result: Object, patch: Object) -> None:
    """Removes what `$retainKeys` does not list; it must list all that the patch sets. Changes both."""
    if _RETAIN not in patch:
        return
    listed = patch.pop(_RETAIN)
    if not isinstance(listed, list):
        raise StrategicPatchError("invalid patch format of retainKeys", 400)
    retained = {name for name in listed if isinstance(name, str)}
    for name, value in patch.items():
        if value is not None and not name.startswith((_DELETE_FROM, _ORDER)) and name not in retained:
            raise StrategicPatchError("invalid patch format of retainKeys", 400)
    for name in result.keys() - retained:
        del result[name]


def _set(result: Object, name: str, value: Json) -> None:
    """Sets a value without its nulls and directives; if it has a directive of its own, the member is removed."""
    value, keep = _clean(value)
    if keep:
        result[name] = value
    else:
        result.pop(name, None)


def _clean(value: Json) -> tuple[Json, bool]:
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        cleaned = {name: _clean(part) for name, part in value.items() if part is not None}
        return {name: part for name, (part, keep) in cleaned.items() if keep}, True
    if isinstance(value, list):
        return [part for part, keep in map(_clean, value) if keep], True
    return value, True


def _merge_value(original: Json, patch: Json, field: StrategicField, deletes: bool) -> Json:
    if isinstance(patch, dict):
        return _merge_map(original, patch, field.inside)
    if isinstance(patch, list):
        return _merge_list(original, patch, field, deletes) if field.merge or deletes else patch
    return patch


def _merge_list(original: list[Json], patch: list[Json], field: StrategicField, deletes: bool) -> list[Json]:
    if not original and not patch:
        return original
    if _items_kind(original, patch) is not dict:
        if deletes:
            removed = {comparable(item) for item in patch}
            return [item for item in original if comparable(item) not in removed]
        return order_list(list(dict.fromkeys([*original, *patch])), patch, original, _itself)
    if not field.key:
        raise StrategicPatchError("cannot merge lists without merge key for struct")
    original, patch = _without_directives(original, patch, field.key)
    merged = _merge_keyed(original, patch, field)
    key = _key_of(field.key)
    return order_list(merged, patch, original, key)


def _without_directives(original: list[Json], patch: list[Json], key: str) -> tuple[list[Json], list[Json]]:
    """Both lists after the directives of the patch's items have been applied."""
    plain: list[Json] = []
    deleted: set[Any] = set()
    replaces = False
    for item in patch:
        if _DIRECTIVE not in item:
            plain.append(item)
            continue
        directive = item[_DIRECTIVE]
        if directive == "delete":
            if key not in item:
                raise _no_key(item, key)
            deleted.add(comparable(item[key]))
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise StrategicPatchError("merging lists cannot yet be specified in the patch")
        else:
            raise _unknown(directive, item)
    if replaces:
        return plain, []
    return [item for item in original if key not in item or comparable(item[key]) not in deleted], plain


def _merge_keyed(original: list[Json], patch: list[Json], field: StrategicField) -> list[Json]:
    merged = list(original)
    key = _key_of(field.key)
    places: dict[Any, int] = {}
    for place, item in enumerate(merged):
        if field.key in item:
            places.setdefault(comparable(item[field.key]), place)
    for item in patch:
        position = places.setdefault(comparable(key(item)), len(merged))
        if position == len(merged):
            merged.append(item)
        else:
            merged[position] = _merge_map(merged[position], item, field.inside)
    return merged


def _merge_in_order(result: Object, patch: Object, directive: str, fields: Fields) -> None:
    """Merges the list that `$setElementOrder/<list>` names, and orders it accordingly. Changes both objects."""
    order = patch.pop(directive)
    if not isinstance(order, list):
        raise _wrong_type("[]interface {}", order)
    name = _require_list(directive, _ORDER, "setElementOrder list")
    for there in (result, patch):
        if name in there and not isinstance(there[name], list):
            raise _wrong_type("[]interface {}", there[name])
    field = fields.get(name, _NO_FIELD)
    key = _key_of(field.key) if field.key else _itself
    original, items = result.get(name), patch.get(name)
    _check_order(items or [], order, field)
    if original is None and items is None:
        return
    if items is None:
        merged = original
    elif original is None:
        merged = _clean(items)[0]
    else:
        merged = _merge_value(original, items, field, False)
    assert merged is not None
    _items_kind(original or [], items or [])
    result[name] = order_list(merged, order, original or [], key)
    patch.pop(name, None)


def _check_order(patch: list[Json], order: list[Json], field: StrategicField) -> None:
    """The patched items must be in the same order as in the directive."""
    if not patch or not order:
        return
    key = _key_of(field.key) if field.key else _itself
    wanted = iter(order)
    for item in patch:
        if field.key and not isinstance(item, dict):
            raise _wrong_type("map[string]interface {}", item)
        if isinstance(item, dict) and _DIRECTIVE in item:
            continue
        value = key(item)
        if not any(key(other) == value for other in wanted):
            raise StrategicPatchError(
                f"The order in patch list:\n{go_plain(patch)}\n doesn't match {_ORDER} list:\n{go_plain(order)}\n"
            )


def _require_list(name: str, directive: str, what: str) -> str:
    prefix, slash, listed = name.partition("/")
    if not slash or prefix != directive:
        raise StrategicPatchError(f"invalid patch format of {what}", 400)
    return listed


def _items_kind(*lists: list[Json]) -> type:
    kinds = [type(item) for items in lists for item in items]
    if not kinds:
        raise StrategicPatchError("no elements in any of the given slices")
    if kinds[0] is list:
        raise PatchInapplicable("lists of lists are not supported")
    if any(kind is not kinds[0] for kind in kinds):
        raise StrategicPatchError(f"list element types are not identical: {go_plain(list(lists))}")
    return kinds[0]


def _itself(item: Json) -> Any:
    return item


def _key_of(key: str) -> Callable[[Json], Any]:
    def value(item: Json) -> Any:
        if not isinstance(item, dict):
            raise _wrong_type("map[string]interface {}", item)
        if key not in item:
            raise _no_key(item, key)
        return item[key]

    return value


def _no_key(item: Object, key: str) -> StrategicPatchError:
    return StrategicPatchError(f"map: {go_plain(item)} does not contain declared merge key: {key}")


def _wrong_type(expected: str, value: Json) -> StrategicPatchError:
    actual = "%!s(<nil>)" if value is None else go_type(value)
    return StrategicPatchError(f"expected a {expected}, but received a {actual}")


# -- order, as normalizeElementOrder and mergeSortedSlice make it
def order_list(
    merged: list[Json], patch_order: list[Json], server_order: list[Json], key: Callable[[Json], Any]
) -> list[Json]:
    """`merged` in its final order; `key` returns the identity of an item.

    Items of the patch are in the patch's order, the others in their previous order; when both sequences are merged, an
    item of the others comes first only where it preceded the next item of the patch. So new items come first.
    """
    patched, server = _places(patch_order, key), _places(server_order, key)
    right = sorted_by(
        [item for item in merged if comparable(key(item)) in patched], lambda item: patched[comparable(key(item))]
    )
    left = sorted_by(
        [item for item in merged if comparable(key(item)) not in patched],
        lambda item: server.get(comparable(key(item)), 0),
    )
    result: list[Json] = []
    i = j = 0
    while i < len(left) and j < len(right):
        place, other = server.get(comparable(key(left[i]))), server.get(comparable(key(right[j])))
        if place is not None and other is not None and place < other:
            result.append(left[i])
            i += 1
        else:
            result.append(right[j])
            j += 1
    return result + right[j:] + left[i:]


def _places(items: list[Json], key: Callable[[Json], Any]) -> dict[Any, int]:
    places: dict[Any, int] = {}
    for place, item in enumerate(items):
        places.setdefault(comparable(key(item)), place)
    return places


def comparable(value: Json) -> Any:
    """A hashable form of a key. Keys of valid objects are scalars, but a client may send anything."""
    return (type(value), value) if not isinstance(value, (dict, list)) else (type(value), repr(value))
