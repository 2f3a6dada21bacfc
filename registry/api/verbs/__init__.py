"""The verbs on any resource (apiserver pkg/endpoints/handlers and pkg/registry/generic/registry).

A verb knows neither HTTP nor SQL: it takes a ResourceRequest and returns an Answer. dispatch.py finds the function of a
verb. Begin with pipeline.py, the stages of every write, and driver.py, which retries it; then create.py, update.py and
delete.py, the three operations. Reads are get.py and watch.py.
"""
