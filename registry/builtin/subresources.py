"""The subresources of built-in kinds in discovery."""

from __future__ import annotations

from collections.abc import Sequence

from registry.builtin import token_request_definition
from registry.definitions.discovery import Subresource, standard_subresources
from registry.definitions.model import Definition, Version

_MORE: dict[tuple[str, str], tuple[Subresource, ...]] = {
    ("", "namespaces"): (Subresource("finalize", "Namespace", ("update",)),),
    ("", "serviceaccounts"): (
        Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1", token_request_definition()),
    ),
}


def subresources_of(definition: Definition, version: Version) -> Sequence[Subresource]:
    """The subresources of a definition; those of built-in kinds are sorted by name, as in kube-apiserver."""
    more = _MORE.get((definition.group, definition.names.plural), ()) if definition.builtin else ()
    return (
        sorted((*standard_subresources(definition, version), *more), key=lambda s: s.name)
        if more
        else (standard_subresources(definition, version))
    )
