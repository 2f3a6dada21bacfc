"""Endpoints that are not resources: discovery, OpenAPI, health, OpenID metadata, version and metrics.

Begin at registry/http/routes.py, which names the path of each.
"""
