"""CustomResourceDefinitions: decoding as in Go, defaulting, validation, naming, and compilation to a Definition.

Pure. Begin with model.py (what a definition compiles to), then decode.py and validation.py.
Follows apiextensions-apiserver pkg/apis/apiextensions.
"""
