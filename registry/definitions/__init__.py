"""CustomResourceDefinitions: decoded as Go decodes them, defaulted, validated, named, and compiled to a Definition.

Pure. Begin with model.py (what a definition compiles to), then decode.py and validation.py.
Follows apiextensions-apiserver pkg/apis/apiextensions.
"""
