"""API aggregation: group versions that another server serves behind this one.

    model         the servers that APIServices refer to     automatic      the APIServices of local group versions
    front_proxy   the certificates of this proxy            headers        which headers are forwarded
    backends      locations of servers, connections         priorities     the order of local groups and versions
    availability  whether a server is available             openapi_documents   OpenAPI v2 of servers, fetched
    discovery     local and fetched discovery in one        openapi        the same for OpenAPI

registry/api/catalog.py holds the model, registry/http/middleware/aggregation.py proxies requests, and
registry/controllers/api_services writes conditions and automatic APIServices. Follows kube-aggregator pkg/apiserver and
pkg/controllers.
"""
