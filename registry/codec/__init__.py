"""Bytes to plain values and back: JSON, YAML and protobuf, as the decoders of Kubernetes read and write them.

Pure; knows nothing of schemas or of HTTP. Begin with json_decode.py and model.py.
"""
