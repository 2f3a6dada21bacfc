"""x-kubernetes-validations: expressions of a schema, checked when it is written and run on objects.

Follows apiextensions-apiserver pkg/apiserver/schema/cel. Begin with rules.py.
"""
