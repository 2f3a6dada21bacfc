"""How calls of webhooks fail: the texts are those that clients of kube-apiserver know."""

from __future__ import annotations


class CallFailed(Exception):
    """A call gave no answer that can be used: the text says why, in Go's words where Go has them."""


class NotReached(CallFailed):
    """There was no connection to send the request over: asking for less does not help."""
