"""What can go wrong with a conversion: the texts are those that clients of kube-apiserver know."""

from __future__ import annotations


class ConversionError(Exception):
    """The whole text for the client: `conversion webhook for g/v1beta1, Kind=Widget failed: ...`."""
