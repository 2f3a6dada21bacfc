"""What each verb means (apiserver pkg/endpoints/handlers and pkg/registry/generic/registry), whatever the resource.

A verb knows neither HTTP nor SQL: it takes a ResourceRequest and gives an Answer. dispatch.py finds the function of a
verb. Begin with pipeline.py, which every write goes through by its stages, and driver.py, which starts it again; then
create.py, update.py and delete.py, the three operations. Reads are get.py, list.py and watch.py.
"""
