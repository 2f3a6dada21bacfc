"""OpenAPI v2 and v3 documents of what is served."""
