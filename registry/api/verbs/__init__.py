"""One module a verb (apiserver pkg/endpoints/handlers), and dispatch.py, which finds it."""
