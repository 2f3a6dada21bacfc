"""OpenAPI v2 and v3 documents of the served resources."""
