"""Calls to servers of others: where they may go, one bounded HTTPS client for all of them, and webhooks on top of it.

    endpoint   the webhook that a clientConfig names           services   where its `service` is
    client     calls of webhooks, in the words of Go's client  refusals   what those words are
    https      one exchange, each phase bounded                connection resolve, check, connect
    egress     which addresses may be called                   special_purpose  the registries behind it
    answers    what may be decoded, and where                  review     an answer as an object

OIDC discovery and key sets go through `https` as well (registry/authentication/oidc/provider.py).
"""
