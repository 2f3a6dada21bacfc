"""Whether a schema is structural, and what else it may not say: judged when a definition is written.

Follows apiextensions-apiserver pkg/apiserver/schema/{structural,validation}.go.
"""
