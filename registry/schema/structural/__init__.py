"""Validation of schemas when a definition is written: structural invariants, keywords, bounds, defaults.

Follows apiextensions-apiserver pkg/apiserver/schema/{structural,validation}.go.
"""
