"""What can go wrong with a conversion: the texts are those that clients of kube-apiserver know."""

from __future__ import annotations


class ConversionError(Exception):
    """The whole text for the client: `conversion webhook for g/v1beta1, Kind=Widget failed: ...`."""


class CallFailed(Exception):
    """A call of a webhook gave no review: the text says why, in Go's words where Go has them."""


class NotReached(CallFailed):
    """There was no connection over which to ask: asking for less does not help."""
