"""Calls to external servers: where they may go, one bounded HTTPS client for all of them, and webhooks on top of it.

    endpoint   the webhook that a clientConfig names           services   where its `service` is
    client     calls of webhooks, with Go's error texts
    https      one exchange, each phase bounded                connection resolve, check, connect
    http1      a connection that streams bodies                streaming  connections that are kept, by tenant
    tls        whom a CA bundle trusts                         slots      limits of concurrency by key
    egress     which addresses may be called                   answers    what may be decoded, and where
    review     an answer as an object

OIDC discovery and key sets also use `https` (registry/authentication/oidc/provider.py).
"""
