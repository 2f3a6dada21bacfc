"""Conversion errors, in kube-apiserver's words."""

from __future__ import annotations


class ConversionError(Exception):
    """The whole text for the client: `conversion webhook for g/v1beta1, Kind=Widget failed: ...`."""
