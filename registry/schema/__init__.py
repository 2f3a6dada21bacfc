"""Structural schemas: pruning, defaulting, validation, list types, ratcheting. One algorithm per module.

Pure; depends on no other package but codec. Begin with model.py (the model of a schema) and compiled.py (the operations
on one). Follows apiextensions-apiserver pkg/apiserver/schema.
"""
