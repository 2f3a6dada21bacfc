"""Admission of a write: policies, webhooks, quotas, namespace lifecycle, protection from deletion.

The semantics of policies and webhooks are pure and in registry/admission; here they meet a request (apiserver
pkg/admission).
"""
