"""API aggregation: versions of groups that another server serves behind this one.

    model         which servers a tenant's APIServices name     automatic      the APIServices of what is served here
    front_proxy   the certificates that prove who passes on     headers        what a request and an answer keep
    backends      where a server is, and connections to it      exchange       one request passed on
    availability  whether a server answers                      documents      its discovery and OpenAPI, fetched
    discovery     local and fetched discovery in one document   openapi        the same for OpenAPI

registry/api/catalog.py holds the model, registry/http/aggregated.py passes requests on, and
registry/controllers/api_services writes conditions and automatic APIServices. Follows kube-aggregator pkg/apiserver and
pkg/controllers.
"""
