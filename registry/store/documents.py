"""Documents for reports that PostgreSQL refuses: jsonb takes less than JSON does, and a report must fail no write."""

from __future__ import annotations

import json

_BEGINNING = '{"metadata":{"facets":'


def strip_document(document: str | None) -> str | None:
    """A document of nothing but its indexed fields, by which the object is still found; None for one of another form.

    `{"metadata":{"facets":{"any":true},"name":"a"},"spec":{..}}` gives `{"metadata":{"facets":{"any":true}}}`.
    """
    if document is None or not document.startswith(_BEGINNING):
        return None
    try:
        _, end = json.JSONDecoder().raw_decode(document, len(_BEGINNING))
    except ValueError:
        return None
    return document[:end] + "}}"
