"""ObjectMeta: decoding with Go's types, and the rules on names, labels, owners and managed fields.

Follows apimachinery pkg/api/validation/objectmeta.go.
"""
