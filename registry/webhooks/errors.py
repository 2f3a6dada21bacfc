"""Errors of webhook calls, with the texts that clients of kube-apiserver know."""

from __future__ import annotations


class CallFailed(Exception):
    """A call gave no usable answer: the text says why, in Go's words where Go has them."""


class NotReached(CallFailed):
    """No connection could be made to send the request: a smaller request would not help."""
