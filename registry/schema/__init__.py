"""Structural schemas: pruning, defaulting, validation, list types, ratcheting. One algorithm a module.

Pure; knows no other package but codec. Begin with model.py (what a schema is) and compiled.py (what is done with one).
Follows apiextensions-apiserver pkg/apiserver/schema.
"""
