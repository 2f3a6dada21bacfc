"""The settings of the server: declarations.py says what there is, loading.py where values come from."""
