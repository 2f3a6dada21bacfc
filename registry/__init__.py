"""A multi-tenant resource registry: the Kubernetes REST API for custom resources, on PostgreSQL."""

__version__ = "0.2.0.dev0"
