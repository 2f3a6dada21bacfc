"""Admission of a write: policies, webhooks, quotas, namespace lifecycle, protection from deletion.

What policies and webhooks mean is pure and in registry/admission; here they meet a request (apiserver pkg/admission).
"""
