"""Report documents that PostgreSQL rejects: jsonb accepts less than JSON does, and a report must not fail a write."""

from __future__ import annotations

import json

_BEGINNING = '{"metadata":{"facets":'


def strip_document(document: str | None) -> str | None:
    """Reduces a document to its indexed fields, so that the object can still be found; None for any other shape.

    `{"metadata":{"facets":{"any":true},"name":"a"},"spec":{..}}` gives `{"metadata":{"facets":{"any":true}}}`.
    """
    if document is None or not document.startswith(_BEGINNING):
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(document, len(_BEGINNING))
    except ValueError:
        return None
    return document[:end] + "}}"
