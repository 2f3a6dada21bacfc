"""x-kubernetes-validations: rules of a schema, checked when the schema is written and evaluated on objects.

Follows apiextensions-apiserver pkg/apiserver/schema/cel. Begin with rules.py.
"""
