"""The texts of Go's client for unsuccessful answers (apimachinery api/errors, NewGenericServerResponse)."""

from __future__ import annotations

from registry.codec.go_text import go_quote
from registry.codec.json_decode import decode_json
from registry.codec.model import DecodeError
from registry.webhooks.answers import shorten
from registry.webhooks.https import HttpsAnswer

_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
# How much of a refusal's own text an error shows.
_SHOWN_BYTES = 2048
# A longer answer is not decoded: it is no Status that anybody could read, and this runs on the event loop.
_STATUS_BYTES = 64 * 1024


def refusal_text(answer: HttpsAnswer) -> str:
    """Returns the message of a Status; of anything else Go's client quotes plain text."""
    own = _status_message(answer)
    if own is not None:
        return shorten(own)
    known = _REFUSALS.get(answer.status)
    if known is not None:
        return known
    text = "unknown"
    if not answer.content_type or answer.content_type.strip().lower().startswith("text/"):
        text = answer.data[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
    if answer.status == 406 and text in ("", "unknown"):
        return "the server was unable to respond with a content type that the client supports"
    if answer.status in (403, 406, 415):
        return text
    if answer.status >= 500:
        return f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {answer.status} but did not return more information"


def _status_message(answer: HttpsAnswer) -> str | None:
    """Returns the message of `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": ...}`."""
    if len(answer.data) > _STATUS_BYTES:
        return None
    try:
        status = decode_json(answer.data).value
    except DecodeError:
        return None
    if not isinstance(status, dict) or (status.get("apiVersion"), status.get("kind")) != ("v1", "Status"):
        return None
    message = status.get("message", "")
    return message if status.get("status") == "Failure" and isinstance(message, str) else None
