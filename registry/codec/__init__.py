"""Decodes and encodes JSON, YAML, CBOR and protobuf as Kubernetes' serializers do.

Pure; independent of schemas and HTTP. Begin with json_decode.py and model.py.
"""
