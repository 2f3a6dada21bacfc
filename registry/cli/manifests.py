"""Manifest files: their documents, and definitions as the server would store them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.cli.errors import CommandError, describe

if TYPE_CHECKING:
    from registry.schema.field import FieldError

Object = dict[str, Any]


def read_definition(document: Object) -> tuple[Object, list[FieldError]]:
    """Returns the definition as it would be stored, from whichever version, and its errors."""
    from registry.definitions import decode, defaulting, strategy, validation
    from registry.definitions.v1beta1 import conversion as beta

    try:
        if document.get("apiVersion") != beta.API_VERSION:
            crd: Object = decode.decode_definition(document).value
            defaulting.default_definition(crd)
            crd = strategy.prepare_for_create(crd)
            return crd, validation.validate_create(crd)
        crd = beta.decode_definition(document).value
        beta.default_definition(crd)
        crd = strategy.prepare_for_create(crd)
        errors = validation.validate_create(crd, demands=validation.OF_V1BETA1, spec=beta.internal_beta(crd))
        return beta.to_v1(crd), errors
    except decode.StructDecodeError as error:
        raise CommandError(f"the definition cannot be read: {error}") from error


def documents_of(path: Path) -> Iterator[Object]:
    from registry.codec.model import DecodeError, TooManyValues
    from registry.codec.yaml_decode import decode_yaml

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(describe(error, of=path)) from error
    for document in re.split(r"^---[ \t]*(?:#.*)?$", text, flags=re.MULTILINE):
        try:
            value = decode_yaml(document.encode()).value
        except (DecodeError, TooManyValues) as error:
            raise CommandError(describe(error, of=path)) from error
        if value is None:
            continue
        if not isinstance(value, dict):
            raise CommandError(f"{path}: a document is not an object")
        yield from _items(value, path)


def _items(document: Object, path: Path) -> Iterator[Object]:
    """Returns the items of a List, as `kubectl get -o yaml` writes one; else the document itself."""
    if document.get("kind") != "List":
        yield document
        return
    for item in document.get("items") or ():
        if not isinstance(item, dict):
            raise CommandError(f"{path}: an item is not an object")
        yield item
