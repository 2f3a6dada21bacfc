"""Admission: which policies and webhooks apply to a write, and what they decide.

Pure: rules and selectors (rules, selectors), the CEL of policies (environment, dynamic, authorizer, messages), policies
(compilation, validation, mutation), reviews for webhooks (review), validation of configurations (validation_*), and
type checking (typecheck). registry/api/admission/ loads the configuration, waits, and calls webhooks.
"""
